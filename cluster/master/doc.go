// Package master is the leader service: it turns what workers, applications and clients say into commands of the
// replicated state machine, and what was committed into the messages that the leader owes its peers.
//
// # Core and Service
//
// [Core] holds every decision. It runs on one goroutine, owns no lock, starts no goroutine and does no I/O: its clock,
// its network, its proposer and its view of the state come from outside ([Deps]), so that a whole cluster can run in one
// process under a fake clock from one seed. [Service] is the thin shell that runs a Core on a goroutine of its own and
// turns the callbacks of connections and of Raft into events on one queue.
//
// # Life of a message
//
// A connection's reader calls [Service.OneWay] or [Service.Ask]. The Core either answers from the state (a standby, a
// repeated registration) or proposes a command. The command comes back through [Service.Applied], in log order, with the
// result of fsm.Apply; only then is the sender answered and are the effects of the command sent. A decision of the
// planner takes the same way: it is proposed, validated by Apply, and only what Apply booked is launched.
//
// # Drivers and operators
//
// Drivers of cluster deploy mode come over RPC ([Core.Ask]) or from other front ends ([Service.SubmitDriver]); both take
// one way (drivers.go). Their launches, ends and lists are in driver_run.go, by the same rules as those of executors. The
// methods of [Service] in api.go are all that the REST gateway and the web UI may ask; they answer what is committed, and
// [*NotLeaderError] on a master that does not lead.
//
// # What is soft
//
// Heartbeats, connections, awaited peers and outbox sequence numbers belong to the leader alone and are forgotten when it
// is deposed. A new leader starts every worker's clock afresh and asks every peer for its list (takeover.go).
package master
