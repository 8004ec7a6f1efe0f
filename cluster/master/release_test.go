package master

import (
	"testing"
	"time"

	"raftmaster/transport/sparkmsg"
)

// twoLines makes two workers of one family but of the given releases, and an application whose driver has said nothing.
func twoLines(t *testing.T, one, two string) (*world, *fakeWorker, *fakeWorker, *fakeApp) {
	t.Helper()
	w := newWorld(t)
	w.releases.known = map[string]string{"http://host1:8081": one, "http://host2:8081": two, "http://driver1:4040": "3.4.4"}
	w1, w2 := w.worker(1), w.worker(2)
	for _, x := range []*fakeWorker{w1, w2} {
		x.families = famB
		x.register()
	}
	a := w.app(1, func(d *sparkmsg.ApplicationDescription) { d.AppUIURL = "http://driver1:4040" })
	a.families = famB
	return w, w1, w2, a
}

// 3.4 and 3.5 are of one family, but an executor of the one takes a driver of the other for its own and hangs: with
// workers of both, an application waits until its release is known.
func TestApplicationWaitsForItsReleaseWhereWorkersDiffer(t *testing.T) {
	w, own, other, a := twoLines(t, "3.4.4", "3.5.9")
	w.releases.held = true
	a.register()
	wantLen(t, "executors before its release is known", a.executors(), 0)
	w.releases.held = false
	w.settle()
	wantLen(t, "executors on the worker of its own release", own.launches(), 4)
	wantLen(t, "executors on the other worker", other.launches(), 0)
}

// Nothing waits where the answer decides nothing.
func TestApplicationDoesNotWaitForItsReleaseWhereWorkersAgree(t *testing.T) {
	w, one, two, a := twoLines(t, "3.5.8", "3.5.9")
	w.releases.held = true
	a.register()
	wantLen(t, "executors at once", append(one.launches(), two.launches()...), 8)
}

// A driver that hides its release, or never answers, waits for ten seconds at most.
func TestApplicationWaitsForItsReleaseTenSecondsAtMost(t *testing.T) {
	w, one, two, a := twoLines(t, "3.4.4", "3.5.9")
	w.releases.held = true
	a.register()
	w.advance(9 * time.Second)
	wantLen(t, "executors after nine seconds", a.executors(), 0)
	w.advance(time.Second)
	wantLen(t, "executors after ten seconds", append(one.launches(), two.launches()...), 8)

	w, one, two, a = twoLines(t, "3.4.4", "3.5.9")
	delete(w.releases.known, "http://driver1:4040")
	a.register()
	wantLen(t, "executors of an application whose page cannot be read", append(one.launches(), two.launches()...), 8)
}

// A new leader asks again what the last one did not learn.
func TestNewLeaderAsksForTheReleaseThatTheLastOneDidNotLearn(t *testing.T) {
	w, own, other, a := twoLines(t, "3.4.4", "3.5.9")
	w.releases.held = true
	a.register()
	wantLen(t, "executors before its release is known", a.executors(), 0)
	w.releases.open = nil // the last leader's questions
	w.failover()
	for _, x := range []*fakeWorker{own, other} {
		x.online()
		x.schedulerState()
	}
	a.online()
	a.acknowledge()
	wantLen(t, "executors at the new leader", a.executors(), 0)
	w.releases.held = false
	w.settle()
	if got := a.entry().Release; got != "3.4.4" {
		t.Errorf("the application's release is %q", got)
	}
	wantLen(t, "executors on the other release's worker", other.launches(), 0)
	wantLen(t, "executors on its own", own.launches(), 4)
}
