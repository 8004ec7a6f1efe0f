// Package node runs one raft node of a raftmaster cluster: bootstrap, identity, the FSM adapter, leadership with its
// lease, fast failover, leaving in order, and the guards against known traps of the raft library.
//
// # What it promises
//
// Elected comes after a barrier of that term: everything that earlier leaders committed is applied. LeaseValid is true
// only while a majority of the voters has accepted an append that this node sent, in this term, less than one lease ago
// on a clock that counts pauses (lease.go). The state machine never skips an unknown entry silently. Stopping is not
// leaving: no voter is ever removed but by RemovePeer.
//
// # Threads
//
// The FSM goroutine (raft's) applies commands and calls Hooks.Applied and Hooks.Restored. The leadership goroutine, one
// per run of raft, calls Elected and Deposed. Two goroutines feed raft with proposals and report failures, in order. One
// goroutine per peer keeps a watch connection to it and looks after the leader when that ends (watch.go, failover.go).
// Everything else is called from outside and takes short locks only.
//
// # Where it adds to raft 1.7.3
//
//   - A vote is refused for one failover time-out after a start (guards.go): raft forgets at a restart that it has
//     accepted a leader's append, on which that leader's lease may still rest.
//   - An order to take over (TimeoutNow) counts only from the leader that is in contact and confirms it (guards.go), and
//     for a bounded time (transport/raftnet, transfer.go).
//   - A lone voter, which raft lets lead unasked, asks the other masters of its list first (place.go).
//   - A snapshot that contradicts the log's end has that end removed, with raft restarted in place; one that the log
//     does not lead up to clears the log (guards.go, raftstore): hashicorp/raft #697 and a hazard beside it.
//   - A leader that refuses all writes because of a transfer that nobody makes is restarted in place (leadership.go,
//     guards.go): hashicorp/raft #696.
//   - A node whose disk refuses the log asks for no votes until a probe succeeds (instance.go).
//   - A dead connection in raft's pool costs no vote (transport/raftnet).
package node
