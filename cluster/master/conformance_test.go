package master

import (
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// Behaviours that docs/CONFORMANCE.md lists and that no other file of this package is about.

// B-036 beaten: what is booked on a worker ends with it, so that its DEAD entry holds nothing; totals count ALIVE workers.
func TestB036_DeadEntryHoldsNothingAndIsNotCounted(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.joinedApp(1, maxCores(3))
	fw.runAll()
	w.joined(2)
	if n := w.machine.View().Totals(); n.Cores != 8 || n.CoresUsed != 3 || n.MemoryMB != 2*8192 || n.MemoryUsedMB != 3*1024 {
		t.Fatalf("totals before: %+v", n)
	}
	w.net.reach[fw.addr] = ProbeRefused
	fw.close()
	fw.wantState(fsm.WorkerDead)
	if e := fw.entry(); e.CoresUsed != 0 || e.MemoryUsedMB != 0 || e.Cores != 4 {
		t.Errorf("the DEAD entry has %d of %d cores and %d MB in use", e.CoresUsed, e.Cores, e.MemoryUsedMB)
	}
	if n := w.machine.View().Totals(); n.Cores != 4 || n.CoresUsed != 3 || n.MemoryMB != 8192 || n.MemoryUsedMB != 3*1024 {
		t.Errorf("totals: %+v, want those of the ALIVE worker, which has the replacements", n)
	}
}

// B-037: the master's own spark.worker.timeout decides, whatever the worker believes: this one beats every 15 s.
func TestB037_OnlyTheMastersOwnTimeoutDecides(t *testing.T) {
	for timeout, want := range map[time.Duration]fsm.WorkerState{10 * time.Second: fsm.WorkerDead, 40 * time.Second: fsm.WorkerAlive} {
		w := newWorld(t, func(c *Config) { c.WorkerTimeout = timeout })
		fw := w.joined(1)
		w.advance(14 * time.Second)
		fw.wantState(want)
	}
}

// B-048: every message that names the master names it in one way: the worker compares what it was told with RegisteredWorker
// or MasterChanged with what is in launches and kills (B-047), byte for byte.
func TestB048_MasterIsNamedAlikeEverywhere(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	w.failover()
	fw.online()
	a.online()
	fw.schedulerState(running(a.id, 0), running("app-unknown", 3))
	fw.register()
	b := w.joinedApp(2, maxCores(1))
	const want = "spark://master2:7077"
	url := func(what string, ref sparkmsg.EndpointRef) {
		t.Helper()
		if got := "spark://" + ref.Address.String(); got != want || ref.Name != "Master" {
			t.Errorf("%s names %s at %s", what, ref.Name, got)
		}
	}
	for _, m := range got[*sparkmsg.MasterChanged](w.net, fw.addr) {
		url("MasterChanged to the worker", m.Master)
	}
	for _, m := range got[*sparkmsg.RegisteredWorker](w.net, fw.addr) {
		url("RegisteredWorker", m.Master)
	}
	for _, m := range got[*sparkmsg.RegisteredApplication](w.net, b.addr) {
		url("RegisteredApplication", m.Master)
	}
	launches, kills := fw.launches(), fw.kills()
	wantLen(t, "launches", launches, 1)
	wantLen(t, "kills", kills, 1)
	if launches[0].MasterURL != want || kills[0].MasterURL != want {
		t.Errorf("the launch names %s, the kill %s", launches[0].MasterURL, kills[0].MasterURL)
	}
}

// B-063, B-145: addresses of resources are part of the replicated books. After a take-over they are neither given twice nor
// lost, however often the worker lists its executors.
func TestB063_ResourcesSurviveATakeOver(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	m := fw.registration()
	m.Resources = []sparkmsg.ResourceInformation{{Name: "gpu", Addresses: []string{"0", "1", "2"}}}
	fw.say(m)
	gpu := func(d *sparkmsg.ApplicationDescription) {
		d.DefaultProfile.ExecutorResources = append(d.DefaultProfile.ExecutorResources, sparkmsg.ExecutorResourceRequest{ResourceName: "gpu", Amount: 1})
	}
	a := w.joinedApp(1, maxCores(2), gpu)
	fw.runAll()
	w.failover()
	fw.online()
	a.online()
	for range 3 {
		fw.schedulerState(running(a.id, 0), running(a.id, 1))
	}
	w.joinedApp(2, gpu)
	launches := fw.launches()
	wantLen(t, "launches: one address is free", launches, 1)
	if g := launches[0].Resources; len(g) != 1 || len(g[0].Addresses) != 1 || g[0].Addresses[0] != "2" {
		t.Errorf("the third executor has %+v, want the free address 2", g)
	}
	fw.report(a.id, 1, sparkmsg.ExecutorExited, ptr[int32](0))
	if launches = fw.launches(); len(launches) != 2 || launches[1].Resources[0].Addresses[0] != "1" {
		t.Errorf("the address that was freed is not given again: %+v", launches)
	}
}

// B-212: peers are spoken to at the address in the reference that they send, not at the one that their connection comes from.
func TestB212_PeersAreReachedAtTheAddressInTheirReference(t *testing.T) {
	w := newWorld(t)
	fw, a := w.worker(1), w.app(1)
	proxy := sparkmsg.Address{Host: "proxy", Port: 50123}
	w.core.OneWay(fw.conn, &proxy, fw.families, fw.registration())
	driver := a.addr
	w.core.OneWay(a.conn, nil, a.families, &sparkmsg.RegisterApplication{AppDescription: a.desc, Driver: sparkmsg.EndpointRef{Name: "AppClient", Address: &driver}})
	w.settle()
	wantLen(t, "messages to where the connection came from", w.net.outbox[proxy], 0)
	wantLen(t, "RegisteredWorker", got[*sparkmsg.RegisteredWorker](w.net, fw.addr), 1)
	wantLen(t, "RegisteredApplication", a.ids(), 1)
	if e := fw.entry(); e == nil || e.Address != toFSMAddress(fw.addr) {
		t.Errorf("the entry is %+v", e)
	}
}

// B-155, B-158, B-159, G-20: there is no recovery that somebody could hold up. Beside a silent worker and a silent driver
// the ones that have answered get work at once, and the silent ones end each by its own time.
func TestG20_SilentPeersHoldUpNobody(t *testing.T) {
	w := newWorld(t)
	fw, silent := w.joined(1), w.joined(2)
	a := w.joinedApp(1, maxCores(2))
	mute := w.joinedApp(2, maxCores(2))
	fw.runAll()
	silent.runAll()
	w.beating = nil
	w.failover()
	w.net.reach[silent.addr], w.net.reach[mute.addr] = ProbeUnreachable, ProbeUnreachable
	fw.online()
	w.beating = []*fakeWorker{fw}
	var list []sparkmsg.ExecutorDescription
	w.view().ExecutorsOfWorker(fw.id, func(e *fsm.Executor) bool {
		list = append(list, running(e.AppID, int32(e.ID)))
		return true
	})
	fw.schedulerState(list...)
	a.online()
	a.acknowledge()
	before := len(fw.launches())
	w.joinedApp(3, maxCores(1))
	wantLen(t, "launches while others are awaited", fw.launches(), before+1)
	wantLen(t, "awaited", w.core.Status().Awaited, 2)
	w.advance(62 * time.Second)
	silent.wantState(fsm.WorkerDead)
	mute.wantState(fsm.AppRunning)
	w.advance(62 * time.Second)
	mute.wantState(fsm.AppFailed)
	a.wantState(fsm.AppRunning)
	fw.wantState(fsm.WorkerAlive)
}

// G-28: what is over is replicated too: a new leader shows finished applications, failure counts, DEAD and decommissioned
// workers as the last one did.
func TestG28_HistorySurvivesATakeOver(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a, done := w.joinedApp(1, maxCores(1)), w.joinedApp(3, maxCores(1))
	done.say(&sparkmsg.UnregisterApplication{AppID: done.id})
	fw.report(a.id, 0, sparkmsg.ExecutorFailed, ptr[int32](1))
	leaving, dying := w.joined(2), w.worker(3)
	leaving.say(&sparkmsg.WorkerDecommissioning{ID: leaving.id, WorkerRef: leaving.ref()})
	dying.register()
	w.net.reach[dying.addr] = ProbeRefused
	dying.close()
	failures := a.entry().RetryCount
	if failures != 1 {
		t.Fatalf("%d failures are counted before the take-over", failures)
	}
	w.failover()
	w.failover()
	done.wantState(fsm.AppFinished)
	if e := done.entry(); e.EndMillis == 0 || e.Name != "app 3" {
		t.Errorf("the finished application is %+v", e)
	}
	if n := a.entry().RetryCount; n != failures {
		t.Errorf("%d failures are counted, were %d", n, failures)
	}
	dying.wantState(fsm.WorkerDead)
	leaving.wantState(fsm.WorkerDecommissioned)
}

// G-36: a kill that was lost with its connection is said again when the worker lists the executor that should be gone, to
// this leader or to the next one.
func TestG36_LostKillIsSaidAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	a.target(1)
	if !w.askBool(&a.addr, &sparkmsg.KillExecutors{AppID: a.id, ExecutorIDs: []string{"0"}}) {
		t.Fatal("KillExecutors was answered with false")
	}
	wantLen(t, "kills", fw.kills(), 1)
	fw.close() // before it was read
	fw.online()
	fw.schedulerState(running(a.id, 0), running(a.id, 1))
	kills := fw.kills()
	wantLen(t, "kills after the connection was lost", kills, 2)
	if kills[1].ExecID != 0 {
		t.Errorf("executor %d was killed", kills[1].ExecID)
	}
	w.failover()
	fw.online()
	fw.schedulerState(running(a.id, 0), running(a.id, 1))
	wantLen(t, "kills of the next leader", fw.kills(), 1)
	if ids := a.executors(); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("executors are %v, want 1 alone", ids)
	}
}

