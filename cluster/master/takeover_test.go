package master

import (
	"errors"
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-116, B-117, B-156: a driver waits for MasterChanged, which names the new leader, and acknowledges it.
func TestB117_NewLeaderCallsEveryDriverUntilItAcknowledges(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.failover()
	a.online()
	calls := got[*sparkmsg.MasterChanged](w.net, a.addr)
	wantLen(t, "MasterChanged", calls, 1)
	if calls[0].Master.Name != "Master" || calls[0].Master.Address.String() != "master2:7077" || calls[0].MasterWebUIURL != "http://master2:8080" {
		t.Errorf("MasterChanged says %+v", calls[0])
	}
	st := w.core.Status()
	if len(st.Awaited) != 1 || st.Awaited[0].Kind != "app" || st.Awaited[0].ID != a.id || !st.Awaited[0].Deadline.Equal(w.clock.now.Add(120*time.Second)) {
		t.Errorf("awaited: %+v", st.Awaited)
	}
	a.acknowledge()
	if !a.entry().Confirmed {
		t.Error("B-156: the acknowledged application is not confirmed")
	}
	st = w.core.Status()
	if len(st.Awaited) != 0 || st.AttachedApps != 1 || !st.LastAttach.Equal(w.clock.now) {
		t.Errorf("status: %+v", st)
	}
	// An old leader's message may still be on its way: the driver is reminded twice, and then left alone.
	w.advance(time.Minute)
	n := len(got[*sparkmsg.MasterChanged](w.net, a.addr))
	w.advance(10 * time.Minute)
	if more := len(got[*sparkmsg.MasterChanged](w.net, a.addr)); n > 3 || more != n {
		t.Errorf("MasterChanged after the answer: %d within a minute, %d later", n-1, more-n)
	}
}

// G-11: MasterChanged is repeated from 0.1 s, doubling to 5 s, until it is answered.
func TestG11_MasterChangedIsRepeatedWithABackOff(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	a := w.joinedApp(1)
	w.failover()
	start, seen := w.clock.now, 1
	var at []time.Duration
	for w.clock.now.Sub(start) < 25*time.Second {
		w.advance(50 * time.Millisecond)
		if n := len(got[*sparkmsg.MasterChanged](w.net, fw.addr)); n > seen {
			seen = n
			at = append(at, w.clock.now.Sub(start))
		}
	}
	want := []time.Duration{100, 300, 700, 1500, 3100, 6300, 11300, 16300, 21300}
	if len(at) != len(want) {
		t.Fatalf("repeated at %v, want %v ms", at, want)
	}
	for i := range want {
		if at[i] != want[i]*time.Millisecond {
			t.Errorf("repetition %d came after %s, want %d ms", i+1, at[i], want[i])
		}
	}
	if n := len(got[*sparkmsg.MasterChanged](w.net, a.addr)); n != seen {
		t.Errorf("the driver was called %d times, the worker %d times", n, seen)
	}
}

// B-156 for a stranger is covered by TestB115. G-18: a late acknowledgement does not turn RUNNING into WAITING.
func TestG18_LateAcknowledgementKeepsTheApplicationRunning(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	fw.runAll()
	w.failover()
	fw.online()
	a.online()
	fw.schedulerState(running(a.id, 0), running(a.id, 1), running(a.id, 2), running(a.id, 3))
	for range 3 {
		a.acknowledge()
		a.wantState(fsm.AppRunning)
	}
}

// B-168: a worker that was told of the new leader answers with its list, and is not registered again for that.
func TestB168_ListAloneMakesAWorkerUsable(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.failover()
	fw.online()
	fw.schedulerState()
	st := w.core.Status()
	if st.AttachedWorkers != 1 || len(st.Awaited) != 0 {
		t.Errorf("status: %+v", st)
	}
	wantLen(t, "RegisteredWorker", got[*sparkmsg.RegisteredWorker](w.net, fw.addr), 0)
	a := w.joinedApp(1)
	wantLen(t, "executors", a.executors(), 4)
}

// New work goes only to workers newly registered, or whose list was reconciled, in this term: a heartbeat is not enough.
func TestNewLeaderGivesWorkOnlyToReconciledWorkers(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.failover()
	fw.online()
	a := w.joinedApp(1)
	fw.heartbeat()
	wantLen(t, "executors after a heartbeat", a.executors(), 0)
	fw.register()
	fw.latestState()
	wantLen(t, "executors after its own registration", a.executors(), 0)
	fw.schedulerState()
	wantLen(t, "executors after its list", a.executors(), 4)
}

// G-08, S02: MasterChanged did not arrive, the worker registers by itself: it stays, and its list comes with the next
// MasterChanged.
func TestG08_S02_WorkerThatRegistersDuringTheTakeOverStaysAlive(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	w.failover()
	a.online()
	a.acknowledge()
	w.advance(10 * time.Second)
	fw.online()
	fw.register()
	fw.wantState(fsm.WorkerAlive)
	n := len(got[*sparkmsg.MasterChanged](w.net, fw.addr))
	w.advance(5 * time.Second)
	if more := len(got[*sparkmsg.MasterChanged](w.net, fw.addr)); more != n+1 {
		t.Errorf("the next MasterChanged did not come within 5 s")
	}
	fw.schedulerState(running(a.id, 0), running(a.id, 1))
	w.advance(2 * time.Minute)
	fw.wantState(fsm.WorkerAlive)
	wantLen(t, "executors", a.executors(), 2)
	wantLen(t, "awaited", w.core.Status().Awaited, 0)
}

// S03, S46348: spark.deploy.recoveryTimeout decides over workers that say nothing, whether shorter or longer than the
// worker time-out; an empty cluster waits for nobody.
func TestS03_RecoveryTimeoutDecidesOverSilentWorkers(t *testing.T) {
	for _, limit := range []time.Duration{10 * time.Second, 0, 150 * time.Second} {
		w := newWorld(t)
		fw := w.worker(1)
		fw.register()
		w.failover(func(c *Config) { c.RecoveryTimeout = limit })
		end := limit
		if end == 0 {
			end = 60 * time.Second
		}
		st := w.core.Status()
		if len(st.Awaited) != 1 || st.Awaited[0].ID != fw.id || !st.Awaited[0].Deadline.Equal(w.clock.now.Add(end)) || st.Awaited[0].Dead {
			t.Errorf("limit %s: awaited %+v", limit, st.Awaited)
		}
		w.advance(end - time.Second)
		fw.wantState(fsm.WorkerAlive)
		w.advance(3 * time.Second)
		fw.wantState(fsm.WorkerDead)
		if r := fw.entry().DiedReason; r != "Not responding for recovery" {
			t.Errorf("limit %s: the reason is %q", limit, r)
		}
	}
}

func TestS03_EmptyClusterIsAliveAtOnceAndAwaitsNobody(t *testing.T) {
	w := newWorld(t)
	if st := w.core.Status(); !st.Leading || len(st.Awaited) != 0 {
		t.Errorf("status: %+v", st)
	}
	if !w.askBool(nil, &sparkmsg.RequestReadyz{}) {
		t.Error("not ready")
	}
}

// A worker that heartbeats, but whose list is late, is not removed when the recovery ends.
func TestS03_HeartbeatingWorkerOutlivesTheRecovery(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.failover(func(c *Config) { c.RecoveryTimeout = 20 * time.Second })
	w.advance(3 * time.Minute)
	fw.wantState(fsm.WorkerAlive)
}

// S05, S06: the state of an application follows its executors, over a take-over too.
func TestS05S06_StatesSurviveTheTakeOver(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a, b := w.joinedApp(1), w.joinedApp(2)
	fw.runAll()
	w.failover()
	fw.online()
	a.acknowledge()
	b.acknowledge()
	fw.schedulerState(running(a.id, 0), running(a.id, 1), running(a.id, 2), running(a.id, 3))
	w.advance(2 * time.Minute)
	a.wantState(fsm.AppRunning)
	b.wantState(fsm.AppWaiting)
	if a.entry().CoresGranted != 4 {
		t.Errorf("the running application has %d cores", a.entry().CoresGranted)
	}
}

// S17, G-14: queue order is the order of registration, over any number of take-overs.
func TestS17_QueueOrderSurvivesTakeOvers(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.cores = 1
	fw.register()
	fw.latestState()
	w.beating = []*fakeWorker{fw}
	hog := w.joinedApp(0)
	var queue []*fakeApp
	for i := range 5 {
		queue = append(queue, w.joinedApp(i+1, maxCores(1)))
	}
	w.failover()
	w.failover()
	fw.online()
	fw.schedulerState(running(hog.id, 0))
	current := hog
	for _, next := range queue {
		current.say(&sparkmsg.UnregisterApplication{AppID: current.id})
		for _, other := range queue {
			if n := len(other.executors()); (other == next) != (n == 1) {
				t.Fatalf("after %s ended, %s has %d executors", current.id, other.id, n)
			}
		}
		current = next
	}
}

// S24: the worker dies and the leader with it, before its loss was noticed: its executors are replaced elsewhere after
// one detection interval, not never.
func TestS24_WorkerAndLeaderLostTogether(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	w.beating = nil
	w.failover()
	a.online()
	a.acknowledge()
	spare := w.joined(2)
	w.advance(62 * time.Second)
	fw.wantState(fsm.WorkerDead)
	wantLen(t, "launches on the spare worker", spare.launches(), 1)
}

// B-169: what runs goes on, and what is asked of the new leader is served while it still waits for peers (B-170, G-21).
func TestB170_EverythingIsServedDuringTheTakeOver(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	w.failover()
	spare := w.joined(2)
	wantLen(t, "awaited", w.core.Status().Awaited, 2)
	if !a.target(1) {
		t.Error("RequestExecutors was answered with false")
	}
	b := w.joinedApp(2, maxCores(1))
	wantLen(t, "launches for a new application", spare.launches(), 1)
	spare.report(b.id, 0, sparkmsg.ExecutorRunning, nil)
	if !w.askBool(&a.addr, &sparkmsg.KillExecutors{AppID: a.id, ExecutorIDs: []string{"0"}}) {
		t.Error("KillExecutors was answered with false")
	}
	spare.say(&sparkmsg.WorkerDecommissioning{ID: spare.id, WorkerRef: spare.ref()})
	spare.wantState(fsm.WorkerDecommissioned)
	a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
	a.wantState(fsm.AppFinished)
	wantLen(t, "kills", fw.kills(), 2)
}

// What the last leader may have owed when it died is said again: the end of applications and of executors.
func TestTakeOverRepeatsRecentEnds(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a, b := w.joinedApp(1, maxCores(2)), w.joinedApp(2, maxCores(1))
	fw.runAll()
	fw.report(a.id, 0, sparkmsg.ExecutorExited, ptr[int32](1))
	b.say(&sparkmsg.UnregisterApplication{AppID: b.id})
	w.failover()
	finished := got[*sparkmsg.ApplicationFinished](w.net, fw.addr)
	wantLen(t, "ApplicationFinished", finished, 1)
	if finished[0].ID != b.id {
		t.Errorf("ApplicationFinished names %s", finished[0].ID)
	}
	u := a.updates()
	wantLen(t, "updates", u, 1)
	if u[0].ID != 0 || u[0].State != sparkmsg.ExecutorExited || *u[0].ExitStatus != 1 {
		t.Errorf("the update is %+v", u[0])
	}
	w.advance(2 * time.Minute)
	w.failover()
	wantLen(t, "ends that are long past", got[*sparkmsg.ApplicationFinished](w.net, fw.addr), 0)
}

// R20: leading means registering. The one who was deposed follows at once and needs no restart.
func TestR20_OldLeaderFollowsAndLeadsAgain(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	old, oldNet := w.failover()
	if st := old.Status(); st.Leading || st.Awaited != nil {
		t.Errorf("the old leader's status is %+v", st)
	}
	if _, ok := old.NextDeadline(); ok {
		t.Error("the old leader still has timers")
	}
	// It leads again: whatever it knew is forgotten, and what the log says counts.
	w.core.Deposed(w.term)
	w.term++
	*oldNet.lease, w.lease = true, oldNet.lease
	w.core, w.net = old, oldNet
	w.elect()
	b := w.joinedApp(2)
	if b.id == a.id || b.id == "" {
		t.Errorf("ids are %s and %s", a.id, b.id)
	}
}

// Stepping down drops the outboxes and answers every open ask with a failure.
func TestStepDownDropsOutboxesAndAnswersOpenAsks(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	w.held = true
	errs := map[string]error{}
	ask := func(from *sparkmsg.Address, m sparkmsg.Message) {
		w.core.Ask(nil, from, m, func(answer sparkmsg.Message, err error) {
			if answer != nil || errs[m.MessageName()] != nil {
				t.Errorf("%s was answered with %+v, %v", m.MessageName(), answer, err)
			}
			errs[m.MessageName()] = err
		})
	}
	ask(&fw.addr, &sparkmsg.ExecutorStateChanged{AppID: a.id, State: sparkmsg.ExecutorRunning})
	ask(&a.addr, &sparkmsg.RequestExecutors{AppID: a.id,
		ResourceProfileToTotalExecs: []sparkmsg.ProfileTotal{{Profile: a.desc.DefaultProfile, Total: 7}}})
	ask(&a.addr, &sparkmsg.KillExecutors{AppID: a.id, ExecutorIDs: []string{"0"}})
	ask(nil, &sparkmsg.RequestClearCompletedDriversAndApps{})
	wantLen(t, "answers before the step-down", sortedKeys(errs), 0)
	*w.lease = false
	w.core.Deposed(w.term)
	if len(errs) != 4 {
		t.Errorf("answered: %v, want all four", errs)
	}
	for name, err := range errs {
		if !errors.Is(err, errNotLeader) {
			t.Errorf("%s failed with %v", name, err)
		}
	}
	if w.net.drops != 1 {
		t.Errorf("the outboxes were dropped %d times", w.net.drops)
	}
	// What is committed later belongs to the next leader: it is not sent from here.
	sent := len(w.net.order)
	w.core.Applied(w.commit(w.take()...))
	if len(w.net.order) != sent || w.net.dropped != 0 {
		t.Error("a deposed leader sends effects")
	}
	if _, ok := w.core.NextDeadline(); ok {
		t.Error("a deposed leader has timers")
	}
}

// A leader that has lost its lease writes nothing (S19), though it may not know yet that it was deposed.
func TestS19_NoEffectIsSentWithoutALease(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	a := w.app(1)
	a.register()
	*w.lease = false
	w.held = false
	w.settle()
	wantLen(t, "RegisteredApplication", a.ids(), 0)
	wantLen(t, "launches", fw.launches(), 0)
	wantLen(t, "plans", committed[fsm.PlaceExecutors](w), 0)
}

func TestElectedTwiceAnswersOpenAsks(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	w.held = true
	var errs []error
	w.core.Ask(nil, &fw.addr, &sparkmsg.ExecutorStateChanged{AppID: a.id, State: sparkmsg.ExecutorRunning}, func(_ sparkmsg.Message, err error) {
		errs = append(errs, err)
	})
	w.term++
	w.core.Elected(w.term, "again")
	if len(errs) != 1 || errs[0] == nil {
		t.Errorf("the answers are %v", errs)
	}
}

// A command that another leader committed, seen before Raft says that this one is deposed, has no effects here.
func TestEffectsOfALaterTermAreNotSent(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	w.term++
	sent := len(w.net.order)
	w.core.Applied(w.commit(fsm.FinishApplication{Meta: w.meta(), AppID: a.id, State: fsm.AppKilled}))
	if len(w.net.order) != sent {
		t.Errorf("sent: %+v", w.net.order[sent:])
	}
	fw.wantState(fsm.WorkerAlive)
}

func TestElectionIsRecorded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Settings.RetainedApplications = 3 })
	h := w.machine.View().LeaderHistory()
	if len(h) != 1 || h[0].NodeID != "m1" || h[0].Term != 1 || h[0].Reason != "test" {
		t.Errorf("history: %+v", h)
	}
	if w.machine.View().Settings().RetainedApplications != 3 {
		t.Error("the settings were not replicated")
	}
	if !strings.Contains(w.log.String(), "I have been elected leader! New state: ALIVE") {
		t.Error("the election is not logged as Spark does")
	}
}
