package clustertest

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// maxTrace is how many of the last lines a trace keeps.
const maxTrace = 4000

// pointers differ from run to run.
var pointers = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// trace keeps what happened last.
type trace struct {
	s     *Sim
	lines []string
	next  int
}

func newTrace(s *Sim) *trace { return &trace{s: s} }

func (t *trace) add(who, what string) {
	line := fmt.Sprintf("%12.6f %-10s %s", t.s.now.Seconds(), who, pointers.ReplaceAllString(what, "ptr"))
	if len(t.lines) < maxTrace {
		t.lines = append(t.lines, line)
		return
	}
	t.lines[t.next] = line
	t.next = (t.next + 1) % maxTrace
}

// String gives the lines, oldest first.
func (t *trace) String() string {
	return strings.Join(append(append([]string(nil), t.lines[t.next:]...), t.lines[:t.next]...), "\n")
}

// logger gives a master's log, which goes into the trace.
func (s *Sim) logger(name string) hclog.Logger {
	if s.trace == nil {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &logWriter{s: s, name: name}, DisableTime: true})
}

type logWriter struct {
	s    *Sim
	name string
}

var _ io.Writer = (*logWriter)(nil)

func (w *logWriter) Write(p []byte) (int, error) {
	w.s.note(w.name, "log %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// show gives a message in one line.
func show(msg any) string {
	text := fmt.Sprintf("%T%+v", msg, msg)
	text = strings.ReplaceAll(strings.TrimPrefix(text, "*sparkmsg."), "&", " ")
	if len(text) > 220 {
		text = text[:220] + "..."
	}
	return text
}
