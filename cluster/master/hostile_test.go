package master

import (
	"fmt"
	"strings"
	"testing"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// F2: a driver that repeats its targets costs the log nothing; one that changes its mind meanwhile is heard.
func TestF2_RepeatedTargetsAreNotProposed(t *testing.T) {
	w := newWorld(t)
	w.joined(1)
	a := w.joinedApp(1, initialLimit(0))
	for range 5 {
		if !a.target(2) {
			t.Fatal("the answer is false")
		}
	}
	wantLen(t, "SetTargets", committed[fsm.SetTargets](w), 1)
	w.held = true
	for _, n := range []int32{3, 2} { // the second equals what the state says while the first is on its way
		w.core.Ask(nil, &a.addr, &sparkmsg.RequestExecutors{AppID: a.id,
			ResourceProfileToTotalExecs: []sparkmsg.ProfileTotal{{Profile: a.desc.DefaultProfile, Total: n}}},
			func(sparkmsg.Message, error) {})
	}
	w.held = false
	w.settle()
	if p, _ := a.entry().Profile(0); p.Target != 2 {
		t.Errorf("the target is %d, want the last one, 2", p.Target)
	}
	*w.lease = false
	if _, err := w.ask(&a.addr, &sparkmsg.RequestExecutors{AppID: a.id})(); err == nil {
		t.Error("it was answered from the state without a lease")
	}
}

// F10: an executor ends by the word of its own worker alone, whoever else speaks.
func TestF10_ReportOfAStrangerIsIgnored(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	commands := len(w.proposed)
	exited := &sparkmsg.ExecutorStateChanged{AppID: a.id, ExecID: 0, State: sparkmsg.ExecutorExited}
	for _, from := range []*sparkmsg.Address{nil, {Host: "nowhere", Port: 9}, &a.addr} {
		if !w.askBool(from, exited) {
			t.Errorf("a report from %v was answered with false", from)
		}
	}
	if len(a.executors()) != 1 || len(w.proposed) != commands {
		t.Error("a stranger's report was believed")
	}
	fw.report(a.id, 0, sparkmsg.ExecutorExited, nil)
	if ids := a.executors(); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("executors are %v, want the replacement 1", ids)
	}
}

// F10: one heartbeat after another of workers that nobody knows leaves one line each, and not more than so many in all.
func TestF10_PeersCannotFloodTheLog(t *testing.T) {
	w := newWorld(t)
	lines := func() int { return strings.Count(w.log.String(), "Got heartbeat from unregistered worker") }
	conn := w.conn(sparkmsg.Address{Host: "h", Port: 1})
	beat := func(id string) { w.core.OneWay(conn, nil, famE, &sparkmsg.Heartbeat{WorkerID: id}) }
	for range 100 {
		beat("one")
		beat("two")
	}
	if n := lines(); n != 2 {
		t.Fatalf("%d lines, want 2", n)
	}
	w.advance(peerLinePeriod)
	if !strings.Contains(w.log.String(), "were left out") {
		t.Error("nothing says that lines were left out")
	}
	beat("one")
	if n := lines(); n != 3 {
		t.Errorf("%d lines, want 3", n)
	}
	for i := range 5 * maxPeerLines {
		beat(fmt.Sprintf("worker-%d", i))
	}
	if n := lines(); n > 3+maxPeerLines || len(w.core.lines.written) > maxPeerLines {
		t.Errorf("%d lines, %d subjects remembered", n, len(w.core.lines.written))
	}
	wantLen(t, "answers", pushed[*sparkmsg.ReconnectWorker](conn), 201+5*maxPeerLines)
}

// F10: what a peer says stays on one line.
func TestF10_NamesCannotForgeLogLines(t *testing.T) {
	w := newWorld(t)
	w.joinedApp(1, func(d *sparkmsg.ApplicationDescription) {
		d.Name = "a\n[INFO] forged\x1b[2J" + strings.Repeat("x", 5000)
	})
	w.core.OneWay(w.conn(sparkmsg.Address{Host: "h", Port: 1}), nil, famE, &sparkmsg.Heartbeat{WorkerID: "w\n[INFO] forged"})
	for _, line := range strings.Split(w.log.String(), "\n") {
		if strings.HasPrefix(line, "[INFO] forged") || strings.Contains(line, "\x1b") || len(line) > 3000 {
			t.Errorf("a line is %q", line)
		}
	}
	if !strings.Contains(w.log.String(), `a\n[INFO] forged\x1b`) {
		t.Error("the name is not shown")
	}
}

