package master

import (
	"errors"
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-010: workers come to the master; a master that has never heard of a worker speaks to nobody, and one more worker adds
// its capacity at once.
func TestB010_WorkerInitiatesAndAddsCapacity(t *testing.T) {
	w := newWorld(t)
	wantLen(t, "messages before anybody came", w.net.order, 0)
	a := w.joinedApp(1)
	wantLen(t, "executors without workers", a.executors(), 0)
	w.joined(1)
	wantLen(t, "executors with one worker", a.executors(), 4)
	w.joined(2)
	wantLen(t, "executors with two workers", a.executors(), 8)
}

func TestB011_RegisterWorkerAtStandbyAnswersMasterInStandby(t *testing.T) {
	w := newStandby(t)
	fw := w.worker(1)
	fw.register()
	wantLen(t, "MasterInStandby", pushed[*sparkmsg.MasterInStandby](fw.conn), 1)
	wantLen(t, "commands", w.proposed, 0)
	if fw.conn.trusted {
		t.Error("a standby lifted the frame limit of a worker that it did not register")
	}
}

// A leader whose lease has lapsed does not know whether it still leads: it says nothing before Raft has told (S19).
func TestB011_RegisterWorkerWithoutLeaseIsNotAnswered(t *testing.T) {
	w := newWorld(t)
	*w.lease = false
	w.held = true
	fw := w.worker(1)
	fw.register()
	w.core.Deposed(w.term)
	w.fail(errors.New("not the leader"))
	wantLen(t, "RegisteredWorker", w.net.outbox[fw.addr], 0)
	wantLen(t, "pushes", fw.conn.pushes, 0)
	fw.register()
	wantLen(t, "MasterInStandby of the deposed master", pushed[*sparkmsg.MasterInStandby](fw.conn), 1)
}

func TestB012_RegisterWorkerKnownIDAnswersDuplicate(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	before := a.executors()
	commands := len(w.proposed)
	fw.register()
	answers := got[*sparkmsg.RegisteredWorker](w.net, fw.addr)
	wantLen(t, "RegisteredWorker", answers, 2)
	if answers[0].Duplicate || !answers[1].Duplicate {
		t.Errorf("duplicate flags are %v, %v; want false, true", answers[0].Duplicate, answers[1].Duplicate)
	}
	wantLen(t, "RegisterWorkerFailed", pushed[*sparkmsg.RegisterWorkerFailed](fw.conn), 0)
	if len(w.proposed) != commands {
		t.Errorf("a repetition without news was committed: %+v", w.proposed[commands:])
	}
	wantLen(t, "executors kept", a.executors(), len(before))
	wantLen(t, "kills", fw.kills(), 0)
}

// B-013: tables, then the answer, then work; the answer echoes the address that the worker dialled and names this master
// exactly as launches do (B-048).
func TestB013_RegisterWorkerNewIDIsStoredAnsweredAndScheduled(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	fw := w.worker(1)
	w.held = true
	fw.register()
	wantLen(t, "answers before the commit", w.net.outbox[fw.addr], 0)
	w.held = false
	w.settle()
	e := fw.entry()
	if e == nil || e.State != fsm.WorkerAlive || e.Cores != 4 || e.MemoryMB != 8192 || e.CoresUsed != 4 ||
		e.Address != toFSMAddress(fw.addr) || e.WebUIURL != fw.url {
		t.Fatalf("the entry is %+v", e)
	}
	msgs := w.net.outbox[fw.addr]
	first, ok := msgs[0].msg.(*sparkmsg.RegisteredWorker)
	if !ok || msgs[0].endpoint != "Worker" || first.Duplicate {
		t.Fatalf("the first message is %+v", msgs[0])
	}
	if first.MasterAddress != fw.registration().MasterAddress || first.MasterWebUIURL != "http://master1:8080" {
		t.Errorf("RegisteredWorker says %+v", first)
	}
	wantLen(t, "executors", a.executors(), 4)
	for _, l := range fw.launches() {
		if want := "spark://" + first.Master.Address.String(); l.MasterURL != want {
			t.Errorf("B-048: launch names %s, the reference says %s", l.MasterURL, want)
		}
	}
	if !fw.conn.trusted {
		t.Error("a registered worker keeps the frame limit of a stranger")
	}
}

func TestB013_WorkerResourcesAreKept(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	m := fw.registration()
	m.Resources = []sparkmsg.ResourceInformation{{Name: "gpu", Addresses: []string{"2", "10", "0"}}}
	fw.say(m)
	e := fw.entry()
	if len(e.Resources) != 1 || strings.Join(e.Resources[0].Addresses, ",") != "0,10,2" {
		t.Fatalf("resources are %+v; want gpu with 0,10,2", e.Resources)
	}
	fw.say(m)
	wantLen(t, "RegisterWorker commands after a repetition", committed[fsm.RegisterWorker](w), 1)
}

func TestB014_DeadPredecessorOfSameHostPortIsDropped(t *testing.T) {
	w := newWorld(t)
	old := w.worker(1)
	old.register()
	w.advance(61 * time.Second)
	old.wantState(fsm.WorkerDead)
	young := w.worker(1)
	young.id = "worker-20260301130000-host1-7001"
	young.register()
	if old.entry() != nil {
		t.Errorf("the DEAD entry is still there: %+v", old.entry())
	}
	young.wantState(fsm.WorkerAlive)
}

// The same after a take-over: the new leader had begun to call the DEAD worker, and has to stop.
func TestB014_DeadPredecessorIsNoLongerAwaited(t *testing.T) {
	w := newWorld(t)
	old := w.worker(1)
	old.register()
	w.advance(61 * time.Second)
	w.failover()
	young := w.joined(1)
	young.id = "worker-20260301130000-host1-7001"
	young.register()
	young.latestState()
	w.advance(10 * time.Second)
	n := len(got[*sparkmsg.MasterChanged](w.net, young.addr))
	w.advance(30 * time.Second)
	if more := len(got[*sparkmsg.MasterChanged](w.net, young.addr)); more != n {
		t.Errorf("MasterChanged went on to the address of the dropped entry: %d, then %d", n, more)
	}
	wantLen(t, "awaited peers", w.core.Status().Awaited, 0)
}

// B-015: after a take-over, a first worker that has not shown itself is replaced at once, with all that ran on it.
func TestB015_SameAddressAfterTakeOverReplacesTheSilentWorker(t *testing.T) {
	w := newWorld(t)
	old := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	old.runAll()
	w.failover()
	w.beating = nil
	a.online()
	a.acknowledge()
	young := w.worker(1)
	young.id = "worker-20260301130000-host1-7001"
	young.register()
	old.wantState(fsm.WorkerDead)
	young.wantState(fsm.WorkerAlive)
	removed := got[*sparkmsg.WorkerRemoved](w.net, a.addr)
	wantLen(t, "WorkerRemoved", removed, 1)
	if removed[0].ID != old.id || removed[0].Message != "Worker replaced by a new worker with same address" {
		t.Errorf("WorkerRemoved says %+v", removed[0])
	}
	lost := 0
	for _, u := range a.updates() {
		if u.State == sparkmsg.ExecutorLost && u.WorkerHost != nil && *u.WorkerHost == "host1" {
			lost++
		}
	}
	if lost != 2 {
		t.Errorf("%d executors were reported LOST, want 2", lost)
	}
	wantLen(t, "launches on the new worker", young.launches(), 2)
	w.advance(20 * time.Second)
	for _, aw := range w.core.Status().Awaited {
		t.Errorf("still awaited: %+v", aw)
	}
}

// G-04: the old socket's death was not noticed. The first worker does not answer an ask within 2 s, or its connection is
// closed: it is replaced instead of the newcomer being sent away.
func TestG04_SameAddressReplacesAWorkerThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	old := w.joined(1)
	young := w.worker(1)
	young.id = "worker-20260301130000-host1-7001"
	young.register()
	wantLen(t, "questions to the first worker", old.conn.open, 1)
	wantLen(t, "answers before the first worker had its time", young.conn.pushes, 0)
	old.wantState(fsm.WorkerAlive)
	old.conn.open[0](nil, errors.New("connection closed"))
	w.settle()
	old.wantState(fsm.WorkerDead)
	young.wantState(fsm.WorkerAlive)
	wantLen(t, "RegisterWorkerFailed", pushed[*sparkmsg.RegisterWorkerFailed](young.conn), 0)
}

