package master

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// world is one replicated state with the masters that lead it one after the other, under a fake clock. Nothing in it runs
// by itself: commands are applied, and callbacks run, inside settle.
type world struct {
	t       *testing.T
	clock   *fakeClock
	machine *fsm.Machine
	index   uint64
	term    uint64

	core  *Core
	net   *fakeNet
	lease *bool

	queue    []fsm.Command // proposed and not committed yet
	held     bool          // settle commits nothing while set
	proposed []fsm.Command // everything ever proposed
	releases *fakeReleases
	log      *bytes.Buffer
	beating  []*fakeWorker // workers that heartbeat while the clock advances
	conns    uint64

	shortcuts int // heartbeats that the Core was not bothered with
}

type fakeClock struct{ now time.Time }

func (c *fakeClock) Now() time.Time { return c.now }

// testSettings are Spark's defaults.
func testConfig() Config {
	return Config{
		NodeID: "m1", Self: sparkmsg.Address{Host: "master1", Port: 7077}, WebUIURL: "http://master1:8080",
		WorkerTimeout: 60 * time.Second, AppTimeout: 120 * time.Second, DeadWorkerPersistence: 15,
		SpreadOutApps: true, Settings: fsm.DefaultSettings(), Location: time.UTC,
	}
}

// newWorld gives a master that leads an empty cluster.
func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := newStandby(t, change...)
	w.elect()
	return w
}

// newStandby gives a master that does not lead.
func newStandby(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, clock: &fakeClock{now: time.Date(2026, 3, 1, 12, 30, 45, 0, time.UTC)}, machine: fsm.NewMachine(),
		term: 1, releases: &fakeReleases{known: map[string]string{}}, log: &bytes.Buffer{}}
	cfg := testConfig()
	for _, c := range change {
		c(&cfg)
	}
	w.newCore(cfg)
	t.Cleanup(func() {
		if err := fsm.Check(w.machine.View()); err != nil {
			t.Errorf("invariants: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the masters:\n%s", w.log)
		}
	})
	return w
}

// newCore puts a fresh master of the cluster in charge of the test; who led before keeps its own network.
func (w *world) newCore(cfg Config) {
	lease := true
	w.lease = &lease
	w.net = newFakeNet(&lease)
	w.core = NewCore(cfg, Deps{Clock: w.clock, Proposer: w, Network: w.net, Releases: w.releases, View: w.machine.View,
		Lease: func() bool { return lease }, Log: hclog.New(&hclog.LoggerOptions{Output: w.log, Level: hclog.Debug, DisableTime: true})})
}

func (w *world) elect() {
	w.core.Elected(w.term, "test")
	w.settle()
}

// failover deposes the leader and puts another master in its place, which has never spoken to anybody. It returns the old
// leader and its network.
func (w *world) failover(change ...func(*Config)) (*Core, *fakeNet) {
	w.t.Helper()
	old, oldNet := w.core, w.net
	*w.lease = false
	w.queue = nil // what was not committed dies with its leader
	old.Deposed(w.term)
	w.term++
	cfg := testConfig()
	cfg.NodeID = fmt.Sprintf("m%d", w.term)
	cfg.Self.Host, cfg.WebUIURL = fmt.Sprintf("master%d", w.term), fmt.Sprintf("http://master%d:8080", w.term)
	for _, c := range change {
		c(&cfg)
	}
	w.newCore(cfg)
	w.elect()
	return old, oldNet
}

// Propose implements Proposer.
func (w *world) Propose(cmd fsm.Command) {
	w.proposed = append(w.proposed, cmd)
	w.queue = append(w.queue, cmd)
}

// settle commits what was proposed and answers what the peers of the test would answer, until nothing is left.
func (w *world) settle() {
	for range 1000 {
		batch := w.queue
		if w.held {
			batch = nil
		} else {
			w.queue = nil
		}
		if len(batch) > 0 {
			w.core.Applied(w.commit(batch...))
			continue
		}
		if !w.net.answerOne() && !w.releases.answerOne() {
			return
		}
	}
	w.t.Fatal("the master never comes to rest")
}

// commit applies commands to the state machine, as Raft would.
func (w *world) commit(cmds ...fsm.Command) []Applied {
	w.t.Helper()
	out := make([]Applied, 0, len(cmds))
	for _, cmd := range cmds {
		w.index++
		out = append(out, Applied{Index: w.index, Term: w.term, Cmd: cmd, Result: w.machine.Apply(w.index, w.term, cmd)})
	}
	if err := fsm.Check(w.machine.View()); err != nil {
		w.t.Fatalf("invariants after %T: %v", cmds[len(cmds)-1], err)
	}
	return out
}

// operator commits a command that did not come from the leader service.
func (w *world) operator(cmd fsm.Command) fsm.Result {
	w.t.Helper()
	out := w.commit(cmd)
	w.core.Applied(out)
	w.settle()
	return out[0].Result
}

