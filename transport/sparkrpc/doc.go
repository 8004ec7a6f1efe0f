// Package sparkrpc carries deploy messages over Spark's RPC transport: one Endpoint is one listening address of the
// cluster ("RpcEnv" in Spark), with all its connections in both directions.
//
// Contract:
//
//   - A connection is known by the listening address that its frames carry as sender (in Spark the sender address is the
//     listening address, not the TCP source port). Pushes to a peer travel on the live connection that was named last;
//     without one the advertised address is dialled. Replies travel on the connection of their ask.
//   - Each peer has one ordered outbox. What was queued stays queued, in order, when a connection breaks, and goes out
//     on the next one; but a message of which one byte was handed to a connection is never written again.
//   - Config.Gate (the leader's lease) is read right before each write of a push, inside the system call loop. When it
//     says no, the outbox of that peer is dropped and nothing of it is written. Answers to asks are not gated.
//   - No peer can hold up another: Send and Ask never block, queues are bounded by count and bytes, a full one costs
//     that peer its connection and its queue, writes have deadlines, dials have their own bounded concurrency.
//   - Nothing that a peer sends makes the package panic or allocate more than the bytes that arrived. A malformed frame
//     closes its connection; an object that cannot be decoded is dropped when one-way and answered with a failure when
//     asked.
//
// Goroutines: one reader for each connection, which also runs the Handler, but none for a connection whose last message
// was a heartbeat (on Linux, plain sockets only: idle_linux.go): one goroutine reads all of those. A writer only while a
// connection has something to write; dialers only while something must be dialled. Close waits for all of them. One mutex
// guards the tables and the queues; it is never held during I/O, encoding, Gate, or a call of the Handler or of an outcome.
//
// The facts about Spark's side come from org.apache.spark.rpc.netty (NettyRpcEnv, Outbox, Dispatcher,
// RpcEndpointVerifier) and org.apache.spark.network (TransportRequestHandler, TransportResponseHandler).
package sparkrpc
