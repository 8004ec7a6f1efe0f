package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"raftmaster/transport/webui"
)

// sizePoll is how often it is looked whether the terminal has another size.
const sizePoll = 250 * time.Millisecond

func (a *app) topCommand() *cobra.Command {
	interval := time.Duration(0)
	cmd := &cobra.Command{Use: "top", Short: "Watch the masters, workers, applications and drivers on a full screen",
		Long: "Watch the masters, the quorum, rates, workers, applications and drivers on a full screen, sorted and filtered. Keys: ? shows them. It survives masters that go away.\n\n" +
			"Rates are those of the leader: registrations committed per second, rounds of launches, and heartbeats seen.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < minTop || interval > maxTop {
				return coded(exitUsage, "--interval %v: must be between %v and %v", interval, minTop, maxTop)
			}
			if err := a.prepare(cmd); err != nil {
				return err
			}
			if a.term.size == nil || a.term.keys == nil || a.print.json {
				return coded(exitUsage, "top needs a terminal\nnext: raftctl status --watch works without one, with -o json too")
			}
			return a.top(cmd.Context(), newTopModel(interval))
		}}
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two rounds of questions")
	return cmd
}

// rawKeys puts the terminal of standard input into raw mode and gives what is typed. restore undoes it.
func rawKeys() (keys io.Reader, restore func() error, err error) {
	fd := int(os.Stdin.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("the terminal cannot be used: %w", err)
	}
	return os.Stdin, func() error { return term.Restore(fd, before) }, nil
}

// top runs until the user quits. The goroutine that reads keys ends with the process: a read of a terminal cannot be
// interrupted.
func (a *app) top(ctx context.Context, m *topModel) (err error) {
	in, restore, err := a.term.keys()
	if err != nil {
		return err
	}
	sc := &screen{out: a.term.out, size: a.term.size}
	sc.open()
	defer func() {
		sc.close()
		if rerr := restore(); err == nil {
			err = rerr
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := make(chan string)
	go readKeys(ctx, in, keys)
	w := &watched{a: a, given: a.client.endpoints}
	answers, asking := make(chan topData, 1), false
	ask := func() {
		asking = true
		go func() { answers <- a.topRound(ctx, w) }()
	}
	ask()
	due := time.NewTimer(m.interval)
	defer due.Stop()
	size := time.NewTicker(sizePoll)
	defer size.Stop()
	m.data.at = time.Now()
	for !m.quit && ctx.Err() == nil {
		m.cols, m.rows = a.term.size()
		sc.draw(m.page())
		select {
		case <-ctx.Done():
		case k, ok := <-keys:
			if !ok {
				m.quit = true // the terminal is gone
			}
			m.key(k)
		case d := <-answers:
			asking = false
			m.take(d)
			due.Reset(m.interval)
		case <-due.C:
			if !asking && !m.paused {
				ask()
			} else if !asking {
				due.Reset(m.interval)
			}
		case <-size.C:
		}
	}
	cancel()
	if asking {
		<-answers
	}
	return nil
}

// topRound asks everybody for their status, and the leader, or without one who knows the most, for the lists.
func (a *app) topRound(ctx context.Context, w *watched) topData {
	var d topData
	d.s, d.problem = w.survey(ctx)
	d.verdict = a.statusVerdict(ctx, d.s, d.problem)
	d.at = time.Now()
	best := d.s.best()
	if best == nil {
		return d
	}
	d.boot = best.value.BootID + " " + best.endpoint
	var workers webui.WorkersAnswer
	var apps webui.AppsAnswer
	var drivers webui.DriversAnswer
	for path, v := range map[string]any{"/v1/workers": &workers, "/v1/apps": &apps, "/v1/drivers": &drivers} {
		if err := a.client.get(ctx, best.endpoint, path, v); err != nil {
			d.listErr = err
			return d
		}
	}
	d.workers, d.apps, d.drivers = workers.Workers, apps.Apps, drivers.Drivers
	d.at = time.Now()
	if best.value.State == webui.StateAlive {
		if text, _, err := a.fetch(ctx, best.endpoint, "/metrics"); err == nil { // without it there are no rates, which shows
			d.counters = commitCounts(text)
		}
	}
	return d
}

// commitCounts reads how many commands of each kind were committed from the text of /metrics.
func commitCounts(text []byte) map[string]float64 {
	const prefix = `raftmaster_commit_duration_seconds_count{command="`
	out := make(map[string]float64)
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(string(line), prefix)
		name, value, found := strings.Cut(rest, `"}`)
		if !ok || !found {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			out[name] = v
		}
	}
	return out
}

// escapes are the sequences that terminals send for keys without a character.
var escapes = map[string]string{
	"[A": "up", "[B": "down", "[C": "right", "[D": "left", "OA": "up", "OB": "down", "OC": "right", "OD": "left",
	"[5~": "pgup", "[6~": "pgdn", "[H": "home", "[F": "end", "OH": "home", "OF": "end", "[1~": "home", "[4~": "end", "[Z": "left",
}

// readKeys turns what a terminal sends into keys: a character, or up, down, left, right, pgup, pgdn, home, end, tab,
// enter, esc, backspace, ctrl-c. It closes keys at the end of its input.
func readKeys(ctx context.Context, in io.Reader, keys chan<- string) {
	defer close(keys)
	r := bufio.NewReaderSize(in, 256)
	for {
		c, _, err := r.ReadRune()
		if err != nil {
			return
		}
		key := ""
		switch {
		case c == 0x1b:
			key = readEscape(r)
		case c == 3 || c == 4:
			key = "ctrl-c"
		case c == '\t':
			key = "tab"
		case c == '\r' || c == '\n':
			key = "enter"
		case c == 8 || c == 127:
			key = "backspace"
		case c < ' ' || c == utf8.RuneError:
			continue
		default:
			key = string(c)
		}
		if key == "" {
			continue
		}
		select {
		case keys <- key:
		case <-ctx.Done():
			return
		}
	}
}

// readEscape reads what follows an escape in the same packet; nothing does after the key of that name.
func readEscape(r *bufio.Reader) string {
	if r.Buffered() == 0 {
		return "esc"
	}
	seq := ""
	for r.Buffered() > 0 && len(seq) < 16 {
		c, err := r.ReadByte()
		if err != nil {
			return ""
		}
		seq += string(rune(c))
		final := c >= 0x40 && c <= 0x7e
		if final && len(seq) > 1 || len(seq) == 1 && c != '[' && c != 'O' {
			break
		}
	}
	return escapes[seq]
}
