package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/raftstore"
	"raftmaster/transport/raftnet"
)

// Node is one running raft node. Its methods may be called from any goroutine.
type Node struct {
	cfg    Config
	hooks  Hooks
	log    hclog.Logger
	store  *raftstore.Store
	fsm    *adapter
	lease  *lease
	nodeID string
	bootID string
	booted time.Time

	proposer *proposer
	peers    *peerTable
	digests  *digests
	alarms   alarms
	noise    noise
	urls     atomic.Pointer[urls]

	// inst is the running raft; it is replaced when a guard restarts raft in place. lifecycle serialises that.
	inst      atomic.Pointer[instance]
	lifecycle sync.Mutex

	// leaderTerm is the term of the last Elected without a Deposed, else 0. transferring suspends the lease.
	leaderTerm   atomic.Uint64
	transferring atomic.Bool
	transferMu   sync.Mutex
	transferTo   atomic.Pointer[string] // node id of the target while raft's transfer runs
	voteTerm     atomic.Uint64          // highest term for which somebody has asked for a vote
	flagStuck    stuckFlag
	restoring    sync.Mutex    // held while a snapshot is restored
	snapshotting atomic.Bool   // a snapshot that boundLog wants is being taken
	placed       chan struct{} // closed when takePlace allows to lead
	calls        atomic.Int32  // being answered
	disk         diskWords
	diskChanged  <-chan struct{} // the store's health has changed

	ctx      context.Context
	cancel   context.CancelFunc
	stopping atomic.Bool
	left     atomic.Bool
	stopOnce sync.Once
	stopErr  error

	mu       sync.Mutex
	quotas   *quotas                 // bound incoming connections; locks for itself
	conns    map[net.Conn]struct{}   // watch and call connections, both ways
	watchers map[*watchConn]struct{} // incoming watch connections
	closed   bool                    // no goroutine and no connection is added any more
	wg       sync.WaitGroup
}

type urls struct{ web, rest string }

// Start opens the data directory, starts raft and the watch connections, and bootstraps the cluster when it is due. It
// returns once the node takes part; a lone voter is normally the leader within milliseconds. in must be, or become, the
// handler of internal connections on the cluster port.
func Start(cfg Config, in *raftnet.Inbox, hooks Hooks) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if hooks.Applied == nil || hooks.ProposeFailed == nil || hooks.Restored == nil || hooks.Elected == nil || hooks.Deposed == nil {
		return nil, errors.New("node: all hooks are required")
	}
	changed := make(chan struct{}, 1)
	store, err := raftstore.Open(cfg.storeOptions(changed))
	if err != nil {
		return nil, err
	}
	n := newNode(cfg, hooks, store)
	n.diskChanged = changed
	if err := n.start(in); err != nil {
		return nil, errors.Join(err, n.stop())
	}
	return n, nil
}

func newNode(cfg Config, hooks Hooks, store *raftstore.Store) *Node {
	n := &Node{
		cfg: cfg, hooks: hooks, store: store, nodeID: store.Identity().NodeID, bootID: raftstore.NewID(), booted: time.Now(),
		log: cfg.Logger.Named("node"), lease: newLease(cfg.FailoverTimeout), conns: make(map[net.Conn]struct{}), watchers: make(map[*watchConn]struct{}),
		placed: make(chan struct{}), quotas: newQuotas(),
	}
	n.urls.Store(&urls{cfg.WebURL, cfg.RESTURL})
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.peers = newPeerTable()
	n.digests = newDigests(n)
	n.fsm = newAdapter(n.log, hooks, cfg.Fatal, cfg.level(), n.digests.record)
	n.proposer = newProposer(n)
	return n
}

func (n *Node) start(in *raftnet.Inbox) error {
	id := n.store.Identity()
	n.log.Info("starting", "node_id", n.nodeID, "cluster_id", id.ClusterID, "address", n.cfg.Self, "cluster", raftnet.ListString(n.cfg.Cluster), "data_dir", n.cfg.DataDir)
	inst, err := n.startInstance()
	if err != nil {
		return err
	}
	n.inst.Store(inst)
	if err := n.resumeBootstrap(id); err != nil {
		return err
	}
	in.Serve(n.handleConn)
	for _, addr := range n.cfg.Cluster {
		n.watch(addr)
	}
	n.takePlace(inst)
	n.spawn(n.digests.run)
	n.spawn(n.housekeeping)
	n.spawn(n.watchDisk)
	if n.store.Identity().ClusterID == "" {
		n.spawn(n.awaitBootstrap)
	}
	return nil
}

// spawn runs f on a goroutine that the end of the node waits for; it tells false when the node is ending.
func (n *Node) spawn(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.wg.Go(f)
	return true
}

