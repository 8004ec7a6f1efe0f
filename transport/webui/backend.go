package webui

import "context"

// State is the read side: what this node knows now. Every method is called from HTTP goroutines, must not block on Raft,
// and returns data that the caller may keep.
type State interface {
	// Status describes this node and its cluster, on the leader and elsewhere.
	Status() Status
	// Brief is Status without TakeOver, Counts, LeaderChanges and disk figures: for probes, which come often and must be
	// answered even while the leader service is busy.
	Brief() Status
	// Cluster copies the workers and applications of the replicated state as applied on this node.
	Cluster() Cluster
	// Executors lists unfinished executors sorted by application and id; an empty appID means all.
	Executors(appID string) []Executor
}

// Events is the bounded history of this node.
type Events interface {
	// Since returns up to limit events with a sequence number above seq, oldest first, and a channel that is closed
	// when a later one arrives.
	Since(seq uint64, limit int) (events []Event, more <-chan struct{})
}

// Leadership changes who leads, and which masters there are. Only the leader does either; another master answers with
// CodeNotLeader and names it. Every method returns *Error to choose the code of the answer.
type Leadership interface {
	// TransferLeadership hands leadership to the given voter and returns when the new leader is known.
	TransferLeadership(ctx context.Context, req TransferRequest) (Transfer, error)
	// AddPeer adds a master without a vote, and, for a voter, gives it its vote once it holds the log.
	AddPeer(ctx context.Context, req AddPeerRequest) (PeerChange, error)
	// RemovePeer removes a member for good.
	RemovePeer(ctx context.Context, req RemovePeerRequest) (PeerChange, error)
	// PromotePeer gives a vote to a member that has none and holds the log.
	PromotePeer(ctx context.Context, req PromotePeerRequest) (PeerChange, error)
}