// F10: a worker's id does not move to whoever names it, as long as its holder answers where it is known.
func TestF10_IDOfALivingWorkerDoesNotMove(t *testing.T) {
	yes := func(sparkmsg.Message) (sparkmsg.Message, error) { return &sparkmsg.Boolean{Value: true}, nil }
	for name, change := range map[string]func(*sparkmsg.RegisterWorker){
		"host":    func(m *sparkmsg.RegisterWorker) { m.Host = "thief" },
		"port":    func(m *sparkmsg.RegisterWorker) { m.Port++ },
		"address": func(m *sparkmsg.RegisterWorker) { m.Worker.Address = &sparkmsg.Address{Host: "thief", Port: 9} },
	} {
		w := newWorld(t)
		fw := w.joined(1)
		fw.conn.answer = yes
		m := fw.registration()
		change(m)
		thief := w.conn(*m.Worker.Address)
		w.core.OneWay(thief, m.Worker.Address, famE, m)
		w.settle()
		wantLen(t, "refusals of another "+name, pushed[*sparkmsg.RegisterWorkerFailed](thief), 1)
		wantLen(t, "RegisterWorker commands", committed[fsm.RegisterWorker](w), 1)
		// A new leader has no connection of it yet, and asks at its address.
		w.failover()
		fw.online()
		thief = w.conn(*m.Worker.Address)
		w.core.OneWay(thief, m.Worker.Address, famE, m)
		w.settle()
		wantLen(t, "refusals of another "+name+" after a take-over", pushed[*sparkmsg.RegisterWorkerFailed](thief), 1)
		if e := fw.entry(); e.Address != toFSMAddress(fw.addr) || e.Host != fw.host {
			t.Errorf("the worker is at %+v now", e.Address)
		}
	}
}

// F10: an id whose holder does not answer any more may move.
func TestF10_IDOfAnUnreachableWorkerMoves(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	old := fw.addr
	w.failover()
	w.net.reach[old] = ProbeRefused
	fw.addr = sparkmsg.Address{Host: "elsewhere", Port: 9}
	fw.online()
	fw.register()
	wantLen(t, "refusals", pushed[*sparkmsg.RegisterWorkerFailed](fw.conn), 0)
	if e := fw.entry(); e.Address != toFSMAddress(fw.addr) {
		t.Errorf("the worker is at %+v", e.Address)
	}
}

// F9: what died with the last leader is noticed in seconds by a master that has reached it before.
func TestF9_PeersThatDiedWithTheLeaderAreGoneSoon(t *testing.T) {
	for _, reached := range []bool{true, false} {
		w := newWorld(t)
		fw, alive := w.joined(1), w.joined(2)
		a := w.joinedApp(1, maxCores(2))
		w.beating = w.beating[1:]
		// The next leader has seen them register while it stood by.
		next := testConfig()
		next.NodeID = "m2"
		old, lease := w.core, w.lease
		w.newCore(next)
		if reached {
			fw.online()
			a.online()
			fw.register()
			a.say(&sparkmsg.RegisterApplication{AppDescription: a.desc, Driver: sparkmsg.EndpointRef{Name: "AppClient", Address: &a.addr}})
		}
		w.settle()
		*lease = false
		old.Deposed(w.term)
		w.term++
		w.net.reach[fw.addr], w.net.reach[a.addr] = ProbeRefused, ProbeRefused
		w.net.attached = map[sparkmsg.Address]bool{}
		w.elect()
		alive.online()
		alive.schedulerState()
		w.advance(answerPatience - 1)
		fw.wantState(fsm.WorkerAlive)
		a.wantState(fsm.AppRunning)
		w.advance(2 * probeEvery)
		if reached {
			fw.wantState(fsm.WorkerDead)
			a.wantState(fsm.AppFailed)
		} else { // a refusal by an address that this master never reached proves nothing (proxies, firewalls)
			fw.wantState(fsm.WorkerAlive)
			a.wantState(fsm.AppRunning)
		}
		alive.wantState(fsm.WorkerAlive)
	}
}

// F9: a peer to which MasterChanged was delivered, and which dies before it answers, counts as reached.
func TestF9_DeliveryTeachesTheReach(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	w.beating = nil
	w.failover()
	fw.online()
	a.online()
	w.net.attached[fw.addr] = true
	w.advance(2 * firstRepeat)
	w.net.attached = map[sparkmsg.Address]bool{}
	w.net.reach[fw.addr], w.net.reach[a.addr] = ProbeRefused, ProbeRefused
	w.advance(answerPatience)
	fw.wantState(fsm.WorkerDead)
	a.wantState(fsm.AppFailed)
}

// F9: what a standby asks at the wish of its peers is bounded.
func TestF9_StandbyAsksFewAtOnce(t *testing.T) {
	w := newStandby(t)
	for n := range 3 * maxReachAhead {
		fw := w.worker(n)
		delete(w.net.reach, fw.addr) // no answer yet
		fw.register()
	}
	wantLen(t, "open questions", w.net.open, maxReachAhead)
	if n := len(w.core.reached); n > maxReachAhead {
		t.Errorf("%d addresses are remembered", n)
	}
}

// F9: what a standby remembers of peers that are gone makes room for others, and what it knows of those in the books stays.
func TestF9_StandbyForgetsAddressesOfPeersThatAreGone(t *testing.T) {
	w := newWorld(t)
	here := w.joined(1)
	w.core.Deposed(w.term)
	for n := range maxReached {
		w.core.reached[sparkmsg.Address{Host: "gone", Port: int32(n)}] = true
	}
	late := w.worker(2)
	late.register()
	if !w.core.reached[late.addr] || !w.core.reached[here.addr] || len(w.core.reached) > 2 {
		t.Errorf("%d addresses are remembered; the new peer's: %t, that of the books: %t", len(w.core.reached), w.core.reached[late.addr], w.core.reached[here.addr])
	}
}
