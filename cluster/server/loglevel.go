package server

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/webui"
)

// logLevels shows and changes the level of a master's logger. Masters that share a process and a logger share the level.
type logLevels struct {
	log        hclog.Logger
	node       string
	configured hclog.Level
	now        func() time.Time
	// event tells of a level that has gone back by itself.
	event func(webui.Event)

	mu sync.Mutex
	// base is the level that was set for good; until is when it comes back, zero while it is in force.
	base   hclog.Level
	until  time.Time
	timer  *time.Timer
	closed bool
}

func newLogLevels(log hclog.Logger, node string, event func(webui.Event)) *logLevels {
	level := log.GetLevel()
	return &logLevels{log: log, node: node, configured: level, base: level, now: time.Now, event: event}
}

// LogLevel implements webui.LogLevels.
func (l *logLevels) LogLevel() webui.LogLevel {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shown()
}

func (l *logLevels) shown() webui.LogLevel {
	out := webui.LogLevel{Node: l.node, Level: l.log.GetLevel().String(), Configured: l.configured.String()}
	if !l.until.IsZero() {
		out.Then, out.UntilMillis = l.base.String(), l.until.UnixMilli()
	}
	return out
}

// SetLogLevel implements webui.LogLevels.
func (l *logLevels) SetLogLevel(_ context.Context, req webui.LogLevelRequest) (webui.LogLevel, error) {
	level := hclog.LevelFromString(req.Level)
	if level < hclog.Trace || level > hclog.Error {
		return webui.LogLevel{}, &webui.Error{Code: webui.CodeBadRequest, Message: "the level must be trace, debug, info, warn or error"}
	}
	if req.ForMillis < 0 || req.ForMillis > webui.MaxLogLevelMillis {
		return webui.LogLevel{}, &webui.Error{Code: webui.CodeBadRequest, Message: "the time of a level must be between 0 and a day"}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return webui.LogLevel{}, &webui.Error{Code: webui.CodeRefused, Message: "this master stops"}
	}
	before := l.log.GetLevel()
	if !req.DryRun {
		l.set(level, time.Duration(req.ForMillis)*time.Millisecond)
	}
	out := l.shown()
	out.Before, out.DryRun = before.String(), req.DryRun
	if req.DryRun {
		out.Level = level.String()
	}
	return out, nil
}

// set puts a level in force, for good or for a time. l.mu is held.
func (l *logLevels) set(level hclog.Level, life time.Duration) {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.until = time.Time{}
	if life > 0 {
		until := l.now().Add(life)
		l.until = until
		l.timer = time.AfterFunc(life, func() { l.back(until) })
	} else {
		l.base = level
	}
	l.log.SetLevel(level)
}

// back ends a level of a time, unless another one was set since.
func (l *logLevels) back(of time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.until.Equal(of) {
		return
	}
	l.until, l.timer = time.Time{}, nil
	l.log.SetLevel(l.base)
	l.event(webui.Event{Kind: "log-level", Node: l.node, Message: "the log level is " + l.base.String() + " again", Reason: "its time is over"})
}

// close puts the level that was set for good in force: another master may be started with this logger.
func (l *logLevels) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.log.SetLevel(l.base)
	}
	l.closed = true
}

const (
	// logRingBytes is how much of the log a master keeps in memory for whoever debugs it, maxRingLine how much of a line.
	logRingBytes = 512 << 10
	maxRingLine  = 4 << 10
)

// logRing keeps the last lines of a master's log. It is a sink of the process's logger, if that is an intercepting one.
type logRing struct {
	log  hclog.Logger
	to   hclog.SinkAdapter
	from hclog.InterceptLogger // nil: nothing is kept

	mu    sync.Mutex
	lines []string // oldest first
	bytes int
}

func newLogRing(log hclog.Logger) *logRing {
	r := &logRing{log: log}
	r.to = hclog.NewSinkAdapter(&hclog.LoggerOptions{Level: hclog.Trace, Output: r})
	if from, ok := log.(hclog.InterceptLogger); ok {
		r.from = from
		from.RegisterSink(r)
	}
	return r
}

// Accept implements hclog.SinkAdapter: it takes what the master's own logger writes, and no line of another master of
// this process.
func (r *logRing) Accept(name string, level hclog.Level, msg string, args ...any) {
	own := r.log.Name()
	if level >= r.log.GetLevel() && (name == own || strings.HasPrefix(name, own+".") || own == "") {
		r.to.Accept(name, level, msg, args...)
	}
}

// Write takes one line.
func (r *logRing) Write(p []byte) (int, error) {
	line := string(p[:min(len(p), maxRingLine)])
	if len(p) > maxRingLine {
		line += "...\n"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines, r.bytes = append(r.lines, line), r.bytes+len(line)
	for r.bytes > logRingBytes {
		r.bytes -= len(r.lines[0])
		// Only the head moves: append copies what is left once in many lines, not for each.
		r.lines[0], r.lines = "", r.lines[1:]
	}
	return len(p), nil
}

// text is what is kept; false: nothing is, because the logger cannot be listened to.
func (r *logRing) text() (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, ""), r.from != nil
}

func (r *logRing) close() {
	if r != nil && r.from != nil {
		r.from.DeregisterSink(r)
	}
}
