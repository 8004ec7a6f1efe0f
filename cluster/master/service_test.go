package master

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type realClock struct{}

// Now implements Clock.
func (realClock) Now() time.Time { return time.Now() }

// logProposer commits what is proposed, on a goroutine of its own, unless it is held.
type logProposer struct {
	svc     *Service
	machine *fsm.Machine
	mu      sync.Mutex
	index   uint64
	held    bool
	wg      sync.WaitGroup
}

// Propose implements Proposer.
func (p *logProposer) Propose(cmd fsm.Command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		return
	}
	p.wg.Go(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.index++
		p.svc.Applied([]Applied{{Index: p.index, Term: 1, Cmd: cmd, Result: p.machine.Apply(p.index, 1, cmd)}})
	})
}

func (p *logProposer) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// nowhere is a network in which nobody answers.
type nowhere struct{ sent atomic.Int64 }

// Send implements Network.
func (n *nowhere) Send(sparkmsg.Address, string, sparkmsg.Family, sparkmsg.Message) uint64 {
	return uint64(n.sent.Add(1))
}

// Ask implements Network.
func (*nowhere) Ask(sparkmsg.Address, string, sparkmsg.Family, sparkmsg.Message, time.Duration, func(sparkmsg.Message, error)) {
}

// Receipt implements Network.
func (*nowhere) Receipt(sparkmsg.Address, string, sparkmsg.Family, time.Duration, func(Receipt, error)) {
}

// Probe implements Network.
func (*nowhere) Probe(sparkmsg.Address, string, time.Duration, func(ProbeResult)) {}

// Attached implements Network.
func (*nowhere) Attached(sparkmsg.Address) bool { return true }

// DropOutboxes implements Network.
func (*nowhere) DropOutboxes() {}