func TestG04_SameAddressOnTheSameConnectionReplaces(t *testing.T) {
	w := newWorld(t)
	old := w.joined(1)
	young := *old
	young.id = "worker-20260301130000-host1-7001"
	young.register()
	old.wantState(fsm.WorkerDead)
	young.wantState(fsm.WorkerAlive)
}

func TestB016_SameAddressIsRefusedWhileTheFirstWorkerAnswers(t *testing.T) {
	w := newWorld(t)
	old := w.joined(1)
	old.conn.answer = func(m sparkmsg.Message) (sparkmsg.Message, error) {
		if q, ok := m.(*sparkmsg.CheckExistence); !ok || q.Name != "Worker" {
			t.Errorf("the first worker was asked %+v", m)
		}
		return &sparkmsg.Boolean{Value: true}, nil
	}
	young := w.worker(1)
	young.id = "worker-20260301130000-host1-7001"
	young.register()
	refused := pushed[*sparkmsg.RegisterWorkerFailed](young.conn)
	wantLen(t, "RegisterWorkerFailed", refused, 1)
	if want := "Attempted to re-register worker at same address: host1:7001"; refused[0].Message != want {
		t.Errorf("the refusal says %q, want %q", refused[0].Message, want)
	}
	old.wantState(fsm.WorkerAlive)
	if young.entry() != nil {
		t.Error("the refused worker has an entry")
	}
}

