package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"raftmaster/fsm"
	"raftmaster/transport/certtest"
	"raftmaster/transport/raftnet"
)

// proof is a Security with a certificate that does not change.
func proof(ca *certtest.Authority, cert certtest.Certificate, self string) *raftnet.Security {
	return &raftnet.Security{Address: self, Material: func() (tls.Certificate, *x509.CertPool) { return cert.TLS, ca.Pool }}
}

// secure gives each master a certificate for its host.
func secure(ca *certtest.Authority) func(*Config) {
	return func(cfg *Config) { cfg.TLS = proof(ca, ca.Issue(nil, hostOf(cfg.Self)), cfg.Self) }
}

func optional(ca *certtest.Authority) func(*Config) {
	return func(cfg *Config) {
		secure(ca)(cfg)
		cfg.TLS.Optional = true
	}
}

func TestMastersWithCertificatesFormAClusterAndFailOver(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, secure(certtest.New(t, "ca")))
	c.proposeMany(20)
	old := c.leader()
	old.kill()
	c.propose()
	old.start()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.leader().node.TransferLeadership(ctx, ""); err != nil {
		t.Error(err)
	}
	c.propose()
	c.converge()
	for _, m := range c.members {
		if strings.Contains(m.logs.String(), "connection between masters refused") {
			t.Errorf("%s refused somebody", m.addr)
		}
	}
}

// stranger is somebody who knows all about a cluster but has no certificate of a master.
type stranger struct {
	name string
	// dial opens a connection whose Hello it chooses.
	dial func(ctx context.Context, addr string, h raftnet.Hello) (net.Conn, raftnet.Hello, error)
}

func strangers(t *testing.T, ca *certtest.Authority) []stranger {
	with := func(cert certtest.Certificate, pool *x509.CertPool) func(context.Context, string, raftnet.Hello) (net.Conn, raftnet.Hello, error) {
		return func(ctx context.Context, addr string, h raftnet.Hello) (net.Conn, raftnet.Hello, error) {
			s := &raftnet.Security{Material: func() (tls.Certificate, *x509.CertPool) { return cert.TLS, pool }}
			return raftnet.DialSecure(ctx, addr, h, raftnet.Faults{}, s)
		}
	}
	other := certtest.New(t, "other")
	return []stranger{
		{"without TLS", func(ctx context.Context, addr string, h raftnet.Hello) (net.Conn, raftnet.Hello, error) {
			return raftnet.Dial(ctx, addr, h, raftnet.Faults{})
		}},
		{"without a certificate", with(certtest.Certificate{}, ca.Pool)},
		{"of another authority", with(other.Issue(nil, "127.0.0.1"), ca.Pool)},
		{"of the authority, for another host", with(ca.Issue(nil, "elsewhere", "127.0.0.1"), ca.Pool)},
		{"expired", with(ca.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, "127.0.0.1"), ca.Pool)},
		{"for servers alone", with(ca.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, "127.0.0.1"), ca.Pool)},
	}
}

// raftCalls makes every raft RPC as a stranger who claims to be the leader.
func raftCalls(trans *raftnet.Transport, id raft.ServerID, addr raft.ServerAddress, header raft.RPCHeader, term uint64) map[string]error {
	return map[string]error{
		"heartbeat": trans.AppendEntries(id, addr, &raft.AppendEntriesRequest{RPCHeader: header, Term: term}, &raft.AppendEntriesResponse{}),
		"append": trans.AppendEntries(id, addr, &raft.AppendEntriesRequest{RPCHeader: header, Term: term, LeaderCommitIndex: 1000,
			Entries: []*raft.Log{{Index: 1, Term: term, Type: raft.LogCommand, Data: []byte("forged")}}}, &raft.AppendEntriesResponse{}),
		"vote":     trans.RequestVote(id, addr, &raft.RequestVoteRequest{RPCHeader: header, Term: term, LastLogIndex: 1 << 40, LastLogTerm: term, LeadershipTransfer: true}, &raft.RequestVoteResponse{}),
		"pre-vote": trans.RequestPreVote(id, addr, &raft.RequestPreVoteRequest{RPCHeader: header, Term: term, LastLogIndex: 1 << 40, LastLogTerm: term}, &raft.RequestPreVoteResponse{}),
		"snapshot": trans.InstallSnapshot(id, addr, &raft.InstallSnapshotRequest{RPCHeader: header, Term: term, LastLogIndex: 1 << 40, LastLogTerm: term, Size: 4,
			SnapshotVersion: raft.SnapshotVersionMax}, &raft.InstallSnapshotResponse{}, strings.NewReader("data")),
		"order to campaign": trans.TimeoutNow(id, addr, &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{}),
	}
}

