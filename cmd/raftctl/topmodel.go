package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"raftmaster/transport/webui"
)

// topView is one of the lists of top.
type topView int

// The lists, in the order of their numbers on the keyboard.
const (
	topWorkers topView = iota
	topApps
	topDrivers
	topViews
)

var topViewNames = [topViews]string{"workers", "apps", "drivers"}

// topData is what one round of questions has found.
type topData struct {
	at      time.Time
	s       survey
	problem string
	// verdict is the error of "status"; nil when all is well.
	verdict error
	// boot is the process whose lists and counters these are, "" when nobody answered.
	boot    string
	workers []webui.Worker
	apps    []webui.App
	drivers []webui.Driver
	// listErr says why the lists are not there.
	listErr error
	// counters are those of commits by command, of the leader alone.
	counters map[string]float64
}

// topRates are events per second since the round before, -1 where they are not known.
type topRates struct{ registrations, launches, heartbeats float64 }

var noRates = topRates{-1, -1, -1}

// topModel is all that top shows, and what keys and answers do to it. It knows no terminal and no clock.
type topModel struct {
	data  topData
	rates topRates
	// lists is the last round that had lists: they stay while nobody answers.
	lists topData

	view     topView
	sortBy   [topViews]int
	reversed [topViews]bool
	filter   string
	typing   bool
	offset   int
	paused   bool
	help     bool
	quit     bool
	interval time.Duration
	cols     int
	rows     int
}

func newTopModel(interval time.Duration) *topModel {
	return &topModel{rates: noRates, interval: interval, cols: 80, rows: 24}
}

// Limits of the interval.
const (
	minTop = 500 * time.Millisecond
	maxTop = time.Minute
)

// take takes the answers of a round up.
func (m *topModel) take(d topData) {
	m.rates = ratesOf(m.lists, d)
	m.data = d
	if d.boot != "" && d.listErr == nil {
		m.lists = d
	}
}

// ratesOf compares two rounds of one process.
func ratesOf(before, now topData) topRates {
	seconds := now.at.Sub(before.at).Seconds()
	if now.boot == "" || now.boot != before.boot || now.listErr != nil || seconds <= 0 {
		return noRates
	}
	out := noRates
	if now.counters != nil && before.counters != nil {
		grown := func(commands ...string) float64 {
			sum := 0.0
			for _, c := range commands {
				sum += max(0, now.counters[c]-before.counters[c])
			}
			return sum / seconds
		}
		out.registrations = grown("RegisterWorker", "RegisterApplication", "SubmitDriver")
		out.launches = grown("PlaceExecutors")
	}
	// A worker's heartbeats are further apart than two rounds, so that each is seen once.
	beats, last := 0, make(map[string]int64, len(before.workers))
	for i := range before.workers {
		last[before.workers[i].ID] = before.workers[i].LastHeartbeatMillis
	}
	for i := range now.workers {
		if w := &now.workers[i]; w.LastHeartbeatMillis > 0 && w.LastHeartbeatMillis != last[w.ID] {
			beats++
		}
	}
	out.heartbeats = float64(beats) / seconds
	return out
}

// key does what a key means. Names: see readKeys.
func (m *topModel) key(k string) {
	if k == "ctrl-c" {
		m.quit = true
		return
	}
	if m.typing {
		m.typeKey(k)
		return
	}
	if m.help {
		m.help = false
		return
	}
	switch k {
	case "q":
		m.quit = true
	case "1", "2", "3":
		m.show(topView(k[0] - '1'))
	case "w":
		m.show(topWorkers)
	case "a":
		m.show(topApps)
	case "d":
		m.show(topDrivers)
	case "tab", "right":
		m.show((m.view + 1) % topViews)
	case "left":
		m.show((m.view + topViews - 1) % topViews)
	case "s":
		m.sortBy[m.view] = (m.sortBy[m.view] + 1) % len(topColumns[m.view])
	case "r":
		m.reversed[m.view] = !m.reversed[m.view]
	case "/":
		m.typing = true
	case "esc":
		m.filter, m.offset = "", 0
	case " ":
		m.paused = !m.paused
	case "+":
		m.interval = min(m.interval*2, maxTop)
	case "-":
		m.interval = max(m.interval/2, minTop)
	case "?", "h":
		m.help = true
	default:
		m.scroll(k)
	}
}

func (m *topModel) show(v topView) {
	if v != m.view {
		m.view, m.offset = v, 0
	}
}

// maxFilter bounds what is typed.
const maxFilter = 100

func (m *topModel) typeKey(k string) {
	m.offset = 0
	switch {
	case k == "enter":
		m.typing = false
	case k == "esc":
		m.typing, m.filter = false, ""
	case k == "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case len([]rune(k)) == 1 && len(m.filter) < maxFilter:
		m.filter += k
	}
}

func (m *topModel) scroll(k string) {
	page := max(1, m.room())
	switch k {
	case "up", "k":
		m.offset--
	case "down", "j":
		m.offset++
	case "pgup":
		m.offset -= page
	case "pgdn":
		m.offset += page
	case "home", "g":
		m.offset = 0
	case "end", "G":
		m.offset = 1 << 30
	}
	m.offset = max(0, m.offset) // page keeps it below the end
}

// topRow is one line of a list: its cells, and what it is sorted by where that is not the text.
type topRow struct {
	cells   []string
	numbers map[int]int64
}

// topColumn is a column; numeric ones have the largest first.
type topColumn struct {
	name    string
	numeric bool
}

var topColumns = [topViews][]topColumn{
	topWorkers: {{"WORKER", false}, {"STATE", false}, {"ADDRESS", false}, {"CORES", true}, {"MEMORY", true}, {"EXECUTORS", true}, {"DRIVERS", true}, {"HEARTBEAT", true}, {"NOTE", false}},
	topApps:    {{"APPLICATION", false}, {"STATE", false}, {"CORES", true}, {"EXECUTORS", true}, {"DURATION", true}, {"USER", false}, {"NAME", false}, {"NOTE", false}},
	topDrivers: {{"DRIVER", false}, {"STATE", false}, {"CORES", true}, {"MEMORY", true}, {"AGE", true}, {"WORKER", false}, {"CLASS", false}, {"NOTE", false}},
}

// list gives the rows of the list that is shown: filtered and sorted.
func (m *topModel) list() []topRow {
	var rows []topRow
	now := m.lists.at.UnixMilli()
	switch m.view {
	case topWorkers:
		for i := range m.lists.workers {
			rows = append(rows, workerRow(&m.lists.workers[i], now))
		}
	case topApps:
		for i := range m.lists.apps {
			rows = append(rows, appRow(&m.lists.apps[i], now))
		}
	case topDrivers:
		for i := range m.lists.drivers {
			rows = append(rows, driverRow(&m.lists.drivers[i], now))
		}
	}
	if m.filter != "" {
		want := strings.ToLower(m.filter)
		rows = slices.DeleteFunc(rows, func(r topRow) bool { return !strings.Contains(strings.ToLower(strings.Join(r.cells, " ")), want) })
	}
	by, reversed := m.sortBy[m.view], m.reversed[m.view]
	slices.SortStableFunc(rows, func(x, y topRow) int {
		c := 0
		if topColumns[m.view][by].numeric {
			c = cmp.Compare(y.numbers[by], x.numbers[by])
		} else {
			c = cmp.Compare(x.cells[by], y.cells[by])
		}
		if reversed {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(x.cells[0], y.cells[0]))
	})
	return rows
}
