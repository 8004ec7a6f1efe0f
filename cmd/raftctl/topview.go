package main

import (
	"fmt"
	"strings"

	"raftmaster/transport/webui"
)

func workerRow(w *webui.Worker, now int64) topRow {
	note := w.Note
	if w.Draining {
		note = strings.TrimSuffix("drained; "+note, "; ")
	}
	return newTopRow(map[int]int64{3: int64(w.CoresUsed), 4: int64(w.MemoryUsedMB), 5: int64(w.Executors), 6: int64(w.Drivers), 7: now - w.LastHeartbeatMillis},
		w.ID, w.State, fmt.Sprintf("%s:%d", w.Host, w.Port), fmt.Sprintf("%d/%d", w.CoresUsed, w.Cores), memory(w.MemoryUsedMB)+"/"+memory(w.MemoryMB),
		w.Executors, w.Drivers, ago(now, w.LastHeartbeatMillis), note)
}

func appRow(x *webui.App, now int64) topRow {
	end, note := x.EndMillis, x.WhyWaiting
	if end == 0 {
		end = now
	}
	if note == "" {
		note = x.EndReason
	}
	return newTopRow(map[int]int64{2: int64(x.Cores), 3: int64(x.Executors), 4: end - x.StartMillis},
		x.ID, x.State, x.Cores, x.Executors, age(end-x.StartMillis), x.User, x.Name, note)
}

func driverRow(d *webui.Driver, now int64) topRow {
	note := d.WhyWaiting
	if note == "" {
		note = d.Exception
	}
	return newTopRow(map[int]int64{2: int64(d.Cores), 3: int64(d.MemoryMB), 4: now - d.SubmittedMillis},
		d.ID, d.State, d.Cores, memory(d.MemoryMB), ago(now, d.SubmittedMillis), d.Worker, d.MainClass, note)
}

func newTopRow(numbers map[int]int64, cells ...any) topRow {
	r := topRow{numbers: numbers}
	for _, c := range cells {
		s := clean(fmt.Sprint(c))
		if s == "" {
			s = "-"
		}
		r.cells = append(r.cells, s)
	}
	return r
}

// header is everything above the list.
func (m *topModel) header() []string {
	d := &m.data
	out := []string{bold + "raftctl top" + plain + "  " + stamp(d.at.UnixMilli()) + m.mode()}
	for _, x := range d.s.answers {
		if x.err != nil {
			out = append(out, fmt.Sprintf("%-24s no answer: %s", clean(x.endpoint), clean(shortError(x.err))))
			continue
		}
		v := &x.value
		line := fmt.Sprintf("%-24s %-8s %-9s term %d  applied %d  up %s", clean(v.Address), clean(v.State), clean(v.Role), v.Term, v.AppliedIndex, ago(v.NowMillis, v.StartedMillis))
		if v.State == webui.StateAlive {
			line = bold + line + plain
		}
		out = append(out, line)
	}
	if best := d.s.best(); best != nil {
		q, c := best.value.Quorum, best.value.Counts
		out = append(out,
			fmt.Sprintf("quorum    %d of %d voters, tolerance %d", q.Reachable, q.Voters, q.Tolerance),
			fmt.Sprintf("workers   %s", orDash(states(c.WorkersByState))),
			fmt.Sprintf("apps      %s   drivers %s", orDash(states(c.AppsByState)), orDash(states(c.DriversByState))),
			fmt.Sprintf("in use    %d/%d cores, %s/%s, %d executors", c.CoresUsed, c.Cores, memory(c.MemoryUsedMB), memory(c.MemoryMB), c.Executors),
			fmt.Sprintf("rates     registrations %s   launch rounds %s   heartbeats %s", perSecond(m.rates.registrations), perSecond(m.rates.launches), perSecond(m.rates.heartbeats)))
		for _, alarm := range best.value.Alarms {
			out = append(out, reverse+"ALARM "+clean(alarm)+plain)
		}
	}
	if d.verdict != nil {
		first, _, _ := strings.Cut(d.verdict.Error(), "\n")
		out = append(out, reverse+clean(first)+plain)
	}
	if d.listErr != nil {
		out = append(out, reverse+"the lists are old: "+clean(shortError(d.listErr))+plain)
	}
	return out
}

// mode says what is not as usual.
func (m *topModel) mode() string {
	out := "  every " + m.interval.String()
	if m.paused {
		out += "  " + reverse + "PAUSED" + plain
	}
	return out + "  ? for help"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func perSecond(r float64) string {
	if r < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f/s", r)
}

var topHelp = []string{
	bold + "raftctl top" + plain, "",
	"  1 w, 2 a, 3 d, tab    workers, applications, drivers",
	"  s, r                  sort by the next column, the other way round",
	"  /                     filter: type, then enter; esc clears it",
	"  up down pgup pgdn     scroll; home and end, too",
	"  space                 pause, and go on",
	"  + -                   ask less often, more often",
	"  q, ctrl-c             quit",
	"", "any key goes back",
}

// room is how many rows of the list fit.
func (m *topModel) room() int { return m.rows - len(m.header()) - 3 }

// page is the whole screen.
func (m *topModel) page() []string {
	if m.help {
		return topHelp
	}
	out := append(m.header(), m.tabs())
	rows := m.list()
	room := max(0, m.rows-len(out)-1)
	m.offset = max(0, min(m.offset, len(rows)-room))
	widths := make([]int, len(topColumns[m.view]))
	for i, c := range topColumns[m.view] {
		widths[i] = textColumns(c.name) + 1 // room for the mark of the sorting
	}
	shown := rows[m.offset:min(len(rows), m.offset+room)]
	for _, r := range shown {
		for i, c := range r.cells {
			widths[i] = max(widths[i], textColumns(c))
		}
	}
	names := make([]string, len(widths))
	for i, c := range topColumns[m.view] {
		names[i] = c.name
		if i == m.sortBy[m.view] {
			names[i] += map[bool]string{false: "*", true: "^"}[m.reversed[m.view]]
		}
	}
	out = append(out, bold+padded(names, widths)+plain)
	for _, r := range shown {
		out = append(out, padded(r.cells, widths))
	}
	return out
}

func (m *topModel) tabs() string {
	counts := [topViews]int{len(m.lists.workers), len(m.lists.apps), len(m.lists.drivers)}
	var out []string
	for v := range topViews {
		name := fmt.Sprintf(" %d %s (%d) ", v+1, topViewNames[v], counts[v])
		if v == m.view {
			name = reverse + name + plain
		}
		out = append(out, name)
	}
	line := strings.Join(out, " ")
	switch {
	case m.typing:
		line += "  filter: " + clean(m.filter) + "_"
	case m.filter != "":
		line += "  filter: " + clean(m.filter)
	}
	return line
}

func textColumns(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func padded(cells []string, widths []int) string {
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(c)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", max(0, widths[i]-textColumns(c))+2))
		}
	}
	return b.String()
}