// TestAStrangerOnTheRaftChannelChangesNothing: whatever he says, he is refused before it is read, and learns nothing.
func TestAStrangerOnTheRaftChannelChangesNothing(t *testing.T) {
	slow(t)
	t.Parallel()
	ca := certtest.New(t, "ca")
	c := startAll(t, 3, func(cfg *Config) { // nobody but a stranger may begin an election, however busy the machine is
		secure(ca)(cfg)
		cfg.FailoverTimeout = 10 * testTimeout
	})
	c.proposeMany(5)
	c.converge()
	l, victim := c.leader(), c.followers()[0]
	term, digest := victim.node.Status().Term, victim.node.View().Digest()
	for _, s := range strangers(t, ca) {
		// He claims to be the leader, or to be himself.
		for _, claim := range []raftnet.Hello{
			{NodeID: l.node.NodeID(), Address: l.addr}, {NodeID: "stranger", Address: "elsewhere:1"}, {NodeID: l.node.NodeID(), Address: "elsewhere:1"},
		} {
			claim.ClusterID, claim.BootID, claim.Cluster = l.node.ClusterID(), "b", c.list
			for _, kind := range []raftnet.Kind{raftnet.KindWatch, raftnet.KindCall, raftnet.KindRaft} {
				h := claim
				h.Kind = kind
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				conn, theirs, err := s.dial(ctx, victim.addr, h)
				cancel()
				if err == nil {
					conn.Close()
					t.Fatalf("%s, as %s at %s: a %s connection is let in", s.name, claim.NodeID, claim.Address, kind)
				}
				if theirs.ClusterID+theirs.NodeID+theirs.LeaderID != "" || len(theirs.Cluster) > 0 {
					t.Errorf("%s learns %+v", s.name, theirs)
				}
			}
			if claim.NodeID == "stranger" {
				continue
			}
			trans := raftnet.NewTransport(raftnet.TransportConfig{
				LocalID: raft.ServerID(claim.NodeID), LocalAddress: claim.Address, Now: raftnet.BootTime, Timeout: patience, Logger: hclog.NewNullLogger(),
				Dial: func(id, addr string, timeout time.Duration) (net.Conn, error) {
					ctx, cancel := context.WithTimeout(context.Background(), timeout)
					defer cancel()
					h := claim
					h.Kind, h.Target = raftnet.KindRaft, id
					conn, _, err := s.dial(ctx, addr, h)
					return conn, err
				},
			})
			header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(claim.NodeID), Addr: []byte(claim.Address)}
			for _, at := range []uint64{term + 50, 1 << 40} {
				for what, err := range raftCalls(trans, raft.ServerID(victim.node.NodeID()), raft.ServerAddress(victim.addr), header, at) {
					if err == nil {
						t.Errorf("%s: %s of term %d is answered", s.name, what, at)
					}
				}
			}
			if err := trans.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	shout(t, victim.addr, raftnet.Hello{Kind: raftnet.KindWatch, ClusterID: l.node.ClusterID(), NodeID: l.node.NodeID(), BootID: "b", Address: l.addr, Cluster: c.list})
	c.propose()
	c.converge()
	if st := victim.node.Status(); st.Term != term || c.leader() != l || victim.node.View().Digest() == digest {
		t.Errorf("term %d became %d, the leader %s is %s", term, st.Term, l.addr, c.leader().addr)
	}
	if !strings.Contains(victim.logs.String(), "connection between masters refused") {
		t.Error("nothing is in the log")
	}
}

// shout does not wait for answers: reports of a lost leader and a goodbye behind the handshake, in one go.
func shout(t *testing.T, addr string, h raftnet.Hello) {
	t.Helper()
	all := raftnet.AppendHello(nil, h)
	for _, m := range []raftnet.WatchMessage{&raftnet.Campaign{Term: 1 << 40}, &raftnet.Goodbye{Term: 1 << 40}, &raftnet.Info{Hello: h}} {
		all = raftnet.AppendWatch(all, m)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(all); err != nil {
		t.Fatal(err)
	}
	if theirs, err := raftnet.ReadHello(c); err == nil && theirs.Refused == "" {
		t.Errorf("let in: %+v", theirs)
	}
	_, _ = io.Copy(io.Discard, c) // until the other side ends it
}

// TestAFreshMasterIsNotTalkedIntoAClusterByAStranger: joining, too, needs a certificate.
func TestAFreshMasterIsNotTalkedIntoAClusterByAStranger(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	c := newCluster(t, 3)
	m := c.members[0]
	m.edit = secure(ca)
	m.start()
	for _, s := range strangers(t, ca) {
		h := raftnet.Hello{Level: uint8(fsm.CommandLevel), Kind: raftnet.KindRaft, ClusterID: "forged", NodeID: "leader", BootID: "b", Address: c.list[1], Cluster: c.list, Target: m.node.NodeID()}
		conn, _, err := s.dial(context.Background(), m.addr, h)
		if err == nil {
			conn.Close()
			t.Errorf("%s: let in", s.name)
		}
	}
	if id := m.node.ClusterID(); id != "" {
		t.Errorf("joined %q", id)
	}
}

// TestMastersThatDisagreeOnTLSNameEachOther: whichever has it, both say what is wrong, and with whom.
func TestMastersThatDisagreeOnTLSNameEachOther(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	c := newCluster(t, 2)
	with, without := c.members[0], c.members[1]
	with.edit = secure(ca)
	with.start()
	without.start()
	for m, want := range map[*member][]string{
		with:    {"does not use TLS between masters", without.addr, "--cluster-tls-cert"},
		without: {"takes TLS connections of masters alone", with.addr, "--cluster-tls-cert"},
	} {
		eventually(t, m.addr+" says so", func() bool {
			for _, p := range m.node.Status().Peers {
				if strings.Contains(p.Problem, want[0]) {
					return true
				}
			}
			return false
		})
		eventually(t, "the log of "+m.addr, func() bool {
			for _, line := range strings.Split(m.logs.String(), "\n") {
				good := strings.Contains(line, "connection between masters refused")
				for _, w := range want {
					good = good && strings.Contains(line, w)
				}
				if good {
					return true
				}
			}
			return false
		})
	}
	if with.node.ClusterID()+without.node.ClusterID() != "" {
		t.Error("they have formed a cluster")
	}
}

// TestTLSIsSwitchedOnOneMasterAfterTheOther: through optional, never without a leader for longer than an election.
func TestTLSIsSwitchedOnOneMasterAfterTheOther(t *testing.T) {
	slow(t)
	t.Parallel()
	ca := certtest.New(t, "ca")
	c := startAll(t, 3, nil)
	for _, step := range []func(*Config){optional(ca), secure(ca)} {
		for _, m := range c.members {
			m.stop()
			c.propose()
			m.edit = step
			m.start()
			eventually(t, m.addr+" is in contact with all", func() bool {
				for _, p := range m.node.Status().Peers {
					if !p.Connected {
						return false
					}
				}
				return true
			})
			c.propose()
			c.converge()
		}
	}
	shout(t, c.members[0].addr, raftnet.Hello{Kind: raftnet.KindWatch, ClusterID: c.members[0].node.ClusterID(), NodeID: "x", BootID: "b", Address: c.list[1], Cluster: c.list})
}

// TestAMasterThatMovesIsLetInByItsName: where all certificates have one name, addresses do not matter.
func TestAMasterThatMovesIsLetInByItsName(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	c := startAll(t, 1, func(cfg *Config) {
		cfg.TLS = proof(ca, ca.Issue(nil, "masters"), cfg.Self)
		cfg.TLS.Name = "masters"
	})
	m := c.members[0]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.node.AddPeer(ctx, "learner", "127.0.0.1:2", false); err != nil {
		t.Fatal(err)
	}
	for name, good := range map[string]bool{"masters": true, "127.0.0.1": false} {
		s := proof(ca, ca.Issue(nil, name), "")
		s.Name = "masters"
		conn, _, err := raftnet.DialSecure(ctx, m.addr, raftnet.Hello{Level: uint8(fsm.CommandLevel), Kind: raftnet.KindWatch, ClusterID: m.node.ClusterID(), NodeID: "learner", BootID: "b",
			Address: "127.0.0.1:3", Cluster: c.list}, raftnet.Faults{}, s)
		if (err == nil) != good {
			t.Errorf("a certificate for %s: %v", name, err)
		}
		if conn != nil {
			conn.Close()
		}
	}
}

// TestRecoveryAsksMastersThatUseTLS: whoever recovers without the files must not take silence for death.
func TestRecoveryAsksMastersThatUseTLS(t *testing.T) {
	slow(t)
	t.Parallel()
	ca := certtest.New(t, "ca")
	c := startAll(t, 3, secure(ca))
	c.propose()
	c.converge()
	last := c.followers()[0]
	last.kill()
	c.propose()
	opts := RecoverOptions{DataDir: last.dir, Logger: hclog.NewNullLogger(), DryRun: true}
	if _, err := Recover(context.Background(), opts); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "TLS between masters") {
		t.Errorf("without the files: %v", err)
	}
	opts.TLS = proof(ca, ca.Issue(nil, hostOf(last.addr)), last.addr)
	if _, err := Recover(context.Background(), opts); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "knows a leader") {
		t.Errorf("with them: %v", err)
	}
	opts.TLS = proof(certtest.New(t, "other"), ca.Issue(nil, hostOf(last.addr)), last.addr)
	if _, err := Recover(context.Background(), opts); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "cannot be asked") {
		t.Errorf("with another authority: %v", err)
	}
	other := certtest.New(t, "another")
	opts.TLS = &raftnet.Security{Address: last.addr, Material: func() (tls.Certificate, *x509.CertPool) {
		return other.Issue(nil, hostOf(last.addr)).TLS, ca.Pool
	}}
	if _, err := Recover(context.Background(), opts); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "cannot be asked") {
		t.Errorf("with a certificate that they do not accept: %v", err)
	}
}
