package admin

import (
	"sort"

	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// completed stands for all final states together.
const completed = "COMPLETED"

// counts sums up the view; O(1), see fsm.View.Totals.
func counts(v fsm.View) webui.Counts {
	t := v.Totals()
	return webui.Counts{
		DriversByState: map[string]int{
			fsm.DriverStateSubmitted.String(): t.DriversWaiting,
			fsm.DriverStateRunning.String():   t.DriversRunning,
			completed:                         t.DriversCompleted,
		},
		WaitingDrivers: t.DriversWaiting,
		WorkersByState: map[string]int{
			fsm.WorkerAlive.String():          t.Workers.Alive,
			fsm.WorkerDead.String():           t.Workers.Dead,
			fsm.WorkerDecommissioned.String(): t.Workers.Decommissioned,
		},
		AppsByState: map[string]int{
			fsm.AppWaiting.String(): t.AppsWaiting,
			fsm.AppRunning.String(): t.AppsRunning,
			completed:               t.AppsCompleted,
		},
		Executors: t.ExecutorsLaunching + t.ExecutorsRunning + t.ExecutorsDecommissioned,
		Cores:     t.Cores, CoresUsed: t.CoresUsed, MemoryMB: t.MemoryMB, MemoryUsedMB: t.MemoryUsedMB,
	}
}

// Cluster implements webui.State: workers by id, applications and drivers in queue order and then completed ones, oldest
// first.
func (b *Backend) Cluster() webui.Cluster {
	view, soft := b.node.View(), b.master.Soft()
	var c webui.Cluster
	view.Workers(func(w *fsm.Worker) bool {
		c.Workers = append(c.Workers, b.worker(w, soft))
		return true
	})
	view.ActiveApplications(func(a *fsm.Application) bool {
		c.Apps = append(c.Apps, b.app(a))
		return true
	})
	view.CompletedApplications(func(a *fsm.Application) bool {
		c.Apps = append(c.Apps, b.app(a))
		return true
	})
	add := func(d *fsm.Driver) bool {
		c.Drivers = append(c.Drivers, b.driver(d))
		return true
	}
	view.Drivers(add)
	view.CompletedDrivers(add)
	return c
}

func (b *Backend) worker(w *fsm.Worker, soft Soft) webui.Worker {
	out := webui.Worker{
		ID: w.ID, Host: w.Host, Port: w.Port, WebURL: w.WebUIURL, State: w.State.String(),
		Cores: w.Cores, CoresUsed: w.CoresUsed, MemoryMB: w.MemoryMB, MemoryUsedMB: w.MemoryUsedMB,
		Executors: w.ExecutorCount, Drivers: w.DriverCount, Draining: w.Draining, LastHeartbeatMillis: soft.HeartbeatMillis[w.ID], RegisteredMillis: w.RegisteredAtMillis,
		SparkVersion: w.Release, Family: b.families(w.Families), Note: soft.WorkerNotes[w.ID],
		Resources: make([]webui.Resource, 0, len(w.Resources)),
	}
	if w.State == fsm.WorkerDead && out.Note == "" {
		out.Note = w.DiedReason
	}
	for _, r := range w.Resources {
		res := webui.Resource{Name: r.Name, Addresses: notNil(r.Addresses), UsedAddresses: []string{}}
		for _, u := range w.ResourcesUsed {
			if u.Name == r.Name {
				res.UsedAddresses = notNil(u.Addresses)
			}
		}
		out.Resources = append(out.Resources, res)
	}
	return out
}

func (b *Backend) app(a *fsm.Application) webui.App {
	out := webui.App{
		ID: a.ID, Name: a.Name, User: a.User, State: a.State.String(), Active: !a.State.Finished(),
		Cores: a.CoresGranted, Executors: a.ExecutorCount, UIURL: a.UIURL, DriverAddress: a.Driver.String(),
		StartMillis: a.StartMillis, EndMillis: a.EndMillis, SparkVersion: a.Release, Family: b.families(a.Families),
		EndReason: a.EndReason, Resources: []webui.ResourceRequest{},
	}
	if a.MaxCores != nil {
		out.MaxCores = *a.MaxCores
	}
	for _, p := range a.Profiles {
		if p.Profile.ID != fsm.DefaultProfileID {
			continue
		}
		out.MemoryPerExecutorMB = p.Profile.MemoryMB
		if p.Profile.Cores != nil {
			out.CoresPerExecutor = *p.Profile.Cores
		}
		for _, r := range p.Profile.Resources {
			out.Resources = append(out.Resources, webui.ResourceRequest{Name: r.Name, Amount: int64(r.Amount)})
		}
	}
	return out
}

// Executors implements webui.State.
func (b *Backend) Executors(appID string) []webui.Executor {
	view := b.node.View()
	var out []webui.Executor
	visit := func(e *fsm.Executor) bool {
		x := webui.Executor{AppID: e.AppID, ID: e.ID, WorkerID: e.WorkerID, State: e.State.String(), Cores: e.Cores,
			MemoryMB: e.MemoryMB, ProfileID: e.ProfileID, StartMillis: e.LaunchedAtMillis}
		if w, ok := view.Worker(e.WorkerID); ok {
			x.Worker = w.HostPort()
		}
		out = append(out, x)
		return true
	}
	if appID != "" {
		view.ExecutorsOfApp(appID, visit)
		return out
	}
	// An application that has ended may still have executors booked on a worker, so the workers are what is walked.
	view.Workers(func(w *fsm.Worker) bool {
		view.ExecutorsOfWorker(w.ID, visit)
		return true
	})
	sort.Slice(out, func(i, j int) bool {
		if out[i].AppID != out[j].AppID {
			return out[i].AppID < out[j].AppID
		}
		return out[i].ID < out[j].ID
	})
	return out
}

func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
