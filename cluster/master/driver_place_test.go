package master

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-171: waiting drivers are served before executors.
func TestB171_DriversBeforeExecutors(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1, maxCores(4))
	id := w.submitted(driverSize(3, 1024))
	fw := w.joined(1)
	w.wantDriver(id, fsm.DriverStateRunning)
	wantLen(t, "executors", a.executors(), 1)
	for _, m := range w.net.outbox[fw.addr] {
		if _, ok := m.msg.(*sparkmsg.LaunchExecutor); ok {
			t.Fatal("an executor was launched before the driver")
		}
		if _, ok := m.msg.(*sparkmsg.LaunchDriver); ok {
			break
		}
	}
}

// B-173, G-56: the limit is kept, and said once.
func TestB173_G56_MaxDriversIsKeptAndSaid(t *testing.T) {
	events := &recordingObserver{}
	w := newStandby(t, func(c *Config) { c.MaxDrivers = 1 })
	w.core.deps.Observer = events
	w.elect()
	w.joined(1)
	first, second := w.submitted(), w.submitted()
	w.submitted()
	w.wantDriver(first, fsm.DriverStateRunning)
	w.wantDriver(second, fsm.DriverStateSubmitted)
	if n := strings.Count(events.text.String(), "maxDrivers"); n != 1 {
		t.Errorf("the limit was mentioned %d times in %s", n, events.text.String())
	}
}

// B-134, B-172, G-54: a driver that no worker could ever hold waits, and an operator is told once.
func TestG54_DriverThatFitsNowhereIsWarnedOfOnce(t *testing.T) {
	w := newWorld(t)
	w.joined(1)
	id := w.submitted(driverSize(64, 1024))
	w.joined(2)
	w.submitted()
	w.wantDriver(id, fsm.DriverStateSubmitted)
	text := "Driver " + id + " requires more resource than any of Workers could have."
	if n := strings.Count(w.log.String(), text); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	big := w.worker(3)
	big.cores = 64
	big.register()
	w.wantDriver(id, fsm.DriverStateRunning)
}

// A driver runs with its worker's own Spark: families and releases must agree.
func TestDriversGoToWorkersOfTheirRelease(t *testing.T) {
	w := newWorld(t)
	old := w.worker(1)
	old.families = famB
	old.register()
	id := w.submitted() // by a 4.x client
	w.wantDriver(id, fsm.DriverStateSubmitted)
	three := w.submitDesc(bound(t, driverDesc(), sparkmsg.FamilyB))
	w.wantDriver(three, fsm.DriverStateRunning)
	if l := old.driverLaunches(); len(l) != 1 || l[0].DriverID != three {
		t.Errorf("the launches are %+v", l)
	}
	w.releases.known["http://host2:8081"] = "4.3.0"
	w.joined(2)
	w.wantDriver(id, fsm.DriverStateRunning)
	var rest DriverSubmission
	w.core.SubmitDriver(DriverRequest{Desc: driverDesc(), Families: sparkmsg.SetOf(sparkmsg.FamilyD), Release: "4.2.0"},
		func(s DriverSubmission, err error) { rest = s })
	w.settle()
	w.wantDriver(rest.ID, fsm.DriverStateSubmitted)
}

// What the REST gateway makes is the same for all releases: it is encoded for the worker that gets it.
func TestDriverOfAnyReleaseIsEncodedForItsWorker(t *testing.T) {
	w := newWorld(t)
	old := w.worker(1)
	old.families = famB
	old.register()
	var s DriverSubmission
	w.core.SubmitDriver(DriverRequest{Desc: driverDesc(), Families: sparkmsg.AllFamilies}, func(got DriverSubmission, err error) { s = got })
	w.settle()
	w.wantDriver(s.ID, fsm.DriverStateRunning)
	l := old.driverLaunches()
	wantLen(t, "launches", l, 1)
	raw, err := l[0].DriverDesc.MarshalPayload()
	if err != nil {
		t.Fatal(err)
	}
	if fams, err := sparkmsg.PayloadFamilies(raw); err != nil || !fams.Has(sparkmsg.FamilyB) {
		t.Errorf("the description is for %s, %v", fams, err)
	}
}

// B-061, B-062: a driver gets whole addresses of custom resources, in text order, and gives them back.
func TestB062_DriverGetsAddresses(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	reg := fw.registration()
	reg.Resources = []sparkmsg.ResourceInformation{{Name: "gpu", Addresses: []string{"2", "10", "1"}}}
	fw.say(reg)
	gpus := func(n int32) func(*sparkmsg.DriverDescription) {
		return func(d *sparkmsg.DriverDescription) {
			d.ResourceReqs = []sparkmsg.ResourceRequirement{{ResourceName: "gpu", Amount: n, NumParts: 1}}
		}
	}
	two, one, waits := w.submitted(gpus(2)), w.submitted(gpus(1)), w.submitted(gpus(1))
	for i, want := range []string{"[{gpu [1 10]}]", "[{gpu [2]}]"} {
		if got := fmt.Sprint(fw.driverLaunches()[i].Resources); got != want {
			t.Errorf("launch %d has %s, want %s", i, got, want)
		}
	}
	w.wantDriver(waits, fsm.DriverStateSubmitted)
	fw.driverEnds(two, sparkmsg.DriverFinished)
	w.wantDriver(waits, fsm.DriverStateRunning)
	w.wantDriver(one, fsm.DriverStateRunning)
	if got := fmt.Sprint(fw.driverLaunches()[2].Resources); got != "[{gpu [1]}]" {
		t.Errorf("the third launch has %s", got)
	}
}

// The state machine is ahead of the leader service by a moment: a list that comes in between cannot name a driver whose
// launch is about to be sent. Were it ended, its launch would be followed by a kill and by another launch under the same id.
func TestListBetweenABookingAndItsLaunchEndsNoDriver(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	w.core.Ask(nil, nil, &sparkmsg.RequestSubmitDriver{DriverDescription: bound(t, driverDesc(), sparkmsg.FamilyE)}, func(sparkmsg.Message, error) {})
	for len(w.queue) > 0 {
		batch := w.queue
		w.queue = nil
		applied := w.commit(batch...)
		if _, placed := batch[0].(fsm.PlaceDrivers); placed {
			fw.latestDrivers()
		}
		w.core.Applied(applied)
	}
	w.held = false
	w.settle()
	wantLen(t, "launches", fw.driverLaunches(), 1)
	wantLen(t, "kills", fw.driverKills(), 0)
	w.advance(5 * time.Second)
	wantLen(t, "launches", fw.driverLaunches(), 1)
}

// Thousands that fit nowhere are said by number: the ring of events and the log belong to others too.
func TestManyHopelessDriversAreSaidByNumber(t *testing.T) {
	w := newWorld(t)
	w.joined(1)
	var ids []string
	for n := range 3 * maxHopelessSaid {
		ids = append(ids, fmt.Sprintf("driver-%04d", n))
	}
	w.log.Reset()
	for range 2 {
		w.core.warnDrivers(ids, 0)
	}
	const text = "require more resource than any of Workers could have."
	if n := strings.Count(w.log.String(), "requires more resource"); n != maxHopelessSaid {
		t.Errorf("%d drivers are said by name", n)
	}
	if n := strings.Count(w.log.String(), fmt.Sprintf("%d more drivers %s", 2*maxHopelessSaid, text)); n != 1 {
		t.Errorf("the rest is said %d times:\n%s", n, w.log)
	}
	w.core.warnDrivers(append(ids, "driver-new"), 0)
	if !strings.Contains(w.log.String(), "Driver driver-new requires") {
		t.Error("a new one is not said")
	}
}
