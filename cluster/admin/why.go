package admin

import (
	"fmt"
	"slices"
	"strings"

	"raftmaster/cluster/master"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// workerLimits are what keeps a worker from taking an executor or a driver, in the order in which it is looked for: first
// what lasts, then what an operator can take back or what passes. The later one is found, the closer a worker is to taking
// it: the last one that any worker has is what is waited for.
var workerLimits = []struct{ limit, words, next string }{
	{webui.LimitRelease, "on another Spark release", "It needs workers of its own Spark release."},
	{webui.LimitDecommission, "decommissioned", "Start a new worker there: a decommissioned one takes no work for the rest of its life."},
	{webui.LimitIncompatible, "where such work never came up", "Look at the logs of what was started there; raftctl compat clear WORKER gives the worker another try."},
	{webui.LimitDrain, "drained by an operator", "raftctl undrain WORKER lets work come again."},
	{webui.LimitReconcile, "not ready for work from this leader yet (raftctl workers says why)", "This ends by itself, mostly within seconds."},
	{webui.LimitCores, "without enough free cores", "Wait until cores are free, add workers, or ask for fewer cores."},
	{webui.LimitMemory, "without enough free memory", "Wait until memory is free, add workers, or ask for less memory."},
	{webui.LimitResources, "without enough free custom resources", "Wait until addresses are free, or add workers that offer them."},
}

// Indexes of workerLimits. none: a worker can take it.
const (
	iRelease = iota
	iDecommission
	iIncompatible
	iDrain
	iReconcile
	iCores
	iMemory
	iResources
	none
)

// offers are the live workers as they are seen by what waits: small copies, because every one is looked at for each of up
// to 2*maxExplained of those.
type offers struct {
	list []offer
	// classes are workers of different families or releases: what one of a class can run, all can.
	classes []*fsm.Worker
	// unreadable is Soft.UnreadableDrivers.
	unreadable map[string][]uint8
}

type offer struct {
	w                  *fsm.Worker
	cores, coresFree   int
	memory, memoryFree int
	class              int
	// limit keeps everything away: an index of workerLimits, or none.
	limit int
}

func offersOf(view fsm.View, soft Soft) offers {
	out := offers{unreadable: soft.UnreadableDrivers}
	type class struct {
		families uint8
		release  string
	}
	known := map[class]int{}
	view.Workers(func(w *fsm.Worker) bool {
		if !w.Live() {
			return true
		}
		key := class{w.Families, w.Release}
		n, ok := known[key]
		if !ok {
			n = len(out.classes)
			known[key] = n
			out.classes = append(out.classes, w)
		}
		o := offer{w: w, cores: w.Cores, coresFree: w.CoresFree(), memory: w.MemoryMB, memoryFree: w.MemoryFreeMB(), class: n, limit: none}
		switch {
		case w.State == fsm.WorkerDecommissioned:
			o.limit = iDecommission
		case w.Draining:
			o.limit = iDrain
		case soft.WorkerNotes[w.ID] != "":
			o.limit = iReconcile
		}
		out.list = append(out.list, o)
		return true
	})
	return out
}

// seeker is one thing that waits for a worker: an executor of an application, or a driver.
type seeker struct {
	fsm.Demand
	// what it is in words, and what it is about to get.
	what, soon string
	// compatible tells by class of offers whether such a worker can run it; failed are sorted ids of workers where it, or
	// its like, never came up.
	compatible []bool
	failed     []string
}

func (o *offers) executorOf(a *fsm.Application, p *fsm.Profile) *seeker {
	s := &seeker{Demand: p.Demand(), what: "an executor", soon: "get one", failed: a.IncompatibleWorkers}
	for _, w := range o.classes {
		s.compatible = append(s.compatible, master.Compatible(a, w))
	}
	return s
}

func (o *offers) driver(d *fsm.Driver) *seeker {
	s := &seeker{Demand: d.Demand(), what: "the driver", soon: "be started"}
	for _, w := range o.classes {
		s.compatible = append(s.compatible, master.DriverCompatible(d, w))
	}
	for id, families := range o.unreadable {
		if slices.Contains(families, d.Families) {
			s.failed = append(s.failed, id)
		}
	}
	slices.Sort(s.failed)
	return s
}

// needs says the demand in words.
func (s *seeker) needs() string {
	text := fmt.Sprintf("%s and %d MiB", plural(s.Cores, "core"), s.MemoryMB)
	for _, r := range s.Resources {
		text += fmt.Sprintf(" and %d %s", r.Amount, r.Name)
	}
	return text
}

// need is what the seeker needs, as an answer without a limit yet.
func (s *seeker) need() webui.WhyNeed {
	out := webui.WhyNeed{Cores: s.Cores, MemoryMB: s.MemoryMB, Resources: []webui.ResourceRequest{}, Workers: map[string]int{}}
	for _, r := range s.Resources {
		out.Resources = append(out.Resources, webui.ResourceRequest{Name: r.Name, Amount: int64(r.Amount)})
	}
	return out
}

// runs tells whether the worker is one on which the seeker could run at all.
func (o *offer) runs(s *seeker) int {
	if !s.compatible[o.class] {
		return iRelease
	}
	if len(s.failed) > 0 {
		if _, bad := slices.BinarySearch(s.failed, o.w.ID); bad {
			return iIncompatible
		}
	}
	return none
}

// limitOf tells what keeps a worker from taking the seeker now: an index of workerLimits, or none.
func (o *offer) limitOf(s *seeker) int {
	if l := min(o.runs(s), o.limit); l != none {
		return l
	}
	switch s.Short(o.coresFree, o.memoryFree, o.w.FreeAddresses) {
	case fsm.ShortOfCores:
		return iCores
	case fsm.ShortOfMemory:
		return iMemory
	case fsm.ShortOfResources:
		return iResources
	}
	return none
}

// mayEver tells whether the worker could take the seeker once it is empty, and nothing that passes keeps work away.
func (o *offer) mayEver(s *seeker) bool {
	return o.mayRun(s) && s.Short(o.cores, o.memory, o.w.AllAddresses) == fsm.Enough
}

// mayRun tells whether nothing but size and what passes keeps the seeker from the worker.
func (o *offer) mayRun(s *seeker) bool { return o.limit != iDecommission && o.runs(s) == none }

// judge counts the workers by what keeps them from taking the seeker, and says it in words.
func (o *offers) judge(s *seeker, out *webui.WhyNeed) {
	var found [none + 1]int
	hope, sized := false, false
	for i := range o.list {
		worker := &o.list[i]
		found[worker.limitOf(s)]++
		hope = hope || worker.mayEver(s)
		sized = sized || worker.mayRun(s)
	}
	out.Limit = webui.LimitNoWorker
	var parts []string
	for i, l := range workerLimits {
		if found[i] > 0 {
			out.Workers[l.limit], out.Limit = found[i], l.limit
			parts = append(parts, fmt.Sprintf("%d %s", found[i], l.words))
		}
	}
	switch {
	case found[none] > 0:
		out.Workers[webui.LimitNone], out.Limit = found[none], webui.LimitNone
		out.Text = fmt.Sprintf("%s could take %s of %s: it should %s in a moment", plural(found[none], "worker"), s.what, s.needs(), s.soon)
		return
	case len(o.list) == 0:
		out.Text = "no worker is ALIVE"
		return
	}
	slices.Reverse(parts)
	out.Text = fmt.Sprintf("no worker can take %s of %s: %s", s.what, s.needs(), strings.Join(parts, ", "))
	if out.Hopeless = !hope; out.Hopeless && sized {
		out.Text += "; none is large enough even when it is empty"
	}
}

// nextOf says what helps. hopeless: no worker is large enough even when it is empty, so that waiting does not help.
func nextOf(limit string, hopeless bool) string {
	if hopeless && (limit == webui.LimitCores || limit == webui.LimitMemory || limit == webui.LimitResources) {
		return "Waiting does not help: add a larger worker, or ask for less."
	}
	for _, l := range workerLimits {
		if l.limit == limit {
			return l.next
		}
	}
	switch limit {
	case webui.LimitNoWorker:
		return "Start workers, or look why they are gone (raftctl workers, raftctl events)."
	case webui.LimitMaxCores:
		return "spark.cores.max of the application, or spark.deploy.defaultCores of the masters, limits it."
	case webui.LimitBackOff:
		return "Look at the logs of its failed executors (the application's page lists them)."
	case webui.LimitTarget:
		return "With dynamic allocation the driver asks for more when it has work."
	case webui.LimitPause:
		return "It ends by itself. If the driver fails again and again, look at its log on the worker that ran it (raftctl drivers)."
	case webui.LimitMaxDrivers:
		return "Wait until a driver has ended (raftctl drivers), or raise spark.deploy.maxDrivers on all masters."
	}
	return ""
}
