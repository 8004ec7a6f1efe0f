package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"raftmaster/transport/webui"
)

// printer writes a result as a table or as JSON.
type printer struct {
	out  io.Writer
	json bool
}

// value writes v as JSON, or calls table.
func (p printer) value(v any, table func(w io.Writer)) error {
	if p.json {
		enc := json.NewEncoder(p.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	tw := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	table(tw)
	return tw.Flush()
}

// row writes one line of a table. Values come from strangers (application names): control characters, which could
// drive a terminal, are made visible.
func row(w io.Writer, cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		s := clean(fmt.Sprint(c))
		if s == "" {
			s = "-"
		}
		fmt.Fprint(w, s)
	}
	fmt.Fprintln(w)
}

// clean makes a text safe for one cell on a terminal.
func clean(s string) string {
	if !strings.ContainsFunc(s, unsafeRune) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unsafeRune(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unsafeRune: control and format characters (bidirectional overrides among them) and broken UTF-8.
func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError
}

func ago(nowMillis, thenMillis int64) string {
	if thenMillis == 0 {
		return "-"
	}
	return age(nowMillis - thenMillis)
}

// age shows a duration in milliseconds with the precision that matters at its size.
func age(millis int64) string {
	d := time.Duration(millis) * time.Millisecond
	switch {
	case millis == webui.Unknown:
		return "-"
	case d < 10*time.Second:
		return d.String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func stamp(millis int64) string {
	if millis == 0 {
		return "-"
	}
	return time.UnixMilli(millis).Format("2006-01-02 15:04:05.000")
}

func number(n int64) string {
	if n == webui.Unknown {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// memory shows MiB as Spark's pages do.
func memory(mb int) string {
	if mb >= 1024 {
		return strconv.FormatFloat(float64(mb)/1024, 'f', 1, 64) + " GiB"
	}
	return strconv.Itoa(mb) + " MiB"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
