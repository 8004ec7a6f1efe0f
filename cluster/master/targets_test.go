package master

import (
	"slices"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

func TestB130_KillExecutors(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(3))
	fw.runAll()
	if !w.askBool(&a.addr, &sparkmsg.KillExecutors{AppID: a.id, ExecutorIDs: []string{"1", "x", "99", "-1", "2147483648"}}) {
		t.Error("the answer is false")
	}
	kills := fw.kills()
	wantLen(t, "kills", kills, 1)
	if kills[0].ExecID != 1 {
		t.Errorf("executor %d was killed", kills[0].ExecID)
	}
	// The target is unchanged, so that the killed one is replaced, under a new id.
	if ids := a.executors(); len(ids) != 3 || ids[2] != 3 {
		t.Errorf("executors are %v", ids)
	}
	if w.askBool(&a.addr, &sparkmsg.KillExecutors{AppID: "app-unknown", ExecutorIDs: []string{"0"}}) {
		t.Error("an unknown application was answered with true")
	}
}

func TestB131_RequestExecutorsSetsTheTarget(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, initialLimit(0))
	wantLen(t, "executors at first", a.executors(), 0)
	if !a.target(3) {
		t.Error("the answer is false")
	}
	wantLen(t, "executors", a.executors(), 3)
	fw.runAll()
	a.target(1) // lowering kills nothing
	wantLen(t, "executors", a.executors(), 3)
	wantLen(t, "kills", fw.kills(), 0)
	if w.askBool(&a.addr, &sparkmsg.RequestExecutors{AppID: "app-unknown"}) {
		t.Error("an unknown application was answered with true")
	}
	a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
	if a.target(1) {
		t.Error("a finished application was answered with true")
	}
}

// B-131: the first definition of a profile stays. B-132: profiles that a request does not name keep their target.
func TestB132_ProfilesThatAreNotNamedKeepTheirTarget(t *testing.T) {
	w := newWorld(t)
	w.joined(1)
	a := w.joinedApp(1, initialLimit(1))
	profile := func(cores int64) sparkmsg.ResourceProfile {
		return sparkmsg.ResourceProfile{ID: 7, ExecutorResources: []sparkmsg.ExecutorResourceRequest{
			{ResourceName: "cores", Amount: cores}, {ResourceName: "memory", Amount: 2048}, {ResourceName: "memoryOverhead", Amount: 99},
			{ResourceName: "offHeap", Amount: 5}, {ResourceName: "pyspark.memory", Amount: 5}}}
	}
	request := func(p sparkmsg.ResourceProfile, total int32) {
		if !w.askBool(&a.addr, &sparkmsg.RequestExecutors{AppID: a.id, ResourceProfileToTotalExecs: []sparkmsg.ProfileTotal{{Profile: p, Total: total}}}) {
			t.Fatal("the answer is false")
		}
	}
	request(profile(2), 1)
	request(profile(3), 2)
	zero, _ := a.entry().Profile(0)
	seven, ok := a.entry().Profile(7)
	if zero.Target != 1 || !ok || seven.Target != 2 || *seven.Profile.Cores != 2 || seven.Profile.MemoryMB != 2048 || len(seven.Profile.Resources) != 0 {
		t.Errorf("profiles are %+v and %+v", zero, seven)
	}
	// B-181: what is launched is the profile's cores and memory; overheads are ignored.
	last := a.added()[len(a.added())-1]
	if last.Cores != 2 || last.Memory != 2048 {
		t.Errorf("the executor of profile 7 is %+v", last)
	}
}

// G-13: targets survive a take-over, and lost executors are replaced up to them.
func TestG13_TargetsSurviveATakeOver(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, initialLimit(0))
	a.target(2)
	fw.runAll()
	w.failover()
	fw.online()
	a.online()
	fw.schedulerState(running(a.id, 0), running(a.id, 1))
	fw.report(a.id, 0, sparkmsg.ExecutorExited, ptr[int32](1))
	if ids := a.executors(); len(ids) != 2 || ids[1] != 2 {
		t.Errorf("executors are %v, want 1 and the replacement 2", ids)
	}
}

// An executor without RUNNING in 30 s whose launch arrived: its worker is asked for its list. What is not in it could not
// be read: the executor is killed, FAILED, and the pair is marked.
func TestLaunchWithoutRunningAndWithReceiptMarksThePair(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	w.advance(29 * time.Second)
	wantLen(t, "incompatible workers", a.entry().IncompatibleWorkers, 0)
	w.advance(2 * time.Second)
	if n := len(got[*sparkmsg.MasterChanged](w.net, fw.addr)); n == 0 {
		t.Fatal("the worker was not asked for its list")
	}
	fw.schedulerState()
	if got := a.entry().IncompatibleWorkers; len(got) != 1 || got[0] != fw.id {
		t.Errorf("incompatible workers are %v", got)
	}
	wantLen(t, "kills", fw.kills(), 1)
	u := a.updates()
	wantLen(t, "updates", u, 1)
	if u[0].State != sparkmsg.ExecutorFailed || u[0].Message == nil {
		t.Errorf("the update is %+v", u[0])
	}
	wantLen(t, "executors", a.executors(), 0)
	other := w.joined(2)
	wantLen(t, "launches on another worker", other.launches(), 1)
	b := w.joinedApp(2, maxCores(1))
	wantLen(t, "executors of another application", b.executors(), 1)
}

