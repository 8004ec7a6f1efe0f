package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"raftmaster/cluster/admin"
	"raftmaster/cluster/master"
	"raftmaster/cluster/node"
	"raftmaster/fsm"
	"raftmaster/transport/portmux"
	"raftmaster/transport/raftnet"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
	"raftmaster/transport/webui"
)

// statusTimeout bounds how long a page waits for the leader service.
const statusTimeout = 2 * time.Second

// startCore brings up Raft, the RPC endpoint and the leader service behind the cluster port.
func (s *Server) startCore(ln net.Listener) error {
	var rpc *sparkrpc.Endpoint
	s.svc = master.NewService(func(post func(func())) *master.Core {
		return master.NewCore(s.masterConfig(s.node.NodeID()), master.Deps{
			Clock: wallClock{}, Proposer: s.node, Network: &network{rpc: rpc, post: post},
			Releases: newReleases(s.ctx, post), Observer: observer{s}, View: s.node.View, Lease: s.node.LeaseValid, Leader: s.leader,
			Log: s.log.Named("master"),
		})
	})
	// Raft counts from its start; what it counts before it is registered is lost.
	if err := node.RegisterMetrics(s.registry); err != nil {
		return errors.Join(err, ln.Close())
	}
	internal := raftnet.NewInbox()
	n, err := node.Start(s.nodeConfig(), internal, s.hooks())
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	s.node = n
	self := s.self()
	rpc = sparkrpc.New(sparkrpc.Config{
		Self:   self,
		Exists: func(name string) bool { return name == "Master" },
		Gate:   n.LeaseValid,
		Dial:   s.drills.dial(),
		Log:    s.log.Named("rpc"),
		Limits: sparkrpc.Limits{MaxTrustedFrame: s.cfg.MessageMaxBytes},
		Metrics: sparkrpc.Metrics{
			Connections: s.countConnections,
			DecodeError: s.countDecodeError,
			Dropped: func(reason string, _ int) {
				if reason == "gate" {
					s.svc.PushesDropped()
				}
			},
		},
	}, &inbound{svc: s.svc, post: s.svc.Post})
	s.rpc = rpc
	s.backend = admin.NewBackend(admin.Identity{
		Version: s.version, MasterURL: s.cfg.MasterURL(), ClusterURL: s.cfg.ClusterURL(), WebURL: s.webURL,
		RESTURL: s.restURL, StartedMillis: s.started.UnixMilli(), MaxDrivers: s.cfg.Deploy.MaxDrivers,
	}, admin.NodeOf(n, s.alive.Load), softState{s}, familyNames, nil)
	s.newSaves()
	s.backend.Guard(watched{s.guard, s.saves})
	if err := s.registerMetrics(); err != nil {
		return errors.Join(err, ln.Close())
	}
	if s.drills != nil {
		s.drills.brief, s.drills.view = s.backend.Brief, n.View
	}
	members := newPreferred(s.cfg.Cluster)
	s.wg.Go(func() { members.run(s.ctx) })
	s.wg.Go(func() { newMemoryKeeper().run(s.ctx) })
	s.wg.Go(func() { s.svc.Run(s.ctx) })
	if s.saves != nil {
		s.wg.Go(func() { s.saves.Run(s.ctx) })
	}
	s.mux = portmux.Serve(ln, portmux.Handlers{
		Preferred: members.has,
		Spark:     rpc.ServeConn, Internal: s.counted(internal.Handle), HTTPHint: s.httpHint,
	}, s.log.Named("port"))
	return s.registry.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "raftmaster", Name: "silent_connections_dropped_total",
		Help: "Connections to the cluster port that were closed because too many had not said who they are.",
	}, func() float64 { return float64(s.mux.Dropped()) }))
}

func (s *Server) nodeConfig() node.Config {
	list := make([]string, 0, len(s.cfg.Cluster))
	for _, a := range s.cfg.Cluster {
		list = append(list, a.String())
	}
	return node.Config{
		TLS:     s.guard.Cluster(),
		Cluster: list, Self: s.cfg.Advertise().String(), DataDir: s.cfg.DataDir, FailoverTimeout: s.cfg.FailoverTimeout,
		WebURL: s.webURL, RESTURL: s.restURL, Version: s.version, Logger: s.log.Named("raft"), Fatal: s.fail, OnEvent: s.nodeEvent,
		Net: s.drills.faults(), Disk: s.drills.diskHooks(),
	}
}

// hooks hand what Raft reports to the leader service. They only post, so that none of them waits.
func (s *Server) hooks() node.Hooks {
	return node.Hooks{
		Applied: func(batch []node.Applied) {
			if s.drills != nil {
				s.drills.journal.add(batch)
			}
			out := make([]master.Applied, len(batch))
			for i, a := range batch {
				out[i] = master.Applied{Index: a.Index, Term: a.Term, Cmd: a.Cmd, Result: a.Result}
			}
			s.svc.Applied(out)
			s.takeOverAgain(batch)
		},
		Measured:      s.observeApply,
		ProposeFailed: s.svc.ProposeFailed,
		Restored: func() {
			if s.drills != nil {
				s.drills.journal.restored()
			}
			s.log.Info("the state was restored from a snapshot")
		},
		Elected: func(term uint64) {
			s.term.Store(term)
			s.elected(term, s.electionReason())
			s.svc.Post(func() { s.alive.Store(true) })
		},
		Deposed: func(term uint64) {
			s.alive.Store(false)
			s.deposed(term)
		},
	}
}

