package node

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

// speakRaft makes a transport for somebody who knows what to say and is no member.
func speakRaft(t *testing.T, hello raftnet.Hello) *raftnet.Transport {
	t.Helper()
	trans := raftnet.NewTransport(raftnet.TransportConfig{
		LocalID: raft.ServerID(hello.NodeID), LocalAddress: hello.Address, Now: raftnet.BootTime, Timeout: patience, Logger: hclog.NewNullLogger(),
		Dial: func(id, addr string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			h := hello
			h.Kind, h.Target = raftnet.KindRaft, id
			c, _, err := raftnet.Dial(ctx, addr, h, raftnet.Faults{})
			return c, err
		},
	})
	t.Cleanup(func() {
		if err := trans.Close(); err != nil {
			t.Error(err)
		}
	})
	return trans
}

func TestF8_ATermFarAheadIsRefused(t *testing.T) {
	t.Parallel()
	c := startAll(t, 1, nil)
	m := c.members[0]
	in := m.node.inst.Load()
	hello := raftnet.Hello{Level: uint8(fsm.CommandLevel), ClusterID: m.node.ClusterID(), NodeID: "outsider", BootID: "b", Address: m.addr, Cluster: c.list}
	trans := speakRaft(t, hello)
	id, addr := raft.ServerID(m.node.NodeID()), raft.ServerAddress(m.addr)
	before := in.raft.CurrentTerm()
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("outsider"), Addr: []byte(m.addr)}
	for _, ahead := range []uint64{maxTermLead + 1, 1 << 40, ^uint64(0) - before} {
		term := before + ahead
		for kind, err := range map[string]error{
			"heartbeat": trans.AppendEntries(id, addr, &raft.AppendEntriesRequest{RPCHeader: header, Term: term}, &raft.AppendEntriesResponse{}),
			"append":    trans.AppendEntries(id, addr, &raft.AppendEntriesRequest{RPCHeader: header, Term: term, PrevLogEntry: 1}, &raft.AppendEntriesResponse{}),
			"vote":      trans.RequestVote(id, addr, &raft.RequestVoteRequest{RPCHeader: header, Term: term, LeadershipTransfer: true}, &raft.RequestVoteResponse{}),
			"pre-vote":  trans.RequestPreVote(id, addr, &raft.RequestPreVoteRequest{RPCHeader: header, Term: term}, &raft.RequestPreVoteResponse{}),
			"snapshot": trans.InstallSnapshot(id, addr, &raft.InstallSnapshotRequest{RPCHeader: header, Term: term, Size: 4, SnapshotVersion: raft.SnapshotVersionMax},
				&raft.InstallSnapshotResponse{}, strings.NewReader("data")),
		} {
			if err == nil || !strings.Contains(err.Error(), errTermTooFar.Error()) {
				t.Errorf("%s with term %d: %v", kind, term, err)
			}
		}
	}
	if after := in.raft.CurrentTerm(); after != before || !m.node.LeaseValid() {
		t.Errorf("term %d became %d; lease %v", before, after, m.node.LeaseValid())
	}
	if k := strings.Count(m.logs.String(), "raft request refused"); k != 1 {
		t.Errorf("%d log lines, want 1", k)
	}
	if err := m.node.admitTerm(in, &raft.RequestVoteRequest{Term: before + maxTermLead}); err != nil {
		t.Errorf("a term at the bound: %v", err)
	}
}

// impostor answers handshakes at an address of the list.
func impostor(t *testing.T, addr string, hello raftnet.Hello) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				// Whoever ends the connection early is the node under test, at its end.
				_, _ = raftnet.Accept(c, func(raftnet.Hello) raftnet.Hello { return hello })
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		served.Wait()
	})
}

func TestF8_AFreshNodeJoinsOnlyAtTheConfirmedWordOfItsList(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	m, silent, there := c.members[0], c.list[1], c.list[2]
	m.start()
	real := raftnet.Hello{Level: uint8(fsm.CommandLevel), ClusterID: "cluster", NodeID: "leader", BootID: "b", Address: there, Cluster: c.list}
	impostor(t, there, real)
	for name, h := range map[string]raftnet.Hello{
		"not in the list":   {ClusterID: "cluster", NodeID: "leader", Address: "127.0.0.1:1"},
		"its own address":   {ClusterID: "cluster", NodeID: "leader", Address: m.addr},
		"nobody answers":    {ClusterID: "cluster", NodeID: "leader", Address: silent},
		"another node":      {ClusterID: "cluster", NodeID: "liar", Address: there},
		"another cluster":   {ClusterID: "forged", NodeID: "leader", Address: there},
		"no address at all": {ClusterID: "cluster", NodeID: "leader"},
	} {
		h.Kind, h.Target, h.BootID, h.Cluster = raftnet.KindRaft, m.node.NodeID(), "b", c.list
		conn, _, err := raftnet.Dial(context.Background(), m.addr, h, raftnet.Faults{})
		var refused *raftnet.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "has no data") {
			t.Errorf("%s: %v", name, err)
		}
		if conn != nil {
			conn.Close()
		}
		if id := m.node.ClusterID(); id != "" {
			t.Fatalf("%s: joined %s", name, id)
		}
	}
	h := real
	h.Kind, h.Target = raftnet.KindRaft, m.node.NodeID()
	conn, _, err := raftnet.Dial(context.Background(), m.addr, h, raftnet.Faults{})
	if err != nil {
		t.Fatalf("the leader itself: %v", err)
	}
	conn.Close()
	if id := m.node.ClusterID(); id != "cluster" {
		t.Errorf("joined %q", id)
	}
}

func TestF8_WhoClaimsNoAddressOfTheClusterIsRefused(t *testing.T) {
	t.Parallel()
	c := startAll(t, 1, nil)
	m := c.members[0]
	dial := func(kind raftnet.Kind, nodeID, address string) error {
		h := raftnet.Hello{Level: uint8(fsm.CommandLevel), Kind: kind, ClusterID: m.node.ClusterID(), NodeID: nodeID, BootID: "b", Address: address, Cluster: c.list}
		conn, _, err := raftnet.Dial(context.Background(), m.addr, h, raftnet.Faults{})
		if conn != nil {
			conn.Close()
		}
		return err
	}
	for _, kind := range []raftnet.Kind{raftnet.KindRaft, raftnet.KindWatch, raftnet.KindCall} {
		var refused *raftnet.RefusedError
		if err := dial(kind, "outsider", "127.0.0.1:1"); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "neither in the cluster list") {
			t.Errorf("%s: %v", kind, err)
		}
		if err := dial(kind, "other", m.addr); err != nil {
			t.Errorf("%s from an address of the list: %v", kind, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.node.AddPeer(ctx, "learner", "127.0.0.1:2", false); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:2", "127.0.0.1:3"} { // a member may have moved
		if err := dial(raftnet.KindWatch, "learner", address); err != nil {
			t.Errorf("a member at %s: %v", address, err)
		}
	}
}
