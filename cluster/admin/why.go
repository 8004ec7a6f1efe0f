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

// limitOf tells what keeps a worker that is not DEAD from taking one executor now; LimitNone: nothing.
func limitOf(a *fsm.Application, w *fsm.Worker, n need, note string) string {
	switch {
	case w.State == fsm.WorkerDecommissioned:
		return webui.LimitDecommission
	case w.Draining:
		return webui.LimitDrain
	case note != "":
		return webui.LimitReconcile
	case !master.Compatible(a, w):
		return webui.LimitRelease
	}
	if _, bad := slices.BinarySearch(a.IncompatibleWorkers, w.ID); bad {
		return webui.LimitIncompatible
	}
	switch {
	case w.CoresFree() < n.cores:
		return webui.LimitCores
	case w.MemoryFreeMB() < n.memoryMB:
		return webui.LimitMemory
	case !hasResources(w, n.resources, true):
		return webui.LimitResources
	}
	return webui.LimitNone
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
func large(w *fsm.Worker, n need) bool {
	return w.Cores >= n.cores && w.MemoryMB >= n.memoryMB && hasResources(w, n.resources, false)
}

// WhyWaiting implements webui.Details. It explains the planner's own rules from the state as applied here; what only the
// leader knows of its workers is missing elsewhere.
func (b *Backend) WhyWaiting(appID string) (webui.WhyWaiting, bool) {
	view := b.node.View()
	a, ok := view.Application(appID)
	if !ok {
		return webui.WhyWaiting{}, false
	}
	return b.why(view, a, b.master.Soft()), true
}

func (b *Backend) why(view fsm.View, a *fsm.Application, soft Soft) webui.WhyWaiting {
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
		p := b.whyProfile(view, a, &a.Profiles[i], soft)
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
func (b *Backend) whyProfile(view fsm.View, a *fsm.Application, p *fsm.ProfileState, soft Soft) webui.WhyProfile {
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
	out.Limit, out.Text = judgeWorkers(view, a, n, soft, out.Workers)
	return out
}

// judgeWorkers counts the workers by what keeps them from taking an executor, and says it in words.
func judgeWorkers(view fsm.View, a *fsm.Application, n need, soft Soft, counts map[string]int) (limit, text string) {
	alive, suited, anyLarge := 0, 0, false
	view.Workers(func(w *fsm.Worker) bool {
		if !w.Live() {
			return true
		}
		l := limitOf(a, w, n, soft.WorkerNotes[w.ID])
		counts[l]++
		if w.State == fsm.WorkerAlive {
			alive++
		}
		if l == webui.LimitCores || l == webui.LimitMemory || l == webui.LimitResources {
			suited++
			anyLarge = anyLarge || large(w, n)
		}
		return true
	})
	if fit := counts[webui.LimitNone]; fit > 0 {
		return webui.LimitNone, fmt.Sprintf("%s could take an executor of %s: it should get one in a moment", plural(fit, "worker"), n)
	}
	if alive == 0 && counts[webui.LimitDecommission] == 0 {
		return webui.LimitNoWorker, "no worker is ALIVE"
	}
	limit = webui.LimitNoWorker
	var parts []string
	for _, l := range workerLimits {
		if c := counts[l.limit]; c > 0 {
			limit = l.limit
			parts = append(parts, fmt.Sprintf("%d %s", c, l.words))
		}
	}
	slices.Reverse(parts)
	text = fmt.Sprintf("no worker can take an executor of %s: %s", n, strings.Join(parts, ", "))
	if suited > 0 && !anyLarge {
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

// explain says for the first applications that want executors why they have got no more.
func (b *Backend) explain(view fsm.View, soft Soft) map[string]string {
	out := make(map[string]string)
	view.WantingApplications(func(a *fsm.Application) bool {
		for i := range a.Profiles {
			if p := b.whyProfile(view, a, &a.Profiles[i], soft); p.Limit != webui.LimitTarget {
				out[a.ID] = p.Text
				break
			}
		}
		return len(out) < maxExplained
	})
	return out
}