// B-017: a new leader registers from the first moment, before any peer has answered.
func TestB017_RegistrationIsAcceptedDuringTakeOver(t *testing.T) {
	w := newWorld(t)
	w.joined(1)
	a := w.joinedApp(1, maxCores(100))
	w.failover()
	w.beating = nil
	fw := w.joined(2)
	fw.wantState(fsm.WorkerAlive)
	wantLen(t, "launches on the new worker", fw.launches(), 4)
	wantLen(t, "executors", a.executors(), 8)
}

// B-018: a worker registers with all masters at once. Only the leader keeps it, the others say that they stand by.
func TestB018_WorkerRegistersWithAllMastersAndOneKeepsIt(t *testing.T) {
	leader, standby := newWorld(t), newStandby(t)
	atLeader, atStandby := leader.worker(1), standby.worker(1)
	atStandby.register()
	atLeader.register()
	wantLen(t, "MasterInStandby", pushed[*sparkmsg.MasterInStandby](atStandby.conn), 1)
	wantLen(t, "RegisteredWorker of the standby", standby.net.order, 0)
	wantLen(t, "RegisteredWorker of the leader", got[*sparkmsg.RegisteredWorker](leader.net, atLeader.addr), 1)
}

// B-020: only a registration that can never succeed is answered with RegisterWorkerFailed, which ends the worker.
func TestB020_RegisterWorkerFailedOnlyForHopelessRegistrations(t *testing.T) {
	bad := map[string]func(*sparkmsg.RegisterWorker){
		"no id":                func(m *sparkmsg.RegisterWorker) { m.ID = "" },
		"long id":              func(m *sparkmsg.RegisterWorker) { m.ID = strings.Repeat("x", fsm.MaxIDBytes+1) },
		"NUL in id":            func(m *sparkmsg.RegisterWorker) { m.ID = "a\x00b" },
		"port":                 func(m *sparkmsg.RegisterWorker) { m.Port = 70000 },
		"negative cores":       func(m *sparkmsg.RegisterWorker) { m.Cores = -1 },
		"negative memory":      func(m *sparkmsg.RegisterWorker) { m.Memory = -1 },
		"no reference":         func(m *sparkmsg.RegisterWorker) { m.Worker.Address = nil },
		"port of reference":    func(m *sparkmsg.RegisterWorker) { m.Worker.Address.Port = 0 },
		"resource named twice": func(m *sparkmsg.RegisterWorker) { m.Resources = twice("gpu") },
	}
	for name, spoil := range bad {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fw := w.worker(1)
			m := fw.registration()
			spoil(m)
			fw.say(m)
			wantLen(t, "RegisterWorkerFailed", pushed[*sparkmsg.RegisterWorkerFailed](fw.conn), 1)
			if n := w.machine.View().WorkerCounts().Alive; n != 0 {
				t.Errorf("%d workers are registered", n)
			}
		})
	}
}

func twice(name string) []sparkmsg.ResourceInformation {
	r := sparkmsg.ResourceInformation{Name: name, Addresses: []string{"0"}}
	return []sparkmsg.ResourceInformation{r, r}
}

// B-021: MasterInStandby is ignored and the retry timer runs on. What Raft could not commit is not answered either: a
// failure would end the worker.
func TestB021_UncommittedRegistrationIsNotAnsweredAndMayBeRepeated(t *testing.T) {
	w := newWorld(t)
	w.held = true
	fw := w.worker(1)
	fw.register()
	w.held = false
	w.fail(errors.New("leadership lost"))
	wantLen(t, "pushes", fw.conn.pushes, 0)
	wantLen(t, "messages", w.net.outbox[fw.addr], 0)
	fw.register()
	fw.wantState(fsm.WorkerAlive)
	wantLen(t, "RegisteredWorker", got[*sparkmsg.RegisteredWorker](w.net, fw.addr), 1)
}