// Without a receipt nothing is known to have been started: the executor is ended and planned again under a new id.
func TestG34_LaunchWithoutRunningAndWithoutReceiptIsPlannedAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.net.receipts[fw.addr] = false
	a := w.joinedApp(1, maxCores(1))
	w.advance(31 * time.Second)
	if ids := a.executors(); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("executors are %v, want 1", ids)
	}
	wantLen(t, "incompatible workers", a.entry().IncompatibleWorkers, 0)
	kills := fw.kills()
	wantLen(t, "kills, should the launch arrive after all", kills, 1)
	if kills[0].ExecID != 0 || a.entry().RetryCount != 0 {
		t.Errorf("executor %d was killed, %d failures are counted", kills[0].ExecID, a.entry().RetryCount)
	}
	if e := fw.entry(); e.CoresUsed != 1 {
		t.Errorf("%d cores are in use: G-34 leaks them", e.CoresUsed)
	}
}

func TestLaunchThatRunsIsNotJudged(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	w.advance(20 * time.Second)
	fw.runAll()
	w.advance(time.Minute)
	wantLen(t, "executors", a.executors(), 1)
	wantLen(t, "incompatible workers", a.entry().IncompatibleWorkers, 0)
	wantLen(t, "kills", fw.kills(), 0)
}

// LAUNCHING is no sign of life of the process, but one that is listed as such is slow to start and gets more time.
func TestLaunchThatIsListedAsLaunchingIsWatchedOn(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.report(a.id, 0, sparkmsg.ExecutorLaunching, nil)
	launching := running(a.id, 0)
	launching.State = sparkmsg.ExecutorLaunching
	for range 3 {
		w.advance(31 * time.Second)
		fw.schedulerState(launching)
		wantLen(t, "incompatible workers", a.entry().IncompatibleWorkers, 0)
		wantLen(t, "executors", a.executors(), 1)
	}
	w.advance(31 * time.Second)
	fw.schedulerState()
	wantLen(t, "incompatible workers", a.entry().IncompatibleWorkers, 1)
	wantLen(t, "executors", a.executors(), 0)
}

// A receipt speaks for the launches that went out on its connection before it, and for no other.
func TestReceiptCoversOnlyItsRange(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	delete(w.net.receipts, fw.addr)
	a := w.joinedApp(1, maxCores(2))
	q := w.net.receiptFor(t, fw.addr)
	first := w.net.outbox[fw.addr][1]                                        // behind RegisteredWorker
	q.receipt(Receipt{First: q.seq + 1, Last: q.seq + 9, Exists: true}, nil) // of a later connection
	w.settle()
	if w.view().Executor(fsm.ExecutorKey{AppID: a.id, ExecID: 0}).Delivered {
		t.Error("a receipt for later messages was believed")
	}
	q.receipt(Receipt{First: first.seq, Last: first.seq + 1, Exists: true}, nil)
	w.settle()
	one := w.view().Executor(fsm.ExecutorKey{AppID: a.id, ExecID: 0})
	two := w.view().Executor(fsm.ExecutorKey{AppID: a.id, ExecID: 1})
	if !one.Delivered || two.Delivered {
		t.Errorf("delivered: %v and %v, want only the first", one.Delivered, two.Delivered)
	}
	// A process that has no Worker endpoint gives no receipt.
	a.target(2)
	q.receipt(Receipt{First: 1, Last: 100, Exists: false}, nil)
	w.settle()
	if w.view().Executor(fsm.ExecutorKey{AppID: a.id, ExecID: 1}).Delivered {
		t.Error("a receipt without a worker was believed")
	}
}

// receiptFor takes the one open question for a receipt of a peer.
func (n *fakeNet) receiptFor(t *testing.T, to sparkmsg.Address) question {
	t.Helper()
	for i, q := range n.open {
		if q.to == to && q.receipt != nil {
			n.open = slices.Delete(n.open, i, i+1)
			return q
		}
	}
	t.Fatalf("no receipt of %s is asked for", to.String())
	return question{}
}

// One receipt is asked for behind each batch, not one for each launch.
func TestReceiptIsAskedOncePerBatchAndWorker(t *testing.T) {
	w := newWorld(t)
	one, two := w.joined(1), w.joined(2)
	delete(w.net.receipts, one.addr)
	delete(w.net.receipts, two.addr)
	w.joinedApp(1)
	receipts := 0
	for _, q := range w.net.open {
		if q.receipt != nil && (q.to == one.addr || q.to == two.addr) {
			receipts++
		}
	}
	if receipts != 2 {
		t.Errorf("%d receipts were asked for 8 launches on 2 workers", receipts)
	}
}
