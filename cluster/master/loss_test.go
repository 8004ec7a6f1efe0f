package master

import (
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-040 beaten as G-31 says: the end of a worker's connection is a hint, not its death.
func TestB040_ClosedConnectionIsAHintNotDeath(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	fw.close()
	fw.wantState(fsm.WorkerAlive)
	wantLen(t, "MasterChanged", got[*sparkmsg.MasterChanged](w.net, fw.addr), 1)
	w.advance(time.Second)
	// It comes back (B-041: executors keep running, and it registers with all masters) and nothing was lost (B-043).
	fw.online()
	fw.register()
	fw.latestState(running(a.id, 0), running(a.id, 1))
	fw.schedulerState(running(a.id, 0), running(a.id, 1))
	wantLen(t, "kills", fw.kills(), 0)
	wantLen(t, "executors", a.executors(), 2)
	wantLen(t, "WorkerRemoved", got[*sparkmsg.WorkerRemoved](w.net, a.addr), 0)
	n := len(got[*sparkmsg.MasterChanged](w.net, fw.addr))
	w.advance(time.Minute)
	wantLen(t, "MasterChanged after the answer", got[*sparkmsg.MasterChanged](w.net, fw.addr), n)
}

func TestB040_WorkerThatIsGoneIsRemovedAtOnce(t *testing.T) {
	for name, result := range map[string]ProbeResult{"no Worker there": ProbeFalse, "nobody listens": ProbeRefused} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fw := w.joined(1)
			w.net.reach[fw.addr] = result
			fw.close()
			fw.wantState(fsm.WorkerDead)
			if e := fw.entry(); e.DiedReason != "host1:7001 got disassociated" {
				t.Errorf("the reason is %q", e.DiedReason)
			}
		})
	}
}

func TestB040_HintIsWorthlessWhileOtherConnectionsLive(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	probes := w.net.probed[fw.addr]
	w.core.ConnClosed(fw.addr, false)
	w.core.ConnClosed(sparkmsg.Address{Host: "nobody", Port: 1}, true)
	w.settle()
	if w.net.probed[fw.addr] != probes {
		t.Error("the worker was asked although it has another connection")
	}
}

// A hint at a master that does not lead has no consequence.
func TestB040_HintAtAStandbyIsIgnored(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	probes := w.net.probed[fw.addr]
	w.core.Deposed(2)
	fw.close()
	if w.net.probed[fw.addr] != probes {
		t.Error("a standby asked")
	}
}

func TestReachedBefore_RefusedWorkerThatWasNeverReachedIsOnlyUnreachable(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	w.net.reach[fw.addr] = ProbeRefused
	fw.register()
	fw.latestState()
	probes := w.net.probed[fw.addr]
	fw.close()
	fw.wantState(fsm.WorkerAlive)
	w.advance(26 * time.Second)
	if n := w.net.probed[fw.addr] - probes; n != 10 {
		t.Errorf("it was asked %d times in 26 s, want 10: after pauses that double from 0.1 s to 5 s", n)
	}
	fw.wantState(fsm.WorkerAlive)
	w.advance(36 * time.Second)
	fw.wantState(fsm.WorkerDead)
}

// An unreachable worker gets no new work until it is heard of again.
func TestUnreachableWorkerGetsNoWorkUntilItIsHeardOf(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.beating = nil
	w.net.reach[fw.addr] = ProbeUnreachable
	fw.close()
	a := w.joinedApp(1)
	wantLen(t, "executors on an unreachable worker", a.executors(), 0)
	fw.heartbeat()
	wantLen(t, "executors after its heartbeat", a.executors(), 4)
}

// The recovery time-out is for take-overs: an attached worker whose connection closed and whose process answers a probe
// has the worker time-out, whether the former is shorter or longer.
func TestProbedWorkerEndsByTheWorkerTimeout(t *testing.T) {
	for _, limit := range []time.Duration{5 * time.Second, 150 * time.Second} {
		w := newWorld(t, func(c *Config) { c.RecoveryTimeout = limit })
		fw := w.joined(1)
		w.beating = nil
		fw.close()
		w.advance(50 * time.Second)
		fw.wantState(fsm.WorkerAlive)
		w.advance(12 * time.Second)
		fw.wantState(fsm.WorkerDead)
	}
}

// B-042: a worker that reports back after a probe found it alive gets work again only when its list is known.
func TestProbedWorkerGetsNoWorkBeforeItsList(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	fw.close()
	a := w.joinedApp(1)
	fw.heartbeat()
	wantLen(t, "executors after a heartbeat", a.executors(), 0)
	fw.schedulerState()
	wantLen(t, "executors after its list", a.executors(), 4)
}