func (w *world) meta() fsm.Meta {
	return fsm.Meta{NowMillis: w.clock.now.UnixMilli(), Stamp: w.clock.now.Format("20060102150405"), RequestID: fmt.Sprintf("operator/%d", w.index)}
}

// fail lets Raft refuse everything that is proposed and not committed.
func (w *world) fail(err error) {
	batch := w.queue
	w.queue = nil
	for _, cmd := range batch {
		w.core.ProposeFailed(cmd, err)
	}
	w.settle()
}

// advance moves the clock on, from one deadline of the master to the next.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	end := w.clock.now.Add(d)
	for {
		at, ok := w.core.NextDeadline()
		if !ok || at.After(end) {
			break
		}
		if at.After(w.clock.now) {
			w.clock.now = at
		}
		w.beat()
		w.core.Tick()
		w.settle()
	}
	w.clock.now = end
	w.beat()
	w.core.Tick()
	w.settle()
}

func (w *world) beat() {
	for _, fw := range w.beating {
		if w.clock.now.Sub(fw.beatAt) >= 15*time.Second {
			fw.heartbeat()
		}
	}
}

func (w *world) view() state { return state{w.machine.View()} }

// committed counts the commands of a type that were proposed.
func committed[C fsm.Command](w *world) (out []C) {
	for _, cmd := range w.proposed {
		if c, ok := cmd.(C); ok {
			out = append(out, c)
		}
	}
	return out
}

// ask asks the master and returns a function that gives the answer; it fails the test when there is none.
func (w *world) ask(from *sparkmsg.Address, msg sparkmsg.Message) func() (sparkmsg.Message, error) {
	w.t.Helper()
	var answers []sparkmsg.Message
	var errs []error
	w.core.Ask(nil, from, msg, func(m sparkmsg.Message, err error) {
		answers, errs = append(answers, m), append(errs, err)
	})
	w.settle()
	return func() (sparkmsg.Message, error) {
		w.t.Helper()
		if len(answers) != 1 {
			w.t.Fatalf("%s was answered %d times", msg.MessageName(), len(answers))
		}
		return answers[0], errs[0]
	}
}

// askBool asks what is answered with a Boolean.
func (w *world) askBool(from *sparkmsg.Address, msg sparkmsg.Message) bool {
	w.t.Helper()
	answer, err := w.ask(from, msg)()
	if err != nil {
		w.t.Fatalf("%s failed: %v", msg.MessageName(), err)
	}
	yes, ok := answer.(*sparkmsg.Boolean)
	if !ok {
		w.t.Fatalf("%s was answered with %T", msg.MessageName(), answer)
	}
	return yes.Value
}

// sent is a message in a peer's outbox.
type sent struct {
	seq      uint64
	endpoint string
	fam      sparkmsg.Family
	msg      sparkmsg.Message
}

// question is something that waits for its answer.
type question struct {
	to      sparkmsg.Address
	msg     sparkmsg.Message // nil for probes and receipts
	seq     uint64           // the last push before a receipt
	probe   func(ProbeResult)
	receipt func(Receipt, error)
	answer  func(sparkmsg.Message, error)
}

// fakeNet is the master's network. Pushes arrive at once while the lease holds. Questions are answered as the test has
// scripted for the address, and wait while it has not.
type fakeNet struct {
	lease   *bool
	seq     map[sparkmsg.Address]uint64
	outbox  map[sparkmsg.Address][]sent
	order   []sparkmsg.Message // of all peers
	dropped int                // pushes that the gate refused
	drops   int                // calls of DropOutboxes
	open    []question
	// reach says how probes end, by address.
	reach map[sparkmsg.Address]ProbeResult
	// receipts says whether receipts are given; errors otherwise.
	receipts map[sparkmsg.Address]bool
	// asks answers questions on the peer's connection.
	asks     map[sparkmsg.Address]func(sparkmsg.Message) (sparkmsg.Message, error)
	attached map[sparkmsg.Address]bool
	probed   map[sparkmsg.Address]int
	asked    map[sparkmsg.Address]int
}

func newFakeNet(lease *bool) *fakeNet {
	return &fakeNet{lease: lease, seq: map[sparkmsg.Address]uint64{}, outbox: map[sparkmsg.Address][]sent{},
		reach: map[sparkmsg.Address]ProbeResult{}, receipts: map[sparkmsg.Address]bool{},
		asks:     map[sparkmsg.Address]func(sparkmsg.Message) (sparkmsg.Message, error){},
		attached: map[sparkmsg.Address]bool{}, probed: map[sparkmsg.Address]int{}, asked: map[sparkmsg.Address]int{}}
}

// Send implements Network.
func (n *fakeNet) Send(to sparkmsg.Address, endpoint string, fam sparkmsg.Family, msg sparkmsg.Message) uint64 {
	n.seq[to]++
	if !*n.lease {
		n.dropped++
		return n.seq[to]
	}
	n.outbox[to] = append(n.outbox[to], sent{seq: n.seq[to], endpoint: endpoint, fam: fam, msg: msg})
	n.order = append(n.order, msg)
	return n.seq[to]
}