// G-61: an event that cannot be completed changes nothing, and the next one finds whole tables: a command is applied as a
// whole or not at all, however many peers it concerns.
func TestG61_NothingIsHalfDone(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	a.target(2) // it has named its id
	digest := w.machine.View().Digest()
	sent := len(w.net.order)
	profile := a.desc.DefaultProfile
	_, err := w.ask(&a.addr, &sparkmsg.RequestExecutors{AppID: a.id, ResourceProfileToTotalExecs: []sparkmsg.ProfileTotal{
		{Profile: profile, Total: 9}, {Profile: sparkmsg.ResourceProfile{ID: 7, ExecutorResources: profile.ExecutorResources}, Total: -1}}})()
	if err == nil {
		t.Error("a target of -1 was accepted")
	}
	if w.machine.View().Digest() != digest || len(w.net.order) != sent {
		t.Error("the refused request left something behind")
	}
	if !a.target(1) {
		t.Error("the next request was answered with false")
	}
}

// B-170, G-21: a driver that is submitted while peers are awaited is accepted, and placed as soon as a worker is usable.
func TestB170_SubmissionsAreServedDuringTheTakeOver(t *testing.T) {
	w := newWorld(t)
	w.joined(1)
	w.failover()
	wantLen(t, "awaited", w.core.Status().Awaited, 1)
	id := w.submitted()
	w.wantDriver(id, fsm.DriverStateSubmitted) // the old worker has not listed what it runs
	if r := w.status(id, nil); !r.Found {
		t.Errorf("the status is %+v", r)
	}
	spare := w.joined(2)
	w.wantDriver(id, fsm.DriverStateRunning)
	wantLen(t, "launches", spare.driverLaunches(), 1)
	if r := w.killDriver(id); !r.Success {
		t.Errorf("the kill was answered with %+v", r)
	}
	wantLen(t, "awaited still", w.core.Status().Awaited, 1)
}

// G-36: the next leader goes on repeating a kill, also when the one that answers the worker's list is lost as well.
func TestG36_NextLeaderRepeatsKills(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	id := w.submitted()
	w.killDriver(id)
	w.failover()
	fw.online()
	fw.schedulerDrivers(id)
	before := len(fw.driverKills())
	if before == 0 {
		t.Fatal("the worker lists a driver that is to end, and is not told")
	}
	w.advance(3 * killRepeat)
	if n := len(fw.driverKills()) - before; n < 2 {
		t.Errorf("%d more kills in 3 repetitions", n)
	}
	fw.driverEnds(id, sparkmsg.DriverKilled)
	w.wantDriver(id, fsm.DriverStateKilled)
}