// B-060: drivers hear of each lost executor, then of the lost worker; every unfinished application does. The work is
// planned again elsewhere (S24).
func TestB060_LostWorkerIsToldAndReplaced(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a, b := w.joinedApp(1, maxCores(2)), w.joinedApp(2, maxCores(1))
	fw.runAll()
	spare := w.joined(2)
	w.net.reach[fw.addr] = ProbeRefused
	fw.close()
	fw.wantState(fsm.WorkerDead)
	var lost []*sparkmsg.ExecutorUpdated
	var afterRemoved bool
	for _, m := range w.net.outbox[a.addr] {
		switch u := m.msg.(type) {
		case *sparkmsg.ExecutorUpdated:
			if u.State == sparkmsg.ExecutorLost {
				lost = append(lost, u)
			}
		case *sparkmsg.WorkerRemoved:
			afterRemoved = len(lost) == 2
		}
	}
	wantLen(t, "LOST updates", lost, 2)
	if u := lost[0]; u.ExitStatus != nil || u.Message == nil || *u.Message != "worker lost: host1:7001 got disassociated" || u.WorkerHost == nil || *u.WorkerHost != "host1" {
		t.Errorf("the update is %+v", u)
	}
	if !afterRemoved {
		t.Error("WorkerRemoved did not come behind the lost executors")
	}
	wantLen(t, "WorkerRemoved at the other application", got[*sparkmsg.WorkerRemoved](w.net, b.addr), 1)
	wantLen(t, "launches on the other worker", spare.launches(), 3)
	wantLen(t, "executors", a.executors(), 2)
	if a.entry().RetryCount != 0 {
		t.Error("lost executors count as failures of the application")
	}
}

// B-061, B-062: resources go and come as whole addresses, in the order of text.
func TestB061_ResourcesAreGivenInTextOrderAndComeBack(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	m := fw.registration()
	m.Resources = []sparkmsg.ResourceInformation{{Name: "gpu", Addresses: []string{"2", "10", "0"}}}
	fw.say(m)
	a := w.joinedApp(1, maxCores(2), func(d *sparkmsg.ApplicationDescription) {
		d.DefaultProfile.ExecutorResources = append(d.DefaultProfile.ExecutorResources, sparkmsg.ExecutorResourceRequest{ResourceName: "gpu", Amount: 1})
	})
	launches := fw.launches()
	wantLen(t, "launches", launches, 2)
	if g := launches[0].Resources; len(g) != 1 || g[0].Name != "gpu" || g[0].Addresses[0] != "0" || launches[1].Resources[0].Addresses[0] != "10" {
		t.Errorf("resources are %+v and %+v", g, launches[1].Resources)
	}
	fw.report(a.id, 0, sparkmsg.ExecutorExited, ptr[int32](1))
	if launches = fw.launches(); len(launches) != 3 || launches[2].Resources[0].Addresses[0] != "0" {
		t.Errorf("the freed address was not given again: %+v", launches)
	}
}

// B-064, B-066: the worker's own signal. Its executors are taken from their applications and replaced elsewhere at once
// (G-42), nothing is killed, and its drivers of executors are told.
func TestB064_B066_G42_WorkersOwnDecommissionSignal(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	spare := w.joined(2)
	fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()})
	fw.wantState(fsm.WorkerDecommissioned)
	var told []*sparkmsg.ExecutorUpdated
	for _, u := range a.updates() {
		if u.State == sparkmsg.ExecutorDecommissioned {
			told = append(told, u)
		}
	}
	wantLen(t, "DECOMMISSIONED updates", told, 2)
	if u := told[0]; u.Message == nil || *u.Message != "worker decommissioned" || u.WorkerHost == nil || *u.WorkerHost != "host1" || u.ExitStatus != nil {
		t.Errorf("B-066: the update is %+v", u)
	}
	wantLen(t, "kills", fw.kills(), 0)
	wantLen(t, "DecommissionWorker for its own signal", got[*sparkmsg.DecommissionWorker](w.net, fw.addr), 0)
	wantLen(t, "G-42: replacements", spare.launches(), 2)
	if e := fw.entry(); e.CoresUsed != 2 {
		t.Errorf("the worker's own books say %d cores, want 2: its executors still run", e.CoresUsed)
	}
}

func TestB064_DecommissionSignalAtAStandbyAndOfAStranger(t *testing.T) {
	s := newStandby(t)
	fw := s.worker(1)
	fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()})
	wantLen(t, "MasterInStandby", pushed[*sparkmsg.MasterInStandby](fw.conn), 1)
	w := newWorld(t)
	fw = w.worker(1)
	fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()})
	wantLen(t, "DecommissionWorkers", committed[fsm.DecommissionWorkers](w), 0)
	wantLen(t, "pushes to a stranger", fw.conn.pushes, 0)
}

