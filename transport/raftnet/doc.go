// Package raftnet carries what masters say to each other on the shared cluster port: raft's own RPCs, watch connections
// and calls. Each connection begins with a handshake that names the protocol version, the kind, the cluster and both
// nodes; a connection of another cluster, or one meant for another node, is refused by name on both sides.
//
// It knows no policy: who is asked, and what follows from an answer, is cluster/node's business.
package raftnet
