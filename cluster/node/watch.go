package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

// maxPeers bounds the masters that are watched: more than any sane cluster has.
const maxPeers = 64

// watch keeps a watch connection to an address until the address is of no more interest. This node's own is none.
func (n *Node) watch(addr string) {
	if addr == n.cfg.Self || len(n.peers.list()) >= maxPeers || !n.peers.add(addr) {
		return
	}
	p, _ := n.peers.get(addr)
	n.spawn(func() { n.keepWatch(addr, p.poke) })
}

// wanted tells whether an address still belongs to somebody: the list, raft's configuration, or a member that moved.
func (n *Node) wanted(addr string) bool {
	if slices.Contains(n.cfg.Cluster, addr) {
		return true
	}
	for _, s := range n.inst.Load().raft.GetConfiguration().Configuration().Servers {
		if string(s.Address) == addr || string(n.resolve(s.ID, s.Address)) == addr {
			return true
		}
	}
	return false
}

func (n *Node) keepWatch(addr string, poke <-chan struct{}) {
	wait := redialMin
	for n.ctx.Err() == nil {
		w, err := n.dialWatch(addr, watchDialTime)
		if err == nil {
			wait = redialMin
			for w != nil {
				w = n.holdWatch(addr, w)
			}
			continue
		}
		n.peers.update(addr, func(p *peer) { p.problem = err.Error() })
		var twin *twinError // is watched for as long as it is there, wherever that is
		if !errors.As(err, &twin) && !n.wanted(addr) {
			n.peers.remove(addr)
			n.clearAlarms(addr)
			return
		}
		select {
		case <-n.ctx.Done():
		case <-poke:
		case <-time.After(wait):
		}
		wait = min(2*wait, redialMax)
	}
}