// B-022, B-023: a worker that did not see the answer tries again, up to 16 times; each try is answered and none changes
// anything.
func TestB023_EveryRetryOfOneWorkerIsAnswered(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	fw.runAll()
	for range 16 {
		w.advance(10 * time.Second)
		fw.register()
		fw.latestState(running(a.id, 0), running(a.id, 1), running(a.id, 2), running(a.id, 3))
	}
	answers := got[*sparkmsg.RegisteredWorker](w.net, fw.addr)
	wantLen(t, "answers", answers, 17)
	wantLen(t, "kills", fw.kills(), 0)
	wantLen(t, "executors", a.executors(), 4)
	if n := w.machine.View().WorkerCounts(); n != (fsm.Counts{Alive: 1}) {
		t.Errorf("workers: %+v", n)
	}
}

// G-05: a repeated registration with changed facts is committed, and what runs there stays.
func TestG05_DuplicateRegistrationRefreshesTheFacts(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	fw.cores, fw.memory, fw.url = 8, 16384, "http://elsewhere:8081"
	fw.conn.answer = func(sparkmsg.Message) (sparkmsg.Message, error) { return nil, errors.New("connection closed") }
	fw.addr.Port++
	fw.online()
	fw.register()
	e := fw.entry()
	if e.Cores != 8 || e.MemoryMB != 16384 || e.WebUIURL != fw.url || e.Address != toFSMAddress(fw.addr) || e.CoresUsed != 2 {
		t.Errorf("the entry is %+v", e)
	}
	answers := got[*sparkmsg.RegisteredWorker](w.net, fw.addr)
	wantLen(t, "RegisteredWorker at the new address", answers, 1)
	if !answers[0].Duplicate {
		t.Error("the answer does not say duplicate")
	}
	wantLen(t, "executors", a.executors(), 2)
}

// Each fact alone is news; a repetition without news is none.
func TestG05_EveryFactAloneIsCommitted(t *testing.T) {
	for name, change := range map[string]func(*sparkmsg.RegisterWorker){
		"host":      func(m *sparkmsg.RegisterWorker) { m.Host = "other" },
		"port":      func(m *sparkmsg.RegisterWorker) { m.Port++ },
		"address":   func(m *sparkmsg.RegisterWorker) { m.Worker.Address.Port++ },
		"cores":     func(m *sparkmsg.RegisterWorker) { m.Cores++ },
		"memory":    func(m *sparkmsg.RegisterWorker) { m.Memory++ },
		"web UI":    func(m *sparkmsg.RegisterWorker) { m.WorkerWebUIURL += "/x" },
		"resources": func(m *sparkmsg.RegisterWorker) { m.Resources = twice("gpu")[:1] },
		"nothing":   func(*sparkmsg.RegisterWorker) {},
	} {
		w := newWorld(t)
		fw := w.joined(1)
		m := fw.registration()
		change(m)
		fw.say(m)
		want := 2
		if name == "nothing" {
			want = 1
		}
		wantLen(t, "RegisterWorker commands for "+name, committed[fsm.RegisterWorker](w), want)
	}
}

// S08: workers register by themselves while the new leader calls them, 50 times over.
func TestS08_RegistrationsThatRaceWithTakeOversLoseNothing(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	fw.runAll()
	list := []sparkmsg.ExecutorDescription{running(a.id, 0), running(a.id, 1), running(a.id, 2), running(a.id, 3)}
	for i := range 50 {
		w.failover()
		fw.online()
		a.online()
		if i%2 == 0 { // its own registration first, with the early list
			fw.register()
			fw.latestState(list...)
			fw.schedulerState(list...)
		} else {
			fw.schedulerState(list...)
			fw.register()
			fw.latestState(list...)
		}
		a.acknowledge()
		w.advance(3 * time.Second)
		wantLen(t, "RegisterWorkerFailed", pushed[*sparkmsg.RegisterWorkerFailed](fw.conn), 0)
		wantLen(t, "kills", fw.kills(), 0)
		wantLen(t, "executors", a.executors(), 4)
		fw.wantState(fsm.WorkerAlive)
	}
}