// Ask implements Network.
func (n *fakeNet) Ask(to sparkmsg.Address, _ string, _ sparkmsg.Family, msg sparkmsg.Message, _ time.Duration, done func(sparkmsg.Message, error)) {
	n.asked[to]++
	n.open = append(n.open, question{to: to, msg: msg, answer: done})
}

// Receipt implements Network.
func (n *fakeNet) Receipt(to sparkmsg.Address, _ string, _ sparkmsg.Family, _ time.Duration, done func(Receipt, error)) {
	n.open = append(n.open, question{to: to, seq: n.seq[to], receipt: done})
}

// Probe implements Network.
func (n *fakeNet) Probe(to sparkmsg.Address, _ string, _ time.Duration, done func(ProbeResult)) {
	n.probed[to]++
	n.open = append(n.open, question{to: to, probe: done})
}

// Attached implements Network.
func (n *fakeNet) Attached(to sparkmsg.Address) bool { return n.attached[to] }

// DropOutboxes implements Network.
func (n *fakeNet) DropOutboxes() { n.drops++ }

// answerOne answers the first question that has a scripted answer.
func (n *fakeNet) answerOne() bool {
	for i, q := range n.open {
		var run func()
		switch {
		case q.probe != nil:
			if r, ok := n.reach[q.to]; ok {
				run = func() { q.probe(r) }
			}
		case q.receipt != nil:
			if given, ok := n.receipts[q.to]; ok && given {
				run = func() { q.receipt(Receipt{First: 1, Last: q.seq + 1, Exists: true}, nil) }
			} else if ok {
				run = func() { q.receipt(Receipt{}, errors.New("no receipt")) }
			}
		default:
			if answer := n.asks[q.to]; answer != nil {
				run = func() { q.answer(answer(q.msg)) }
			}
		}
		if run != nil {
			n.open = slices.Delete(n.open, i, i+1)
			run()
			return true
		}
	}
	return false
}

// got lists the messages of a type that a peer was sent.
func got[M sparkmsg.Message](n *fakeNet, to sparkmsg.Address) (out []M) {
	for _, s := range n.outbox[to] {
		if m, ok := s.msg.(M); ok {
			out = append(out, m)
		}
	}
	return out
}

// fakeConn is a connection that a peer has opened.
type fakeConn struct {
	id      uint64
	net     *fakeNet
	peer    sparkmsg.Address
	first   uint64
	trusted bool
	fams    sparkmsg.FamilySet
	pushes  []sparkmsg.Message
	// holds answers questions on this connection; nil leaves them open.
	answer func(sparkmsg.Message) (sparkmsg.Message, error)
	open   []func(sparkmsg.Message, error)
	take   func() bool // the shortcut for the last heartbeat
}

// OnRepeat is what lets the Core not see every heartbeat; see beats.
func (c *fakeConn) OnRepeat(_ sparkmsg.Message, take func() bool) { c.take = take }

func (w *world) conn(peer sparkmsg.Address) *fakeConn {
	w.conns++
	return &fakeConn{id: w.conns, net: w.net, peer: peer, first: w.net.seq[peer] + 1}
}

// ID implements Conn.
func (c *fakeConn) ID() uint64 { return c.id }

// Families implements Conn.
func (c *fakeConn) Families() sparkmsg.FamilySet { return c.fams }

// SetTrusted implements Conn.
func (c *fakeConn) SetTrusted() { c.trusted = true }

// Outbox implements Conn.
func (c *fakeConn) Outbox() (first, last uint64) { return c.first, c.net.seq[c.peer] + 1 }

// Push implements Conn.
func (c *fakeConn) Push(_ string, _ sparkmsg.Family, msg sparkmsg.Message) {
	c.pushes = append(c.pushes, msg)
}

// Ask implements Conn.
func (c *fakeConn) Ask(_ string, _ sparkmsg.Family, msg sparkmsg.Message, _ time.Duration, done func(sparkmsg.Message, error)) {
	if c.answer != nil {
		done(c.answer(msg))
		return
	}
	c.open = append(c.open, done)
}

func pushed[M sparkmsg.Message](c *fakeConn) (out []M) {
	for _, p := range c.pushes {
		if m, ok := p.(M); ok {
			out = append(out, m)
		}
	}
	return out
}

// fakeReleases reads the releases that the test names; a page that it does not name cannot be read. While held, nobody
// gets an answer.
type fakeReleases struct {
	known map[string]string
	held  bool
	open  []func()
	asked []string
}

// Worker implements Releases.
func (r *fakeReleases) Worker(url string, done func(string)) {
	r.asked = append(r.asked, url)
	r.open = append(r.open, func() { done(r.known[url]) })
}

// Application implements Releases.
func (r *fakeReleases) Application(url string, done func(string)) { r.Worker(url, done) }

func (r *fakeReleases) answerOne() bool {
	if r.held || len(r.open) == 0 {
		return false
	}
	next := r.open[0]
	r.open = r.open[1:]
	next()
	return true
}