// reason is why this node campaigned. Another one may have won that election, so it counts for a short time only.
type reason struct {
	text string
	at   time.Time
}

const reasonLife = 5 * time.Second

// electionReason says why there was an election, as far as this node knows. A reason counts once.
func (s *Server) electionReason() string {
	if r := s.reason.Swap(nil); r != nil && time.Since(r.at) < reasonLife {
		return r.text
	}
	return "no word from a leader for the heartbeat time-out"
}

func (s *Server) nodeEvent(e node.Event) {
	switch e.Kind {
	case "failover", "hand-over", "lone-voter", "first-election":
		s.reason.Store(&reason{text: e.Detail, at: time.Now()})
	}
	if e.Kind == "leader" {
		if m := s.metrics.Load(); m != nil {
			m.LeaderChanged()
		}
		return // the leader service records it, with the reason
	}
	s.ring.Add(webui.Event{Kind: e.Kind, Node: s.cfg.Advertise().String(), Subject: e.NodeID, Term: e.Term, Message: e.Detail})
}

// counted keeps the number of connections between masters.
func (s *Server) counted(handle func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		m := s.metrics.Load()
		m.ConnectionOpened("internal")
		handle(&countedConn{Conn: c, closed: sync.OnceFunc(func() { m.ConnectionClosed("internal") })})
	}
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (s *Server) countConnections(delta int) {
	m := s.metrics.Load()
	switch {
	case m == nil:
	case delta > 0:
		m.ConnectionOpened("spark")
	default:
		m.ConnectionClosed("spark")
	}
}

func (s *Server) observeApply(took time.Duration) {
	if m := s.metrics.Load(); m != nil {
		m.Applied(took)
	}
}

func (s *Server) countDecodeError(class string) {
	if m := s.metrics.Load(); m != nil {
		m.DecodeError(class)
	}
}

// wallClock is the real clock. Its readings carry Go's monotonic clock, which stands still while the machine sleeps;
// the Core notices a pause of its process by its own ticks.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func familyNames(mask uint8) string {
	set := sparkmsg.FamilySet(mask)
	if set.IsEmpty() {
		return ""
	}
	return set.String()
}

// softState shows what the leader service knows and does not replicate.
type softState struct{ s *Server }

// Soft implements admin.Master.
func (a softState) Soft() admin.Soft {
	ctx, cancel := context.WithTimeout(a.s.ctx, statusTimeout)
	defer cancel()
	st, err := a.s.svc.Status(ctx)
	if err != nil || !st.Leading {
		return admin.Soft{}
	}
	out := admin.Soft{HeartbeatMillis: make(map[string]int64, len(st.LastHeartbeats)), TakeOverStartedMillis: st.ElectedAt.UnixMilli()}
	for id, at := range st.LastHeartbeats {
		out.HeartbeatMillis[id] = at.UnixMilli()
	}
	out.WorkerNotes, out.UnreadableDrivers = st.WorkerNotes, st.UnreadableDrivers
	for _, w := range st.Awaited {
		if w.Dead {
			continue // it is told of the new leader as well, but nothing waits for it
		}
		out.Awaited = append(out.Awaited, admin.Awaited{
			Kind: w.Kind, ID: w.ID, Address: w.Address, DeadlineMillis: w.Deadline.UnixMilli(), Attempts: w.Attempts})
	}
	return out
}

// Stop leaves in order: leadership is handed over while everything still runs, open asks are answered, then the
// listeners, Raft and the stores close.
func (s *Server) Stop() error {
	s.drills.close()
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	s.log.Info("stopping: leadership is handed over first")
	if err := s.node.Leave(ctx); err != nil {
		// Nobody to hand over to, as when a whole cluster is stopped: the stop itself is in order.
		s.log.Warn("stopping without a hand-over of leadership", "error", err)
	}
	s.closeREST() // before the leader service, which answers what is open there
	s.closePort()
	err := s.node.Shutdown(ctx)
	s.closeWeb()
	return err
}

// Kill stops at once, without hand-over and goodbye: what a test calls a crash. As when a process dies, the listener and
// the connections go first, so that nobody is answered any more and whoever dials back is refused.
func (s *Server) Kill() {
	s.drills.close()
	s.closeMux()
	s.rpc.Close()
	s.node.Kill()
	s.closePort()
	s.closeREST()
	s.closeWeb()
}

// closePort ends the leader service, which answers what is open, and then everything on the cluster port.
func (s *Server) closePort() {
	s.cancel()
	s.wg.Wait()
	s.closeMux()
	if s.rpc != nil {
		s.rpc.Close()
	}
}

func (s *Server) closeMux() {
	if s.mux == nil {
		return
	}
	if err := s.mux.Close(); err != nil {
		s.log.Warn("the cluster port did not close in order", "error", err)
	}
}

// closeREST ends the gateway, and closeWeb the web UI; running requests are answered first.
func (s *Server) closeREST() { s.closeHTTP(s.rest, "REST server") }

func (s *Server) closeWeb() {
	s.closeHTTP(s.web, "web UI")
	s.levels.close()
	s.logRing.close()
}

func (s *Server) closeHTTP(server *webui.Server, name string) {
	if server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), webShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		s.log.Warn("the "+name+" did not stop in time", "error", err)
	}
}

// State returns the replicated state as applied here; for tests and tools in the same process.
func (s *Server) State() fsm.View { return s.node.View() }

// Node returns the Raft side of this master.
func (s *Server) Node() *node.Node { return s.node }

// String names the master in logs of tests.
func (s *Server) String() string { return fmt.Sprintf("master %s", s.cfg.Advertise()) }