// addConn registers a connection that must not outlive the node; it tells false, and closes it, when the node is ending.
func (n *Node) addConn(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = c.Close() // the end of the node is the reason that counts
		return false
	}
	n.conns[c] = struct{}{}
	return true
}

// replaceConn registers a connection in the place of the one below it; like addConn it may have to close it.
func (n *Node) replaceConn(raw, c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, raw)
	if n.closed {
		_ = c.Close() // the end of the node is the reason that counts
		return false
	}
	n.conns[c] = struct{}{}
	return true
}

func (n *Node) removeConn(c net.Conn) {
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
	_ = c.Close() // its reader has ended and reported why
}

func (n *Node) closeConns() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for c := range n.conns {
		_ = c.Close() // wakes its reader
	}
}

// NodeID is the generated identity of this node's data directory.
func (n *Node) NodeID() string { return n.nodeID }

// ClusterID is the id of the cluster, "" before the bootstrap.
func (n *Node) ClusterID() string { return n.store.Identity().ClusterID }

// Leader returns the known leader's node id and address; both are "" when none is known.
func (n *Node) Leader() (id, address string) {
	in := n.inst.Load()
	addr, sid := in.raft.LeaderWithID()
	if sid == "" {
		return "", ""
	}
	return string(sid), string(n.resolve(sid, addr))
}

// SetURLs tells the other masters where this one's web UI and REST gateway listen.
func (n *Node) SetURLs(web, rest string) {
	n.urls.Store(&urls{web, rest})
	n.broadcastInfo()
}

// housekeeping does what is due now and then: the bounds of the log in bytes, and on the leader, addresses that have moved.
func (n *Node) housekeeping() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var wanted time.Time // the last time that boundLog wanted a snapshot
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		wanted = n.boundLog(wanted)
		n.watchConfiguration()
		n.updateAddresses()
		n.raiseLevel()
	}
}

// Leave hands leadership over if this node has it, and says goodbye, so that nobody takes its end for a failure. The
// node goes on as a follower; Shutdown must follow. The context bounds the hand-over.
func (n *Node) Leave(ctx context.Context) error {
	if n.left.Swap(true) {
		return nil
	}
	var err error
	if n.leaderTerm.Load() != 0 && n.otherVoters() > 0 {
		var t Transfer
		if t, err = n.TransferLeadership(ctx, ""); err == nil {
			n.log.Info("leadership handed over before the stop", "to", t.LeaderID, "address", t.LeaderAddress, "took", t.Took)
		}
	}
	n.goodbye()
	return err
}

// Shutdown leaves in order (see Leave) and stops: watch connections, raft, stores. The port should be closed between
// Leave and Shutdown. A failed hand-over is reported but stops nothing.
func (n *Node) Shutdown(ctx context.Context) error {
	err := n.Leave(ctx)
	return errors.Join(err, n.stop())
}

// Kill stops at once, without hand-over and goodbye: what tests call a crash.
func (n *Node) Kill() {
	n.left.Store(true)
	if err := n.stop(); err != nil {
		n.log.Warn("stopped with an error", "error", err)
	}
}

func (n *Node) stop() error {
	n.stopOnce.Do(func() { n.stopErr = n.stopNow() })
	return n.stopErr
}

func (n *Node) stopNow() error {
	n.stopping.Store(true)
	n.cancel()
	n.proposer.close()
	n.closeConns()
	n.lifecycle.Lock()
	in := n.inst.Load()
	var err error
	if in != nil {
		resume := n.proposer.pause(4 * n.cfg.FailoverTimeout)
		err = n.stopInstance(in)
		resume()
	}
	n.lifecycle.Unlock()
	n.proposer.stop()
	n.wg.Wait()
	return errors.Join(err, n.store.Close())
}

// campaignIfAlone lets a lone voter campaign at once: there is nobody to wait for.
func (n *Node) campaignIfAlone(in *instance) {
	if !isLone(in.raft.GetConfiguration().Configuration().Servers, n.nodeID) {
		return
	}
	n.cfg.OnEvent(Event{Kind: "lone-voter", NodeID: n.nodeID, Term: in.raft.CurrentTerm(), Detail: "start of the only voter"})
	if err := in.trans.InjectTimeoutNow(); err != nil {
		n.log.Warn("cannot campaign at once", "error", err)
	}
}

// halt ends this node's part for good: nothing is applied any more, and the process is asked to end.
func (n *Node) halt(err error) {
	n.alarms.set("halted", err.Error())
	n.fsm.halt(err)
}

// storageError names the disk as the culprit.
func storageError(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrStorage, what, err)
}
