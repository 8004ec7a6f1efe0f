// Package frame cuts Spark's RPC byte stream into frames and puts frames together.
//
// The layout is that of Spark's network-common module (MessageEncoder, TransportFrameDecoder, RpcRequest, RpcResponse,
// RpcFailure, OneWayMessage) and of the RequestMessage header in org.apache.spark.rpc.netty.NettyRpcEnv. Only the four
// message types that masters, workers, drivers and clients exchange are known; any other type is an error, because a
// peer that sends one is not speaking the deploy protocol.
//
// Contract: every length is checked before memory is set aside for it, memory grows only with bytes that arrived, no
// input makes the package panic, and errors carry offsets and numbers, never bytes of the payload.
//
// The package keeps no goroutine and no global state. A Reader belongs to one goroutine.
package frame
