// Package raftstore keeps what a raft node must remember: the log, the vote, the snapshots and the node's identity, in
// one data directory that only one process may use. New entries of the log are in a journal, which costs one disk sync for a
// batch, until they are carried over to bolt (docs/adr/0020). A file that is damaged, foreign or in use is refused by name, with
// what to do about it.
package raftstore
