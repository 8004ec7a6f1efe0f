package admin

import (
	"fmt"
	"slices"
	"strings"

	"raftmaster/cluster/master"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// workerLimits are what keeps a worker from taking an executor, in the order in which it is looked for. The later one is
// found, the closer a worker is to taking it: the last one that any worker has is what the application waits for.
var workerLimits = []struct{ limit, words, next string }{
	{webui.LimitDecommission, "decommissioned", "Start a new worker there: a decommissioned one takes no work for the rest of its life."},
	{webui.LimitDrain, "drained by an operator", "raftctl undrain WORKER lets work come again."},
	{webui.LimitReconcile, "not ready for work from this leader yet (raftctl workers says why)", "This ends by itself, mostly within seconds."},
	{webui.LimitRelease, "on another Spark release", "The application needs workers of its own Spark release."},
	{webui.LimitIncompatible, "where its executors never came up", "Look at the logs of the lost executors there."},
	{webui.LimitCores, "without enough free cores", "Wait until cores are free, add workers, or ask for fewer cores per executor."},
	{webui.LimitMemory, "without enough free memory", "Wait until memory is free, add workers, or ask for less memory per executor."},
	{webui.LimitResources, "without enough free custom resources", "Wait until addresses are free, or add workers that offer them."},
}

// need is what one executor of a profile takes.
type need struct {
	cores, memoryMB int
	resources       []fsm.ResourceAmount
}

func needOf(p *fsm.Profile) need {
	n := need{cores: 1, memoryMB: p.MemoryMB, resources: p.Resources}
	if p.Cores != nil {
		n.cores = *p.Cores
	}
	return n
}

func (n need) String() string {
	text := fmt.Sprintf("%s and %d MiB", plural(n.cores, "core"), n.memoryMB)
	for _, r := range n.resources {
		text += fmt.Sprintf(" and %d %s", r.Amount, r.Name)
	}
	return text
}

// offers are the live workers as an application sees them: small copies, because every one is looked at for each of up to
// maxExplained applications.
type offers struct {
	list []offer
	// classes are workers of different families or releases: what one of a class can run, all can.
	classes []*fsm.Worker
}

type offer struct {
	w                  *fsm.Worker
	cores, coresFree   int
	memory, memoryFree int
	class              int
	// limit keeps all applications away: an index of workerLimits, or none.
	limit int
}

// Indexes of workerLimits. none: a worker can take an executor.
const (
	iDecommission = iota
	iDrain
	iReconcile
	iRelease
	iIncompatible
	iCores
	iMemory
	iResources
	none
)

func offersOf(view fsm.View, soft Soft) offers {
	var out offers
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

// limitOf tells what keeps a worker from taking one executor now: an index of workerLimits, or none.
func (o *offer) limitOf(a *fsm.Application, compatible []bool, n *need) int {
	switch {
	case o.limit != none:
		return o.limit
	case !compatible[o.class]:
		return iRelease
	}
	if len(a.IncompatibleWorkers) > 0 {
		if _, bad := slices.BinarySearch(a.IncompatibleWorkers, o.w.ID); bad {
			return iIncompatible
		}
	}
	switch {
	case o.coresFree < n.cores:
		return iCores
	case o.memoryFree < n.memoryMB:
		return iMemory
	case len(n.resources) > 0 && !hasResources(o.w, n.resources, true):
		return iResources
	}
	return none
}

// hasResources tells whether the worker has the addresses, free ones only if so wanted.
func hasResources(w *fsm.Worker, needs []fsm.ResourceAmount, free bool) bool {
	count := func(list []fsm.Resource, name string) int {
		for _, r := range list {
			if r.Name == name {
				return len(r.Addresses)
			}
		}
		return 0
	}
	for _, r := range needs {
		n := count(w.Resources, r.Name)
		if free {
			n -= count(w.ResourcesUsed, r.Name)
		}
		if n < r.Amount {
			return false
		}
	}
	return true
}

// large tells whether the worker could take the executor if it were empty.
func (o *offer) large(n *need) bool {
	return o.cores >= n.cores && o.memory >= n.memoryMB && (len(n.resources) == 0 || hasResources(o.w, n.resources, false))
}

// WhyWaiting implements webui.Details. It explains the planner's own rules from the state as applied here; what only the
// leader knows of its workers is missing elsewhere.
func (b *Backend) WhyWaiting(appID string) (webui.WhyWaiting, bool) {
	view := b.node.View()
	a, ok := view.Application(appID)
	if !ok {
		return webui.WhyWaiting{}, false
	}
	return b.why(view, a, offersOf(view, b.master.Soft())), true
}

func (b *Backend) why(view fsm.View, a *fsm.Application, workers offers) webui.WhyWaiting {
	out := webui.WhyWaiting{AppID: a.ID, Name: a.Name, AppState: a.State.String(), CoresGranted: a.CoresGranted,
		MaxCores: unlimited(a.RequestedCores), Profiles: []webui.WhyProfile{}}
	if a.State.Finished() {
		out.Limit, out.Text = webui.LimitEnded, "it has ended, as "+out.AppState
		return out
	}
	position := 0
	view.WantingApplications(func(x *fsm.Application) bool {
		position++
		if x.ID == a.ID {
			out.QueuePosition, out.Waiting = position, true
		}
		return !out.Waiting
	})
	chosen := -1
	for i := range a.Profiles {
		p := b.whyProfile(a, &a.Profiles[i], workers)
		out.Profiles = append(out.Profiles, p)
		if chosen < 0 && p.Limit != webui.LimitTarget {
			chosen = i
		}
	}
	if chosen < 0 && len(out.Profiles) > 0 {
		chosen = 0
	}
	if chosen >= 0 {
		out.Limit, out.Text = out.Profiles[chosen].Limit, out.Profiles[chosen].Text
	}
	out.Next = nextOf(out.Limit)
	return out
}

// whyProfile explains one resource profile.
func (b *Backend) whyProfile(a *fsm.Application, p *fsm.ProfileState, workers offers) webui.WhyProfile {
	n := needOf(&p.Profile)
	out := webui.WhyProfile{ID: p.Profile.ID, Executors: p.Executors, Target: unlimited(p.Target), Cores: n.cores, MemoryMB: n.memoryMB,
		Resources: []webui.ResourceRequest{}, Workers: map[string]int{}}
	for _, r := range n.resources {
		out.Resources = append(out.Resources, webui.ResourceRequest{Name: r.Name, Amount: int64(r.Amount)})
	}
	switch {
	case p.Executors >= p.Target && p.Target == 0:
		out.Limit, out.Text = webui.LimitTarget, "it asks for no executor"
		return out
	case p.Executors >= p.Target:
		out.Limit, out.Text = webui.LimitTarget, fmt.Sprintf("it has the %s that it asks for", plural(p.Executors, "executor"))
		return out
	case a.CoresLeft() < n.cores:
		out.Limit = webui.LimitMaxCores
		out.Text = fmt.Sprintf("it holds %d of the %s that it may have, and another executor takes %s", a.CoresGranted,
			plural(a.RequestedCores, "core"), plural(n.cores, "core"))
		return out
	}
	if now := b.now().UnixMilli(); a.NotBeforeMillis > now {
		out.Limit, out.UntilMillis = webui.LimitBackOff, a.NotBeforeMillis
		out.Text = fmt.Sprintf("its executors fail soon after their start, %d in a row: the next one is started in %.1f s", a.LoopFailures,
			float64(a.NotBeforeMillis-now)/1000)
		return out
	}
	out.Limit, out.Text = judgeWorkers(workers, a, n, out.Workers)
	return out
}

// judgeWorkers counts the workers by what keeps them from taking an executor, and says it in words.
func judgeWorkers(workers offers, a *fsm.Application, n need, counts map[string]int) (limit, text string) {
	compatible := make([]bool, len(workers.classes))
	for i, w := range workers.classes {
		compatible[i] = master.Compatible(a, w)
	}
	var found [none + 1]int
	anyLarge := false
	for i := range workers.list {
		o := &workers.list[i]
		l := o.limitOf(a, compatible, &n)
		found[l]++
		anyLarge = anyLarge || (l >= iCores && l < none && o.large(&n))
	}
	if found[none] > 0 {
		counts[webui.LimitNone] = found[none]
	}
	limit = webui.LimitNoWorker
	var parts []string
	for i, l := range workerLimits {
		if found[i] > 0 {
			counts[l.limit], limit = found[i], l.limit
			parts = append(parts, fmt.Sprintf("%d %s", found[i], l.words))
		}
	}
	switch {
	case found[none] > 0:
		return webui.LimitNone, fmt.Sprintf("%s could take an executor of %s: it should get one in a moment", plural(found[none], "worker"), n)
	case len(workers.list) == 0:
		return webui.LimitNoWorker, "no worker is ALIVE"
	}
	slices.Reverse(parts)
	text = fmt.Sprintf("no worker can take an executor of %s: %s", n, strings.Join(parts, ", "))
	if found[iCores]+found[iMemory]+found[iResources] > 0 && !anyLarge {
		text += "; none is large enough even when it is empty"
	}
	return limit, text
}

func nextOf(limit string) string {
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
	}
	return ""
}

// unlimited turns Spark's way to say "no limit" into ours.
func unlimited(n int) int64 {
	if n >= fsm.UnlimitedExecutors {
		return webui.Unlimited
	}
	return int64(n)
}

// maxExplained bounds the applications that a list explains: each costs a look at every worker.
const maxExplained = 50

// Explain implements webui.Details: the same texts for the first applications that want executors.
func (b *Backend) Explain() map[string]string {
	view, out := b.node.View(), make(map[string]string)
	workers := offersOf(view, b.master.Soft())
	view.WantingApplications(func(a *fsm.Application) bool {
		for i := range a.Profiles {
			if p := b.whyProfile(a, &a.Profiles[i], workers); p.Limit != webui.LimitTarget {
				out[a.ID] = p.Text
				break
			}
		}
		return len(out) < maxExplained
	})
	return out
}
