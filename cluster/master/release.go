package master

import (
	"strings"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// releaseTimeout is how long a newly registered worker waits for its release to be found out before it is given work
// without.
const releaseTimeout = 2 * time.Second

// findWorkerRelease asks, once per term, which release a worker runs: messages alone do not tell 4.1 from 4.3, and an
// executor of the wrong release stays silent for ever.
func (c *Core) findWorkerRelease(w *workerSoft) {
	if w.releaseKnown || w.releaseAsked {
		return
	}
	known := c.view().Worker(w.id)
	if known == nil {
		return
	}
	w.releaseAsked = true
	settle := func() {
		if !w.releaseKnown {
			w.releaseKnown = true
			c.needPlan()
			c.flush()
		}
	}
	if known.WebUIURL == "" {
		settle()
		return
	}
	c.begin(&c.releasePace, paced{begin: func() { c.askWorkerRelease(w, known, settle) }})
}

// askWorkerRelease reads the release off the worker's page; settle is called in any case, unless the term or the worker
// ends before.
func (c *Core) askWorkerRelease(w *workerSoft, known *fsm.Worker, settle func()) {
	term := c.term
	c.after(releaseTimeout, settle)
	c.deps.Releases.Worker(known.WebUIURL, func(release string) {
		if c.term != term || c.workers[w.id] != w || !c.alive() {
			return
		}
		if release == "" {
			settle()
			return
		}
		c.propose("SetRelease", fsm.SetRelease{Meta: c.meta(), WorkerID: w.id, Release: release, Families: narrowFamilies(known.Families, release)},
			func(fsm.Result) { settle() }, func(error) { settle() })
	})
}

// appReleasePatience is how long an application may wait for its release where the workers that could run it are of
// several: its driver serves the answer only once it has been told its id, and is asked a few times.
const appReleasePatience = 10 * time.Second

// findAppRelease does the same for an application, once per term.
func (c *Core) findAppRelease(a *appSoft, uiURL string) {
	if a.releaseAsked || uiURL == "" {
		return
	}
	a.releaseAsked, a.releaseOpen = true, true
	settle := func() {
		if a.releaseOpen {
			a.releaseOpen = false
			c.needPlan()
			c.flush()
		}
	}
	term := c.term
	c.after(appReleasePatience, settle)
	c.deps.Releases.Application(uiURL, func(release string) {
		if c.term != term || c.apps[a.id] != a || !c.alive() {
			return
		}
		app := c.view().Application(a.id)
		if release == "" || app == nil || app.State.Finished() {
			settle()
			return
		}
		c.propose("SetRelease", fsm.SetRelease{Meta: c.meta(), AppID: a.id, Release: release, Families: narrowFamilies(app.Families, release)},
			func(fsm.Result) { c.needPlan(); settle() }, func(error) { settle() })
	})
}

// placeable is compatible for one planning pass, and holds an application back while its release is being found out and
// could decide: 3.4 and 3.5 speak alike to the master, but an executor of the one never works for a driver of the other.
func (c *Core) placeable(view fsm.View) func(*fsm.Application, *fsm.Worker) bool {
	if c.several == nil || c.severalAt != view.FleetVersion() {
		c.several, c.severalAt = map[uint8]bool{}, view.FleetVersion()
	}
	several := c.several
	return func(a *fsm.Application, w *fsm.Worker) bool {
		if !compatible(a, w) {
			return false
		}
		soft := c.apps[a.ID]
		if a.Release != "" || soft == nil || !soft.releaseOpen {
			return true
		}
		differ, known := several[a.Families]
		if !known {
			differ = severalReleases(view, a.Families)
			several[a.Families] = differ
		}
		return !differ
	}
}

// severalReleases tells whether the live workers of these families are of more than one major.minor release.
func severalReleases(view fsm.View, families uint8) bool {
	first, differ := "", false
	view.Workers(func(w *fsm.Worker) bool {
		if w.Release != "" && w.Live() && fits(families, "", w) {
			if release := majorMinor(w.Release); first == "" {
				first = release
			} else {
				differ = release != first
			}
		}
		return !differ
	})
	return differ
}

// narrowFamilies keeps what messages and release agree on; a release that contradicts the messages is not believed.
func narrowFamilies(families uint8, release string) uint8 {
	of, ok := sparkmsg.FamilyForRelease(release)
	if !ok {
		return families
	}
	both := sparkmsg.FamilySet(families).Intersect(sparkmsg.SetOf(of))
	if both.IsEmpty() {
		return families
	}
	return uint8(both)
}

// compatible tells whether an application's executors may run on a worker: they share a family and, where both are
// known, the same major.minor release.
func compatible(a *fsm.Application, w *fsm.Worker) bool {
	return fits(a.Families, a.Release, w)
}

// driverCompatible tells the same of a driver, which runs with the worker's own Spark.
func driverCompatible(d *fsm.Driver, w *fsm.Worker) bool { return fits(d.Families, d.Release, w) }

func fits(families uint8, release string, w *fsm.Worker) bool {
	shared := sparkmsg.FamilySet(families).Intersect(sparkmsg.FamilySet(w.Families))
	if families != 0 && w.Families != 0 && shared.IsEmpty() {
		return false
	}
	return SameLine(release, w.Release)
}

// SameLine tells whether two Spark releases have one major.minor, as what runs together must; one that is not known ("")
// is of any line.
func SameLine(a, b string) bool { return a == "" || b == "" || majorMinor(a) == majorMinor(b) }

// majorMinor cuts a release down: 4.3.0 and 4.3.1-SNAPSHOT both give 4.3.
func majorMinor(release string) string {
	major, rest, ok := strings.Cut(release, ".")
	if !ok {
		return release
	}
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}

// Compatible tells whether an application's executors may run on a worker, for those who explain the leader's choices.
func Compatible(a *fsm.Application, w *fsm.Worker) bool { return compatible(a, w) }

// DriverCompatible tells the same of a driver. What only the leader has found out is in Status.UnreadableDrivers.
func DriverCompatible(d *fsm.Driver, w *fsm.Worker) bool { return driverCompatible(d, w) }
