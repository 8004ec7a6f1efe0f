package admin

import (
	"fmt"

	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// WhyWaiting implements webui.Details. It explains the planner's own rules from the state as applied here; what only the
// leader knows of its workers is missing elsewhere.
func (b *Backend) WhyWaiting(id string) (webui.WhyWaiting, bool) {
	view := b.node.View()
	if a, ok := view.Application(id); ok {
		return b.whyApp(view, a, offersOf(view, b.master.Soft())), true
	}
	if d, ok := view.CurrentDriver(id); ok {
		out := b.whyDriver(view, d, offersOf(view, b.master.Soft()))
		out.AskedID = id
		return out, true
	}
	return webui.WhyWaiting{}, false
}

func (b *Backend) whyApp(view fsm.View, a *fsm.Application, workers offers) webui.WhyWaiting {
	out := webui.WhyWaiting{Kind: webui.KindApp, ID: a.ID, AskedID: a.ID, Name: a.Name, SubjectState: a.State.String(), CoresGranted: a.CoresGranted,
		MaxCores: unlimited(a.RequestedCores), Profiles: []webui.WhyProfile{}}
	if a.State.Finished() {
		out.Limit, out.Text = webui.LimitEnded, "it has ended, as "+out.SubjectState
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
	hopeless := false
	if chosen >= 0 {
		p := &out.Profiles[chosen]
		out.Limit, out.Text, hopeless = p.Limit, p.Text, p.Hopeless
	}
	out.Next = nextOf(out.Limit, hopeless)
	return out
}

// whyProfile explains one resource profile.
func (b *Backend) whyProfile(a *fsm.Application, p *fsm.ProfileState, workers offers) webui.WhyProfile {
	s := workers.executorOf(a, &p.Profile)
	out := webui.WhyProfile{ID: p.Profile.ID, Executors: p.Executors, Target: unlimited(p.Target), WhyNeed: s.need()}
	switch {
	case p.Executors >= p.Target && p.Target == 0:
		out.Limit, out.Text = webui.LimitTarget, "it asks for no executor"
		return out
	case p.Executors >= p.Target:
		out.Limit, out.Text = webui.LimitTarget, fmt.Sprintf("it has the %s that it asks for", plural(p.Executors, "executor"))
		return out
	case a.CoresLeft() < s.Cores:
		out.Limit = webui.LimitMaxCores
		out.Text = fmt.Sprintf("it holds %d of the %s that it may have, and another executor takes %s", a.CoresGranted,
			plural(a.RequestedCores, "core"), plural(s.Cores, "core"))
		return out
	}
	if now := b.now().UnixMilli(); a.NotBeforeMillis > now {
		out.Limit, out.UntilMillis = webui.LimitBackOff, a.NotBeforeMillis
		out.Text = fmt.Sprintf("its executors fail soon after their start, %d in a row: the next one is started in %.1f s", a.LoopFailures,
			float64(a.NotBeforeMillis-now)/1000)
		return out
	}
	workers.judge(s, &out.WhyNeed)
	return out
}

func (b *Backend) whyDriver(view fsm.View, d *fsm.Driver, workers offers) webui.WhyWaiting {
	out := webui.WhyWaiting{Kind: webui.KindDriver, ID: d.ID, AskedID: d.ID, Name: d.MainClass, SubjectState: d.State.String(),
		MaxCores: webui.Unlimited, Profiles: []webui.WhyProfile{}}
	var need webui.WhyNeed
	switch {
	case d.State == fsm.DriverStateSubmitted:
		position := 0
		view.WaitingDrivers(func(x *fsm.Driver) bool {
			position++
			out.Waiting = x.ID == d.ID
			return !out.Waiting
		})
		out.QueuePosition = position
		need = b.whyNoWorker(view, d, workers)
	case d.State.Finished():
		need = workers.driver(d).need()
		need.Limit, need.Text = webui.LimitEnded, "it has ended, as "+out.SubjectState
	default:
		need = workers.driver(d).need()
		need.Limit, need.Text = webui.LimitNone, "it runs on "+d.WorkerID
		if d.KillRequested {
			need.Text += ", which was asked to end it"
		}
	}
	out.Limit, out.Text, out.Next, out.Driver = need.Limit, need.Text, nextOf(need.Limit, need.Hopeless), &need
	return out
}

// whyNoWorker explains why a waiting driver has no worker.
func (b *Backend) whyNoWorker(view fsm.View, d *fsm.Driver, workers offers) webui.WhyNeed {
	s := workers.driver(d)
	out, now, running := s.need(), b.now().UnixMilli(), view.Totals().DriversRunning
	switch d.Hold(running, b.id.MaxDrivers, now) {
	case fsm.HeldForNow:
		out.Limit, out.UntilMillis = webui.LimitPause, d.NotBeforeMillis
		out.Text = fmt.Sprintf("it is not started before its pause is over, in %.1f s", float64(d.NotBeforeMillis-now)/1000)
		if d.Predecessor != "" {
			out.Text += fmt.Sprintf(" (relaunch %d, after %s)", d.Attempt, d.Predecessor)
		}
	case fsm.HeldByMaxDrivers:
		out.Limit = webui.LimitMaxDrivers
		out.Text = fmt.Sprintf("%d run of the %s that may at once (spark.deploy.maxDrivers)", running, plural(b.id.MaxDrivers, "driver"))
	default:
		workers.judge(s, &out)
	}
	return out
}

// unlimited turns Spark's way to say "no limit" into ours.
func unlimited(n int) int64 {
	if n >= fsm.UnlimitedExecutors {
		return webui.Unlimited
	}
	return int64(n)
}

// maxExplained bounds the applications, and the drivers, that a list explains: each costs a look at every worker.
const maxExplained = 50

// Explain implements webui.Details: the same texts for the first applications that want executors, and the first drivers
// that wait.
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
	n := 0
	view.WaitingDrivers(func(d *fsm.Driver) bool {
		out[d.ID] = b.whyNoWorker(view, d, workers).Text
		n++
		return n < maxExplained
	})
	return out
}
