package raftnet

import "time"

// Limits of the internal protocol.
const (
	// MaxCalls is how many calls of other masters are answered at once.
	MaxCalls = 16
	// MaxCallBody bounds the request and the answer of a call, in bytes.
	MaxCallBody = 4 << 20
	// maxHandshake bounds an encoded handshake, maxString one string in it, maxList the cluster list.
	maxHandshake = 32 << 10
	maxString    = 1 << 10
	maxList      = 64
	// maxWatchMessage bounds one message of a watch connection.
	maxWatchMessage = 16 << 10
	// handshakeTimeout bounds the exchange of handshakes on a new connection.
	handshakeTimeout = 2 * time.Second
	// maxPool is how many idle connections raft keeps to one peer.
	maxPool = 4
	// CallTimeout bounds the arrival of a call's request.
	CallTimeout = 10 * time.Second
	// maxWaiting bounds connections that wait in an Inbox for the node to start.
	maxWaiting = 256
)
