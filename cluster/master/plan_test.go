package master

import (
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

type recordingObserver struct{ text strings.Builder }

// Committed implements Observer.
func (o *recordingObserver) Committed(command string, _ time.Duration) {
	o.text.WriteString("committed " + command + "\n")
}

// Planned implements Observer.
func (o *recordingObserver) Planned(time.Duration) {}

// Event implements Observer.
func (o *recordingObserver) Event(kind, subject, detail string) {
	o.text.WriteString("event " + kind + " " + subject + " " + detail + "\n")
}

// B-160: nothing is planned by a master that does not lead, and every event that may free or bring something plans.
func TestB160_StandbyPlansNothing(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	*w.lease = false
	commands := len(w.proposed)
	w.core.needPlan()
	w.core.flush()
	if len(w.proposed) != commands {
		t.Errorf("proposed: %+v", w.proposed[commands:])
	}
}

// Any number of events make one pass, and one plan is in flight at a time.
func TestB160_EventsAreCoalescedIntoOnePlanInFlight(t *testing.T) {
	w := newWorld(t)
	w.joined(1)
	a, b := w.joinedApp(1, initialLimit(0)), w.joinedApp(2, initialLimit(0))
	before := len(committed[fsm.PlaceExecutors](w))
	w.held = true
	for _, x := range []*fakeApp{a, b} {
		w.core.Ask(nil, &x.addr, &sparkmsg.RequestExecutors{AppID: x.id, ResourceProfileToTotalExecs: []sparkmsg.ProfileTotal{{Profile: x.desc.DefaultProfile, Total: 1}}}, func(sparkmsg.Message, error) {})
	}
	w.core.Applied(w.commit(w.take()...)) // both targets
	plans := committed[fsm.PlaceExecutors](w)[before:]
	wantLen(t, "plans after two events", plans, 1)
	wantLen(t, "placements", plans[0].Placements, 2)
	for range 5 { // more events while the plan is in flight
		w.core.needPlan()
		w.core.flush()
	}
	wantLen(t, "plans in flight", committed[fsm.PlaceExecutors](w)[before:], 1)
	w.held = false
	w.settle()
	wantLen(t, "executors", append(a.executors(), b.executors()...), 2)
}

// A placement that Apply drops makes the planner run again.
func TestB160_DroppedPlacementIsPlannedAgain(t *testing.T) {
	w := newWorld(t)
	one, two := w.joined(1), w.joined(2)
	w.held = true
	a := w.app(1, maxCores(4))
	a.register()
	w.core.Applied(w.commit(w.take()...))
	plan := w.take()
	wantLen(t, "placements", plan[0].(fsm.PlaceExecutors).Placements, 4)
	w.commit(fsm.DecommissionWorkers{Meta: w.meta(), IDs: []string{one.id}}) // the core hears of it later
	w.held = false
	w.core.Applied(w.commit(plan...))
	w.settle()
	wantLen(t, "launches on the decommissioned worker", one.launches(), 0)
	wantLen(t, "launches on the other one", two.launches(), 4)
}

// An application that ended in the same batch of the log as its plan: nothing is started that has to be killed at once.
func TestPlanOfAnApplicationThatHasEndedLaunchesNothing(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	a := w.app(1)
	a.register()
	w.core.Applied(w.commit(w.take()...))
	plan := w.take()
	id, _ := w.machine.View().ApplicationByDriver(toFSMAddress(a.addr))
	w.held = false
	w.core.Applied(w.commit(append(plan, fsm.FinishApplication{Meta: w.meta(), AppID: id.ID, State: fsm.AppKilled})...))
	w.settle()
	wantLen(t, "launches", fw.launches(), 0)
	wantLen(t, "ApplicationRemoved", got[*sparkmsg.ApplicationRemoved](w.net, a.addr), 1)
}

// B-178: said once, not for every event.
func TestB178_HopelessApplicationIsWarnedOfOnce(t *testing.T) {
	w := newWorld(t)
	w.joined(1)
	a := w.joinedApp(1, func(d *sparkmsg.ApplicationDescription) { d.DefaultProfile.ExecutorResources[0].Amount = 64 })
	a.target(1)
	a.target(2)
	if n := strings.Count(w.log.String(), "App "+a.id+" requires more resource than any of Workers could have."); n != 1 {
		t.Errorf("warned %d times", n)
	}
}

// An application's executors go to workers that share a family with it.
func TestFamiliesOfApplicationAndWorkerMustOverlap(t *testing.T) {
	w := newWorld(t)
	old := w.worker(1)
	old.families = famB
	old.register()
	a := w.joinedApp(1)
	wantLen(t, "executors of a 4.3 application on a 3.5 worker", a.executors(), 0)
	young := w.worker(2)
	young.families = famDE
	young.register()
	wantLen(t, "launches on a worker of 4.1 to 4.3", young.launches(), 4)
	wantLen(t, "launches on the 3.5 worker", old.launches(), 0)
	for _, m := range w.net.outbox[old.addr] {
		if m.fam != sparkmsg.FamilyB {
			t.Errorf("%s was encoded for family %s", m.msg.MessageName(), m.fam)
		}
	}
}

// Where both releases are known, major.minor must be the same; the release comes from the web pages, in the background.
func TestReleasesOfApplicationAndWorkerMustAgree(t *testing.T) {
	w := newWorld(t)
	ui := func(d *sparkmsg.ApplicationDescription) { d.AppUIURL = "http://driver1:4040" }
	w.releases.known = map[string]string{"http://host1:8081": "4.1.2", "http://host2:8081": "4.2.0", "http://driver1:4040": "4.2.1"}
	one, two := w.worker(1), w.worker(2)
	for _, x := range []*fakeWorker{one, two} {
		x.families = famDE
		x.register()
	}
	if one.entry().Release != "4.1.2" || sparkmsg.FamilySet(one.entry().Families) != sparkmsg.SetOf(sparkmsg.FamilyD) {
		t.Errorf("the first worker is %s, family %s", one.entry().Release, sparkmsg.FamilySet(one.entry().Families))
	}
	a := w.app(1, ui)
	a.families = famDE
	w.releases.held = true
	a.register()
	launched := len(one.launches()) + len(two.launches())
	wantLen(t, "executors before its release is known", a.executors(), launched)
	a.target(0)
	w.releases.held = false
	w.settle()
	if a.entry().Release != "4.2.1" {
		t.Fatalf("the application's release is %q", a.entry().Release)
	}
	b := w.app(2, func(d *sparkmsg.ApplicationDescription) { d.AppUIURL = "http://driver1:4040" }, initialLimit(0))
	b.families = famDE
	b.register()
	a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
	before := len(one.launches())
	b.target(8)
	if n := len(one.launches()) - before; n != 0 {
		t.Errorf("%d executors of 4.2 were launched on a worker of 4.1", n)
	}
	wantLen(t, "executors on the worker of 4.2", b.executors(), 4)
}

// A release that contradicts the messages is not believed about the family.
func TestReleaseThatContradictsTheMessagesChangesNoFamily(t *testing.T) {
	w := newWorld(t)
	w.releases.known = map[string]string{"http://host1:8081": "3.5.9"}
	fw := w.worker(1)
	fw.register()
	if f := sparkmsg.FamilySet(fw.entry().Families); f != famE {
		t.Errorf("the worker's families are %s, want E", f)
	}
}

// A worker waits for its release for two seconds at most before it is given work.
func TestWorkerWaitsForItsReleaseTwoSecondsAtMost(t *testing.T) {
	w := newWorld(t)
	w.releases.held = true
	fw := w.worker(1)
	fw.register()
	a := w.joinedApp(1)
	wantLen(t, "executors at once", a.executors(), 0)
	w.advance(2 * time.Second)
	wantLen(t, "executors after two seconds", a.executors(), 4)
	wantLen(t, "pages that were asked", w.releases.asked, 1)
	fw.register()
	wantLen(t, "pages that were asked after a repetition", w.releases.asked, 1)
}

// A worker without a web page has nothing to wait for. After a take-over a known release is not asked for again.
func TestReleaseIsAskedForOnlyWhenItIsNotKnown(t *testing.T) {
	w := newWorld(t)
	w.releases.known["http://host1:8081"] = "4.3.0"
	mute := w.worker(2)
	mute.url = ""
	mute.register()
	fw := w.joined(1)
	wantLen(t, "pages", w.releases.asked, 1)
	w.failover()
	wantLen(t, "pages asked by the next leader", w.releases.asked, 1)
	fw.online()
	fw.schedulerState()
	if fw.entry().Release != "4.3.0" {
		t.Errorf("the release is %q", fw.entry().Release)
	}
}

func TestMajorMinor(t *testing.T) {
	for in, want := range map[string]string{"4.3.0": "4.3", "4.3.1-SNAPSHOT": "4.3", "4.3": "4.3", "4": "4", "": "", "3.5.9": "3.5"} {
		if got := majorMinor(in); got != want {
			t.Errorf("majorMinor(%q) = %q, want %q", in, got, want)
		}
	}
}
