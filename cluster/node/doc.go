// Package node runs one raft node of a raftmaster cluster: bootstrap, identity, the FSM adapter, leadership with its
// lease, fast failover, leaving in order, and the guards against known traps of the raft library.
//
// # Threads
//
// The FSM goroutine (raft's) applies commands and calls Hooks.Applied and Hooks.Restored. The leadership goroutine
// calls Elected and Deposed. The propose goroutines feed raft and report failures. One watch goroutine per peer keeps a
// connection to it; see watch.go. Everything else is called from outside and takes short locks only.
//
// # What it promises
//
// Elected comes after a barrier of that term: everything that earlier leaders committed is applied. LeaseValid is true
// only while a majority of the voters has acknowledged an append that this node sent, in this term, less than one lease
// ago on a clock that counts pauses. The state machine never skips an unknown entry silently. Stopping is not leaving:
// no voter is ever removed but by RemovePeer.
package node
