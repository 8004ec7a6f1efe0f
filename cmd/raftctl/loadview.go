package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"raftmaster/cluster/load"
)

// bar shows how far a phase is: a bar that moves on a terminal, otherwise a line at its start and every ten seconds.
type bar struct {
	out      io.Writer
	terminal bool

	mu    sync.Mutex
	phase string
	said  time.Time
	width int // of the line that stands on the terminal
}

const (
	barWidth = 30
	barPlain = 10 * time.Second
)

func newBar(out io.Writer) *bar {
	b := &bar{out: out}
	if f, ok := out.(*os.File); ok {
		b.terminal = term.IsTerminal(int(f.Fd()))
	}
	return b
}

func (b *bar) show(p load.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	done := fmt.Sprint(p.Done)
	if p.Total > 0 {
		done += fmt.Sprintf("/%d", p.Total)
	}
	if !b.terminal {
		if p.Phase == b.phase && time.Since(b.said) < barPlain {
			return
		}
		b.phase, b.said = p.Phase, time.Now()
		fmt.Fprintf(b.out, "%s: %s (%.0f %%)\n", p.Phase, done, 100*p.Part)
		return
	}
	if p.Phase != b.phase {
		b.newLine()
		b.phase = p.Phase
	}
	full := int(p.Part * barWidth)
	line := fmt.Sprintf("%-30s [%s%s] %3.0f %% %s", p.Phase, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*p.Part, done)
	fmt.Fprintf(b.out, "\r%-*s", b.width, line)
	b.width = len(line)
}

func (b *bar) newLine() {
	if b.width > 0 {
		fmt.Fprintln(b.out)
		b.width = 0
	}
}

func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newLine()
}

// loadTable prints nothing for a run that ended before its first phase: the error says why.
func loadTable(w io.Writer, r *load.Report) {
	if len(r.Results) == 0 {
		return
	}
	row(w, "WHAT", "COUNT", "SECONDS", "PER SECOND", "P50 MS", "P90 MS", "P99 MS", "MAX MS", "MASTER CPU S", "PER CPU S", "RSS MB")
	for _, s := range r.Results {
		cells := []any{s.Name, s.Count, fmt.Sprintf("%.3f", s.Seconds), fmt.Sprintf("%.0f", s.PerSecond)}
		if l := s.LatencyMS; l != nil {
			for _, v := range []float64{l.P50, l.P90, l.P99, l.Max} {
				cells = append(cells, fmt.Sprintf("%.2f", v))
			}
		} else {
			cells = append(cells, "-", "-", "-", "-")
		}
		if m := s.Master; m != nil {
			per := "-"
			if m.PerCPUSecond > 0 {
				per = fmt.Sprintf("%.0f", m.PerCPUSecond)
			}
			cells = append(cells, fmt.Sprintf("%.2f", m.CPUSeconds), per, fmt.Sprintf("%.1f", m.RSSMB))
		} else {
			cells = append(cells, "-", "-", "-")
		}
		row(w, cells...)
	}
	fmt.Fprintf(w, "\nleader %s; %d workers, %d applications of Spark %s; the generator used %.1f s of CPU and %.0f MB\n",
		clean(r.Leader), r.Workers, r.Apps, clean(r.Release), r.Generator.CPUSeconds, r.Generator.RSSMB)
	if len(r.Errors) > 0 {
		fmt.Fprintf(w, "errors: %s\n", errorList(r.Errors))
	}
}
