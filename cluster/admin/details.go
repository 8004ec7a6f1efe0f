package admin

import (
	"cmp"
	"slices"

	"raftmaster/cluster/master"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// App implements webui.Details.
func (b *Backend) App(id string) (webui.AppDetail, bool) {
	view := b.node.View()
	a, ok := view.Application(id)
	if !ok {
		return webui.AppDetail{}, false
	}
	out := webui.AppDetail{App: b.app(a), Executors: notNil(b.Executors(id)), Removed: []webui.RemovedExecutor{},
		RemovedTotal: int64(a.RemovedNext), CoreLimit: unlimited(a.RequestedCores), CoresLeft: webui.Unlimited}
	if out.CoreLimit != webui.Unlimited {
		out.CoresLeft = max(0, out.CoreLimit-int64(a.CoresGranted))
	}
	for i := range a.Profiles {
		target := unlimited(a.Profiles[i].Target)
		if target == webui.Unlimited {
			out.ExecutorLimit = webui.Unlimited
			break
		}
		out.ExecutorLimit += target
	}
	view.RemovedExecutors(id, func(e *fsm.RemovedExecutor) bool {
		out.Removed = append(out.Removed, webui.RemovedExecutor{ID: e.ID, WorkerID: e.WorkerID, WorkerWebURL: e.WorkerWebUIURL,
			State: e.State.String(), Cores: e.Cores, MemoryMB: e.MemoryMB, ProfileID: e.ProfileID, StartMillis: e.LaunchedAtMillis,
			EndMillis: e.EndedAtMillis, Message: e.Message, ExitStatus: e.ExitStatus})
		return true
	})
	return out, true
}

// Driver implements webui.Details.
func (b *Backend) Driver(id string) (webui.Driver, bool) {
	view := b.node.View()
	d, ok := view.Driver(id)
	if !ok {
		if d, ok = view.DriverByOrigin(id); !ok {
			return webui.Driver{}, false
		}
	}
	return b.driver(d), true
}

// Incompatible implements webui.Details. Which drivers never started somewhere, a leader knows of its own term only.
func (b *Backend) Incompatible() []webui.IncompatiblePair {
	return b.incompatible(b.node.View(), "", "")
}

// incompatible lists pairs of one worker, or all with workerID ""; and of one application, or of all and drivers.
func (b *Backend) incompatible(view fsm.View, workerID, appID string) []webui.IncompatiblePair {
	out := []webui.IncompatiblePair{}
	add := func(id string, pair webui.IncompatiblePair) {
		if workerID != "" && id != workerID {
			return
		}
		pair.WorkerID = id
		if w, ok := view.Worker(id); ok {
			pair.Worker, pair.SparkVersion, pair.Family = w.HostPort(), w.Release, b.families(w.Families)
		}
		out = append(out, pair)
	}
	view.ActiveApplications(func(a *fsm.Application) bool {
		for _, id := range a.IncompatibleWorkers {
			if appID == "" || appID == a.ID {
				add(id, webui.IncompatiblePair{Kind: webui.KindApp, AppID: a.ID, AppName: a.Name})
			}
		}
		return true
	})
	if appID == "" {
		for id, families := range b.master.Soft().UnreadableDrivers {
			for _, mask := range families {
				add(id, webui.IncompatiblePair{Kind: webui.KindDriver, DriverFamily: b.families(mask)})
			}
		}
	}
	slices.SortStableFunc(out, func(x, y webui.IncompatiblePair) int {
		return cmp.Or(cmp.Compare(x.WorkerID, y.WorkerID), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.AppID, y.AppID),
			cmp.Compare(x.DriverFamily, y.DriverFamily))
	})
	return out
}

// PeerUI implements webui.Details: a worker that is not DEAD, or an application that has not ended.
func (b *Backend) PeerUI(id string) (address string, ok bool) {
	view := b.node.View()
	if w, ok := view.Worker(id); ok && w.Live() {
		return w.WebUIURL, true
	}
	if a, ok := view.Application(id); ok && !a.State.Finished() {
		return a.UIURL, true
	}
	return "", false
}

func (b *Backend) driver(d *fsm.Driver) webui.Driver {
	out := webui.Driver{
		ID: d.ID, State: d.State.String(), Active: !d.State.Finished(), Waiting: d.State == fsm.DriverStateSubmitted, Supervise: d.Supervise,
		Cores: d.Cores, MemoryMB: d.MemoryMB, MainClass: d.MainClass, JarURL: master.ShownURL(d.JarURL), SubmittedMillis: d.SubmittedAtMillis,
		LaunchedMillis: d.LaunchedAtMillis, EndedMillis: d.EndedAtMillis, NotBeforeMillis: d.NotBeforeMillis,
		WorkerID: d.WorkerID, Worker: d.WorkerHostPort(), WorkerWebURL: d.WorkerWebUIURL, KillRequested: d.KillRequested,
		LaunchUnconfirmed: d.State == fsm.DriverStateRunning && !d.Delivered, Attempt: d.Attempt, Predecessor: d.Predecessor, Successor: d.Successor, Exception: d.Exception,
		SparkVersion: d.Release, Family: b.families(d.Families), Resources: []webui.Resource{}, Requests: []webui.ResourceRequest{},
	}
	if out.Exception == "" {
		out.Exception = d.EndReason
	}
	for _, r := range d.Resources {
		out.Resources = append(out.Resources, webui.Resource{Name: r.Name, Addresses: notNil(r.Addresses), UsedAddresses: notNil(r.Addresses)})
	}
	for _, r := range d.ResourceReqs {
		out.Requests = append(out.Requests, webui.ResourceRequest{Name: r.Name, Amount: int64(r.Amount)})
	}
	return out
}
