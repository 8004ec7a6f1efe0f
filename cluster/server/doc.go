// Package server puts one master together: the shared port, Raft, the RPC endpoint, the leader service and the web UI,
// started and stopped in the order that keeps a quorum quiet.
//
// Start: the web UI listens first, so that /readyz can say no; then the cluster port, Raft, and last the leader service.
// Stop (docs/ARCHITECTURE.md, "Leaving in order"): leadership is handed over, open asks are answered, then the listeners,
// Raft and the stores close.
package server