// B-065: by an operator; the worker is told, and asking twice changes nothing more.
func TestB065_DecommissionByAnOperator(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	spare := w.joined(2)
	r := w.operator(fsm.DecommissionWorkers{Meta: w.meta(), IDs: []string{fw.id, "nobody"}, Notify: true})
	if res := r.Value.(fsm.DecommissionResult); res.Matched != 1 || len(res.Changed) != 1 {
		t.Errorf("the result is %+v", res)
	}
	wantLen(t, "DecommissionWorker", got[*sparkmsg.DecommissionWorker](w.net, fw.addr), 1)
	wantLen(t, "G-42: replacements", spare.launches(), 2)
	wantLen(t, "executors, those that still run on the worker included", a.executors(), 4)
	w.operator(fsm.DecommissionWorkers{Meta: w.meta(), IDs: []string{fw.id}})
	if n := len(a.updates()); n != 2+2 {
		t.Errorf("a second decommission was told: %d updates", n)
	}
}

// B-067: no new work, heartbeats accepted, and a proper end.
func TestB067_DecommissionedWorkerGetsNoWorkAndEnds(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()})
	a := w.joinedApp(1)
	wantLen(t, "executors", a.executors(), 0)
	w.net.reach[fw.addr] = ProbeRefused
	fw.close()
	fw.wantState(fsm.WorkerDead)
	wantLen(t, "WorkerRemoved", got[*sparkmsg.WorkerRemoved](w.net, a.addr), 1)
}

// B-068: a worker that was decommissioned without our knowledge ignores launches; see TestG34. B-070: it stays
// DECOMMISSIONED when it registers again, also with another leader (G-29) and after it was DEAD.
func TestB070_DecommissionedWorkerStaysSoWhenItRegistersAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()})
	fw.register()
	fw.wantState(fsm.WorkerDecommissioned)
	w.failover()
	fw.online()
	fw.register()
	fw.schedulerState()
	fw.wantState(fsm.WorkerDecommissioned)
	w.beating = nil
	w.advance(62 * time.Second)
	fw.wantState(fsm.WorkerDead)
	fw.register()
	fw.wantState(fsm.WorkerDecommissioned)
	a := w.joinedApp(1)
	wantLen(t, "executors", a.executors(), 0)
}

// G-41: executors of a decommissioned worker end on the books when they end, and do not count as failures.
func TestG41_DecommissionedExecutorsFreeTheirWorkerAndCountNot(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()})
	fw.report(a.id, 0, sparkmsg.ExecutorExited, ptr[int32](1))
	fw.report(a.id, 1, sparkmsg.ExecutorKilled, nil)
	if e := fw.entry(); e.CoresUsed != 0 || e.MemoryUsedMB != 0 {
		t.Errorf("the worker still has %d cores and %d MB in use", e.CoresUsed, e.MemoryUsedMB)
	}
	if n := a.entry().RetryCount; n != 0 {
		t.Errorf("%d failures were counted", n)
	}
}

// A process that is just ending resets what its listener had accepted, or still says yes: it is asked again at once, and
// the refusal that follows is the proof.
func TestWorkerThatIsJustEndingIsNoticedWithinASecond(t *testing.T) {
	for _, first := range []ProbeResult{ProbeUnreachable, ProbeTrue} {
		w := newWorld(t)
		fw := w.joined(1)
		w.net.reach[fw.addr] = first
		fw.close()
		fw.wantState(fsm.WorkerAlive)
		w.net.reach[fw.addr] = ProbeRefused
		w.advance(time.Second)
		fw.wantState(fsm.WorkerDead)
	}
}

func TestDriverThatIsJustEndingIsNoticedWithinASecond(t *testing.T) {
	for _, first := range []ProbeResult{ProbeUnreachable, ProbeTrue} {
		w := newWorld(t)
		a := w.joinedApp(1)
		w.net.reach[a.addr] = first
		a.close()
		a.wantState(fsm.AppWaiting)
		w.net.reach[a.addr] = ProbeRefused
		w.advance(time.Second)
		a.wantState(fsm.AppFailed)
	}
}

// A worker's connection is gone, and the news of that waits behind other messages: nothing is placed there again and again.
func TestWorkerWithoutAConnectionGetsNoSecondLaunch(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.net.attached[fw.addr] = false
	w.net.reach[fw.addr] = ProbeUnreachable
	id := w.submitted()
	w.wantDriver(id, fsm.DriverStateSubmitted)
	wantLen(t, "placements of the driver", committed[fsm.PlaceDrivers](w), 1)
	fw.heartbeat()
	w.wantDriver(id, fsm.DriverStateRunning)
	w.net.attached[fw.addr] = false
	w.joinedApp(1, maxCores(1))
	w.joinedApp(2, maxCores(1)) // what makes the next plan
	wantLen(t, "placements of executors", committed[fsm.PlaceExecutors](w), 1)
}