// startService runs a leader service over a log in memory; stop ends it and waits.
func startService(t *testing.T) (svc *Service, p *logProposer, stop func()) {
	t.Helper()
	p = &logProposer{machine: fsm.NewMachine()}
	svc = NewService(func(func(func())) *Core {
		return NewCore(testConfig(), Deps{Clock: realClock{}, Proposer: p, Network: &nowhere{}, Releases: &fakeReleases{},
			View: p.machine.View, Lease: func() bool { return true }, Log: hclog.NewNullLogger()})
	})
	p.svc = svc
	ctx, cancel := context.WithCancel(context.Background())
	go svc.Run(ctx)
	stop = sync.OnceFunc(func() {
		cancel()
		<-svc.Ended()
		p.wg.Wait()
	})
	t.Cleanup(stop)
	svc.Elected(1, "test")
	waitFor(t, "the election", func() bool { return p.machine.View().Index() > 0 })
	return svc, p, stop
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

func TestServiceRegistersAndReports(t *testing.T) {
	svc, p, _ := startService(t)
	w := &world{clock: &fakeClock{now: time.Now()}, net: newFakeNet(ptr(true))}
	fw := w.worker(1)
	svc.OneWay(fw.conn, &fw.addr, famE, fw.registration())
	waitFor(t, "the worker", func() bool { return p.machine.View().WorkerCounts().Alive == 1 })
	waitFor(t, "its heartbeat in the status", func() bool {
		st, err := svc.Status(context.Background())
		return err == nil && st.Leading && len(st.LastHeartbeats) == 1
	})
	svc.ConnClosed(fw.addr, true)
	svc.Deposed(1)
	st, err := svc.Status(context.Background())
	if err != nil || st.Leading || st.LastHeartbeats != nil {
		t.Errorf("after the step-down the status is %+v, %v", st, err)
	}
}

// Asks that wait for a commit that never comes, and asks that come while and after the service ends: all are answered,
// once, and nothing is left running.
func TestServiceShutsDownWithAsksPending(t *testing.T) {
	svc, p, stop := startService(t)
	p.hold()
	var answered, failed atomic.Int64
	reply := func(m sparkmsg.Message, err error) {
		answered.Add(1)
		if err != nil {
			failed.Add(1)
		}
	}
	const before = 50
	for range before {
		svc.Ask(nil, nil, &sparkmsg.RequestClearCompletedDriversAndApps{}, reply)
	}
	waitFor(t, "the asks in the core", func() bool {
		st, err := svc.Status(context.Background())
		return err == nil && st.Pending >= before
	})
	var late sync.WaitGroup
	var asked atomic.Int64
	for range 8 {
		late.Go(func() {
			for range 500 {
				asked.Add(1)
				svc.Ask(nil, nil, &sparkmsg.RequestClearCompletedDriversAndApps{}, reply)
				svc.OneWay(nil, nil, famE, &sparkmsg.UnregisterApplication{AppID: "nobody"})
			}
		})
	}
	stop()
	late.Wait()
	if want := before + asked.Load(); answered.Load() != want || failed.Load() != want {
		t.Errorf("%d asks got %d answers, %d of them failures", want, answered.Load(), failed.Load())
	}
}

// Asks that wait in the queue when the service ends are answered with a failure, too.
func TestServiceEndAnswersAsksInTheQueue(t *testing.T) {
	svc, _, stop := startService(t)
	block := make(chan struct{})
	svc.Post(func() { <-block })
	var answered atomic.Int64
	const asks = 200
	for range asks {
		svc.Ask(nil, nil, &sparkmsg.RequestReadyz{}, func(sparkmsg.Message, error) { answered.Add(1) })
	}
	time.AfterFunc(20*time.Millisecond, func() { close(block) }) // let stop come first; whatever comes first, all are answered
	stop()
	if n := answered.Load(); n != asks {
		t.Errorf("%d of %d asks were answered", n, asks)
	}
}

// More messages than the queue holds wait, and so do their connections; the end of the service lets them go.
func TestServiceEndReleasesWaitingReaders(t *testing.T) {
	svc, _, stop := startService(t)
	block := make(chan struct{})
	svc.Post(func() { <-block })
	var readers sync.WaitGroup
	var through atomic.Int64
	for range 4 {
		readers.Go(func() {
			for range maxInbound {
				svc.OneWay(nil, nil, famE, &sparkmsg.UnregisterApplication{AppID: "nobody"})
				through.Add(1)
			}
		})
	}
	waitFor(t, "the full queue", func() bool { return through.Load() >= maxInbound })
	close(block)
	stop()
	readers.Wait()
}

func TestServiceStatusAfterTheEnd(t *testing.T) {
	svc, _, stop := startService(t)
	stop()
	if _, err := svc.Status(context.Background()); !errors.Is(err, errNotLeader) {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := svc.Status(ctx); err == nil {
		t.Error("a cancelled question was answered")
	}
	// What Raft reports late finds nobody, and waits for nobody.
	svc.Elected(2, "late")
	svc.Deposed(2)
	svc.Applied(nil)
	svc.ProposeFailed(fsm.CheckDigest{}, errNotLeader)
}

// Answers to what Raft refuses come through the same queue.
func TestServiceProposeFailedAnswersTheAsk(t *testing.T) {
	svc, p, _ := startService(t)
	p.hold()
	caught := make(chan error, 1)
	svc.Ask(nil, nil, &sparkmsg.RequestClearCompletedDriversAndApps{}, func(_ sparkmsg.Message, err error) { caught <- err })
	var id string
	waitFor(t, "the command", func() bool {
		found := make(chan string, 1)
		svc.Post(func() {
			key := ""
			for k, c := range svc.core.pending {
				if c.name == "ClearCompleted" {
					key = k
				}
			}
			found <- key
		})
		id = <-found
		return id != ""
	})
	svc.ProposeFailed(fsm.ClearCompleted{Meta: fsm.Meta{RequestID: id}}, errors.New("no quorum"))
	if err := <-caught; err == nil || err.Error() != "no quorum" {
		t.Errorf("the ask ended with %v", err)
	}
}
