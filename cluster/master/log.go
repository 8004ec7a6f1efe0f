package master

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/go-hclog"
)

const (
	// peerLinePeriod is how often a line that a peer can provoke at will is written about one subject.
	peerLinePeriod = time.Minute
	// maxPeerLines bounds the subjects that are remembered, and so all such lines of one period together.
	maxPeerLines = 1024
	// maxLogText bounds one text in a line: peers may name things up to the size of a frame.
	maxLogText = 1024
)

// safeLog writes lines that may quote what peers say: on one line each, without control characters, and of bounded
// length. One goroutine.
type safeLog struct{ out hclog.Logger }

// Debug writes a line of that level; so do the others.
func (l safeLog) Debug(msg string, args ...any) { l.out.Debug(clean(msg), cleanArgs(args)...) }

// Info see Debug.
func (l safeLog) Info(msg string, args ...any) { l.out.Info(clean(msg), cleanArgs(args)...) }

// Warn see Debug.
func (l safeLog) Warn(msg string, args ...any) { l.out.Warn(clean(msg), cleanArgs(args)...) }

// Error see Debug.
func (l safeLog) Error(msg string, args ...any) { l.out.Error(clean(msg), cleanArgs(args)...) }

func cleanArgs(args []any) []any {
	for i, a := range args {
		switch v := a.(type) {
		case string:
			args[i] = clean(v)
		case error:
			args[i] = clean(v.Error())
		case fmt.Stringer:
			args[i] = clean(v.String())
		}
	}
	return args
}

// clean gives a text that cannot be taken for anything else in a log: what cannot be printed is escaped.
func clean(text string) string {
	if len(text) > maxLogText {
		text = strings.ToValidUTF8(text[:maxLogText], "") + "..."
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// lineLimiter remembers which lines were written of late.
type lineLimiter struct {
	written map[string]time.Time
	sweptAt time.Time
	unsaid  int // lines left out since saidAt
	saidAt  time.Time
}

// allow tells whether a line may be written.
func (l *lineLimiter) allow(now time.Time, kind, subject string) bool {
	key := kind + "\x00" + subject[:min(len(subject), maxLogText)]
	at, known := l.written[key]
	if known && now.Sub(at) < peerLinePeriod {
		l.unsaid++
		return false
	}
	if !known && len(l.written) >= maxPeerLines {
		l.sweep(now)
		if len(l.written) >= maxPeerLines {
			l.unsaid++
			return false
		}
	}
	if l.written == nil {
		l.written = map[string]time.Time{}
	}
	l.written[key] = now
	return true
}

// sweep forgets what was written long ago; not at each call, because it looks at everything.
func (l *lineLimiter) sweep(now time.Time) {
	if now.Sub(l.sweptAt) < time.Second {
		return
	}
	l.sweptAt = now
	for key, at := range l.written {
		if now.Sub(at) >= peerLinePeriod {
			delete(l.written, key)
		}
	}
}

// peerWarn writes a line that a peer can provoke as often as it likes, at most once a minute for one kind and subject.
func (c *Core) peerWarn(kind, subject, msg string, args ...any) {
	if c.lines.allow(c.now(), kind, subject) {
		c.log.Warn(msg, args...)
	}
}

// peerInfo does the same for news that are no trouble.
func (c *Core) peerInfo(kind, subject, msg string, args ...any) {
	if c.lines.allow(c.now(), kind, subject) {
		c.log.Info(msg, args...)
	}
}

// sayUnsaid tells, at most once a minute, how many lines were left out.
func (c *Core) sayUnsaid() {
	if l := &c.lines; l.unsaid > 0 && c.now().Sub(l.saidAt) >= peerLinePeriod {
		c.log.Warn("lines about peers that repeat themselves were left out", "lines", l.unsaid)
		l.unsaid, l.saidAt = 0, c.now()
	}
}

// event records something for operators; texts of peers are cleaned as in the log.
func (c *Core) event(kind, subject, detail string) {
	c.deps.Observer.Event(kind, clean(subject), clean(detail))
}
