package raftnet

import (
	"time"
)

// Faults are seams for tests, and Valve is one for drills, too. They work on whole connections and on single RPCs; nil functions do nothing. They may be
// called from many goroutines.
type Faults struct {
	// Dial runs before each dial; an error stands for its failure.
	Dial func(from, to string) error
	// RPC runs before each outgoing raft RPC: an error stands for its failure, and a wait for a slow network. kind is
	// AppendEntries, Heartbeat, RequestVote, RequestPreVote, InstallSnapshot or TimeoutNow.
	RPC func(from, to, kind string) error
	// Deliver runs before each incoming raft RPC is given to raft; an error is answered in its place.
	Deliver func(to, kind string) error
	// DialTimeout replaces the time-out of dials when positive.
	DialTimeout time.Duration
	// Valve, when set, holds back the connections with chosen masters.
	Valve *Valve
}
