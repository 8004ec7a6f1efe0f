package raftnet

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// An order to take leadership over is good for OrderLife after its arrival; a node's own decision has no such end.
func TestVotesForAnOrderAreBoundInTime(t *testing.T) {
	const life = time.Minute
	var later atomic.Int64
	bounded := func(cfg *TransportConfig) {
		cfg.OrderLife = life
		cfg.Now = func() time.Duration { return BootTime() + time.Duration(later.Load()) }
	}
	a := newEndpoint(t, "a", nil, bounded)
	b := newEndpoint(t, "b", nil, bounded)
	for _, e := range []*endpoint{a, b} {
		e.answer(t, func(command any) any { return emptyResponse(command) })
	}
	order := func() {
		t.Helper()
		if err := a.trans.TimeoutNow("b", raft.ServerAddress(b.addr), &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(ordered bool) error {
		req := &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{Addr: []byte(b.addr)}, LeadershipTransfer: ordered}
		return b.trans.RequestVote("a", raft.ServerAddress(a.addr), req, &raft.RequestVoteResponse{})
	}
	order()
	if err := ask(true); err != nil {
		t.Errorf("votes after an order: %v", err)
	}
	later.Add(int64(life) + 1)
	if err := ask(true); !errors.Is(err, ErrStaleOrder) {
		t.Errorf("votes long after an order: %v", err)
	}
	if err := ask(false); err != nil {
		t.Errorf("votes that need no order: %v", err)
	}
	if err := b.trans.InjectTimeoutNow(); err != nil {
		t.Fatal(err)
	}
	later.Add(int64(life) + 1)
	if err := ask(true); err != nil {
		t.Errorf("votes after this node's own decision: %v", err)
	}
	order()
	if err := ask(true); err != nil {
		t.Errorf("votes after a new order: %v", err)
	}
}

// raft takes no writes while an order is on the way: a target that is stopped must not hold them up for an RPC's time.
func TestAnOrderDoesNotWaitForAStoppedTarget(t *testing.T) {
	a := newEndpoint(t, "a", nil, func(cfg *TransportConfig) { cfg.OrderLife = 20 * time.Millisecond })
	b := newEndpoint(t, "b", nil) // nobody takes what it receives
	err := a.trans.TimeoutNow("b", raft.ServerAddress(b.addr), &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
	if !errors.Is(err, errSlowTarget) {
		t.Errorf("the order ended with %v", err)
	}
}
