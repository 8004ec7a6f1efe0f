package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// quietInterval is how often raft may repeat itself about one peer.
const quietInterval = 10 * time.Second

// repeated are raft's messages about a peer that does not answer: it sends them at every attempt, several a second.
var repeated = map[string]bool{
	"failed to heartbeat to":                                     true,
	"failed to appendEntries to":                                 true,
	"failed to contact":                                          true,
	"failed to make requestVote RPC":                             true,
	"failed to pipeline appendEntries":                           true,
	"failed to start pipeline replication to":                    true,
	"failed to install snapshot":                                 true,
	"rejecting vote request since we have a leader":              true,
	"rejecting pre-vote request since we have a leader":          true,
	"rejecting pre-vote request since node is not a voter":       true,
	"Election timeout reached, restarting election":              true,
	"heartbeat timeout reached, starting election":               true,
	"pre-vote campaign failed, waiting for election timeout":     true,
	"entering candidate state":                                   true,
	"rejecting vote request since our last index is greater":     true,
	"appendEntries rejected, sending older logs":                 true,
	"rejecting pre-vote request since our last index is greater": true,
}

// quietLogger is raft's logger: it lets such a message through every quietInterval, with the number of those left out.
type quietLogger struct {
	hclog.Logger

	mu   sync.Mutex
	last map[string]*said
}

type said struct {
	at      time.Time
	skipped int
}

func newQuietLogger(l hclog.Logger) *quietLogger {
	return &quietLogger{Logger: l, last: make(map[string]*said)}
}

// pass tells whether a message is to be logged, and with what arguments.
func (q *quietLogger) pass(msg string, args []any) ([]any, bool) {
	if !repeated[msg] {
		return args, true
	}
	key := msg
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "server-id", "target", "from":
			key += fmt.Sprint(" ", args[i+1])
		}
	}
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.last[key]
	if s == nil {
		if len(q.last) >= maxNoiseKeys {
			clear(q.last)
		}
		q.last[key] = &said{at: now}
		return args, true
	}
	if now.Sub(s.at) < quietInterval {
		s.skipped++
		return nil, false
	}
	if s.skipped > 0 {
		args = append(args[:len(args):len(args)], "repeated", s.skipped)
	}
	*s = said{at: now}
	return args, true
}

// Info implements hclog.Logger.
func (q *quietLogger) Info(msg string, args ...any) {
	if args, ok := q.pass(msg, args); ok {
		q.Logger.Info(msg, args...)
	}
}

// Warn implements hclog.Logger.
func (q *quietLogger) Warn(msg string, args ...any) {
	if args, ok := q.pass(msg, args); ok {
		q.Logger.Warn(msg, args...)
	}
}

// Error implements hclog.Logger.
func (q *quietLogger) Error(msg string, args ...any) {
	if args, ok := q.pass(msg, args); ok {
		q.Logger.Error(msg, args...)
	}
}
