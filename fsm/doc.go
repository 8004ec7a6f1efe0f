// Package fsm is the replicated state of a raftmaster cluster and its rules: which workers, applications, executors and
// drivers exist, which of them are booked where, and which answers and messages follow from each change.
//
// # Contract
//
// A Machine is a deterministic function of its log: the same commands at the same indexes give the same state, the
// same results and the same digest on every replica, in every process, on every day. Therefore the package reads no
// clock, no zone, no random source and no unordered map, starts no goroutine and does no I/O; lint_test.go enforces
// it. Time comes from the command that is applied (Meta).
//
// What is replicated: every registration and every change of state, targets, identifier counters, queue order, marks
// (decommissioned, draining, incompatible, confirmed, delivered, to be killed) and a bounded history. What is not:
// heartbeats and connections, which are the leader's own soft state.
//
// Decisions are committed, not intentions. Plan is a pure function of a View that the leader calls; its placements
// are proposed as one PlaceDrivers and one PlaceExecutors command, which Apply validates again, one by one. Apply's
// checks are part of the log format, the planner is not.
//
// # Who may call
//
// Machine.Apply, Machine.ApplyBatch and Restore belong to one goroutine (Raft's FSM goroutine). Machine.View and
// Machine.Snapshot are O(1) and safe from any goroutine; a View and all entities reachable from it are immutable and may be kept. Nobody may
// write to an entity, to a slice of one, or to the contents of a command that has been applied.
//
// Facts about Spark's protocol are cited by the behaviour numbers (B-...) used all over the project and, where a
// constant comes from Spark, by its source file.
package fsm
