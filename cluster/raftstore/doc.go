// Package raftstore keeps what a raft node must remember: the log, the vote, the snapshots and the node's identity, in
// one data directory that only one process may use. A file that is damaged, foreign or in use is refused by name, with
// what to do about it.
package raftstore
