package uibase

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// PageRows is how many rows of a table a page shows: it stays readable, and cheap to build, however long the table.
const PageRows = 500

// Unknown stands for a number that is not known (webui.Unknown).
const Unknown int64 = -1

// headHTML is the head of every page, as the template "head": it wants Title and Nonce.
//
//go:embed assets/head.html
var headHTML string

//go:embed assets/pages.css
var pagesCSS string

// ParsePage makes a page of a template that begins with {{template "head" .}}. It panics on a mistake in the text, which is
// part of the program.
func ParsePage(name, text string) *template.Template {
	return template.Must(template.New(name).Funcs(timeFuncs(time.Time{})).Funcs(pageFuncs).Parse(headHTML + text))
}

var pageFuncs = template.FuncMap{
	"css": func() template.CSS { return template.CSS(pagesCSS) },
	"mem": func(mb int) string {
		if mb >= 1024 {
			return strconv.FormatFloat(float64(mb)/1024, 'f', 1, 64) + " GiB"
		}
		return strconv.Itoa(mb) + " MiB"
	},
	"bytes": showBytes,
	"age":   showAge,
	"num": func(n int64) string {
		if n == Unknown {
			return "–"
		}
		return strconv.FormatInt(n, 10)
	},
	"release": func(version, family string) string {
		if version == "" && family != "" {
			return "family " + family
		}
		return version
	},
	"limit": func(list any) any {
		v := reflect.ValueOf(list)
		return v.Slice(0, min(v.Len(), PageRows)).Interface()
	},
	"more": func(list any) int { return max(0, reflect.ValueOf(list).Len()-PageRows) },
	// sparkURL is how Spark's page shows the REST gateway: as spark-submit takes it.
	"sparkURL": func(url string) string {
		return "spark://" + strings.TrimPrefix(strings.TrimPrefix(url, "https://"), "http://")
	},
	"slash": func(base string) string { return strings.TrimRight(base, "/") + "/" },
	"cores": func(n int) string {
		if n == 1 {
			return "1 core"
		}
		return strconv.Itoa(n) + " cores"
	},
}

// BuildPage gives the text of a page at the moment now. Its functions that depend on the time are those of that moment.
func BuildPage(page *template.Template, now time.Time, data any) ([]byte, error) {
	t, err := page.Clone()
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := t.Funcs(timeFuncs(now)).Execute(&body, data); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// timeFuncs are the functions that depend on the present time and zone.
func timeFuncs(now time.Time) template.FuncMap {
	return template.FuncMap{
		"time": func(millis int64) string {
			if millis == 0 {
				return "–"
			}
			return time.UnixMilli(millis).In(now.Location()).Format("2006/01/02 15:04:05")
		},
		"since": func(millis int64) string {
			if millis == 0 {
				return "–"
			}
			return showAge(max(0, now.UnixMilli()-millis))
		},
		"duration": func(start, end int64) string {
			if end == 0 {
				end = now.UnixMilli()
			}
			return showAge(max(0, end-start))
		},
	}
}

func showAge(millis int64) string {
	d := time.Duration(millis) * time.Millisecond
	switch {
	case millis == Unknown:
		return "–"
	case d < time.Second:
		return fmt.Sprintf("%d ms", millis)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%.1f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
	return fmt.Sprintf("%.1f d", d.Hours()/24)
}

func showBytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