// dialWatch opens a watch connection and records what the peer says about itself.
func (n *Node) dialWatch(addr string, timeout time.Duration) (*watchConn, error) {
	ctx, cancel := context.WithTimeout(n.ctx, timeout)
	defer cancel()
	c, theirs, err := n.dial(ctx, addr, n.hello(raftnet.KindWatch))
	if theirs.NodeID != "" && theirs.NodeID != n.nodeID {
		n.consider(theirs)
	}
	n.noteCluster(addr, theirs)
	if err == nil {
		err = n.checkAnswer(addr, theirs)
	}
	if err != nil {
		n.noteTwin(addr, theirs)
		n.logRefusal(addr, theirs, err)
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	if !n.addConn(c) {
		return nil, ErrStopped
	}
	w := newWatchConn(c, theirs)
	if err := n.heard(addr, theirs, w); err != nil {
		n.removeConn(c)
		return nil, err
	}
	return w, nil
}

// checkAnswer applies the rules of judge to the answer of a dialled peer, which may be of an older release.
func (n *Node) checkAnswer(addr string, theirs raftnet.Hello) error {
	mine := n.hello(raftnet.KindWatch)
	theirs.Kind, theirs.Target = raftnet.KindWatch, ""
	if why := refusal(mine, theirs); why != "" {
		return &raftnet.RefusedError{By: mine, Reason: why}
	}
	if mine.Fresh && theirs.Address != addr {
		return &raftnet.RefusedError{By: mine, Reason: fmt.Sprintf("the master that answers at %s calls itself %s: every master must be in the list by the name that it is started with", addr, theirs.Address)}
	}
	return nil
}

// noteCluster records which cluster answered a dial, if any did.
func (n *Node) noteCluster(addr string, theirs raftnet.Hello) {
	mine := n.ClusterID()
	foreign := ""
	if mine != "" && theirs.ClusterID != mine {
		foreign = theirs.ClusterID
	}
	n.peers.update(addr, func(p *peer) { p.asked, p.foreign = true, foreign })
	if foreign != "" {
		n.yieldPlace()
	}
}

func (n *Node) inConfiguration(nodeID string) bool {
	for _, s := range n.inst.Load().raft.GetConfiguration().Configuration().Servers {
		if string(s.ID) == nodeID {
			return true
		}
	}
	return false
}

// holdWatch reads a dialled watch connection until it ends. When that may mean the end of the leader, it looks after
// it, and may come back with the next connection.
func (n *Node) holdWatch(addr string, w *watchConn) *watchConn {
	n.peers.update(addr, func(p *peer) {
		p.conn, p.problem, p.trouble = w, "", ""
		if p.goneBoot == w.peer.BootID {
			p.goneBoot = ""
		}
	})
	n.cfg.OnEvent(Event{Kind: "peer-back", NodeID: w.peer.NodeID, Detail: addr})
	n.log.Debug("watching", "node_id", w.peer.NodeID, "address", addr)
	stopPings := n.ping(w)
	err := w.read(func(m raftnet.WatchMessage) { n.fromWatched(addr, w, m) })
	seen := n.observeLeader() // before anything else: who led when the connection closed?
	stopPings()
	n.removeConn(w.Conn)
	w.forgetAsks()
	left := false
	n.peers.update(addr, func(p *peer) {
		p.conn, p.problem = nil, "watch connection lost: "+err.Error()
		left = p.leftBoot == w.peer.BootID
	})
	if n.ctx.Err() != nil {
		return nil
	}
	n.log.Debug("watch connection ended", "node_id", w.peer.NodeID, "address", addr, "goodbye", left, "error", err)
	n.cfg.OnEvent(Event{Kind: "peer-lost", NodeID: w.peer.NodeID, Term: seen.term, Detail: addr})
	if left || seen.leader != w.peer.NodeID {
		return nil
	}
	return n.proveGone(addr, w.peer, seen)
}

// ping keeps a connection warm until the returned function is called, which waits.
func (n *Node) ping(w *watchConn) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(pingInterval)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
				if err := w.send(&raftnet.Ping{}); err != nil {
					_ = w.Close() // wakes the reader, which reports
					return
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// fromWatched handles what a watched peer says on this node's connection to it.
func (n *Node) fromWatched(addr string, w *watchConn, m raftnet.WatchMessage) {
	switch m := m.(type) {
	case *raftnet.Info:
		if m.Hello.NodeID == w.peer.NodeID && m.Hello.BootID == w.peer.BootID {
			n.noteTrouble(addr, &m.Hello)
			if err := n.heard(addr, m.Hello, nil); err == nil {
				n.consider(m.Hello)
			}
		}
	case *raftnet.Goodbye:
		n.log.Info("a master stops in order", "node_id", w.peer.NodeID, "address", addr, "term", m.Term)
		n.peers.update(addr, func(p *peer) { p.leftBoot = w.peer.BootID })
	case *raftnet.DigestVerdict:
		n.digests.verdict(w.peer.NodeID, *m)
	}
}

// serveWatch serves a peer that watches this node.
func (n *Node) serveWatch(c net.Conn, theirs raftnet.Hello) {
	w := newWatchConn(c, theirs)
	n.consider(theirs)
	n.mu.Lock()
	n.watchers[w] = struct{}{}
	n.mu.Unlock()
	if theirs.ClusterID != "" && theirs.ClusterID == n.ClusterID() {
		n.watch(theirs.Address) // a member may have moved to an address that no list of ours has
	}
	n.peers.poke(theirs.Address)
	stopPings := n.ping(w)
	err := w.read(func(m raftnet.WatchMessage) { n.fromWatcher(w, m) })
	stopPings()
	n.mu.Lock()
	delete(n.watchers, w)
	n.mu.Unlock()
	n.removeConn(c)
	if _, ok := n.peers.get(theirs.Address); !ok {
		n.clearAlarms(theirs.Address) // nobody dials there, so nothing else would
	}
	n.log.Debug("watcher gone", "node_id", theirs.NodeID, "error", err)
}

func (n *Node) fromWatcher(w *watchConn, m raftnet.WatchMessage) {
	twin := n.isTwin(w.peer.NodeID, w.peer.Address)
	switch m := m.(type) {
	case *raftnet.Ask:
		a := n.answer(*m)
		if err := w.send(&a); err != nil {
			n.log.Debug("answer not delivered", "to", w.peer.NodeID, "error", err)
		}
	case *raftnet.Campaign:
		if !twin && n.inConfiguration(w.peer.NodeID) {
			n.sawVoteRequest(m.Term)
		}
	case *raftnet.DigestReport:
		if !twin {
			n.digests.reported(w.peer.NodeID, *m)
		}
	}
}

// eachWatcher sends a message to all that watch this node.
func (n *Node) eachWatcher(m raftnet.WatchMessage, wanted func(nodeID string) bool) {
	n.mu.Lock()
	list := make([]*watchConn, 0, len(n.watchers))
	for w := range n.watchers {
		if wanted == nil || wanted(w.peer.NodeID) {
			list = append(list, w)
		}
	}
	n.mu.Unlock()
	for _, w := range list {
		if err := w.send(m); err != nil {
			n.log.Debug("watcher not reached", "node_id", w.peer.NodeID, "error", err)
		}
	}
}

// broadcastInfo says what this node is now, the trouble of its disk included: a word without it would take it back.
func (n *Node) broadcastInfo() {
	n.disk.mu.Lock()
	trouble := n.disk.trouble
	n.disk.mu.Unlock()
	n.tellTrouble(trouble)
}

// goodbye tells the watchers that this process stops on purpose.
func (n *Node) goodbye() {
	n.eachWatcher(&raftnet.Goodbye{Term: n.inst.Load().raft.CurrentTerm()}, nil)
}

// watchConfiguration watches members that are in no list, and keeps the lease's idea of the voters fresh. It is called
// about once a second; so it looks after what needs to be looked at now and then, too.
func (n *Node) watchConfiguration() {
	c := n.inst.Load().raft.GetConfiguration().Configuration()
	n.lease.setVoters(raft.ServerID(n.nodeID), c)
	n.watchHealth()
	for _, s := range c.Servers {
		if string(s.ID) != n.nodeID {
			n.watch(string(n.resolve(s.ID, s.Address)))
		}
	}
}
