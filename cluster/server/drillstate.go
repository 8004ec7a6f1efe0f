package server

import (
	"fmt"
	"strings"
	"sync"

	"raftmaster/cluster/node"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

const (
	// maxJournal bounds the entries that a master remembers for drills, maxSubjects the ids of one entry.
	maxJournal  = 16384
	maxSubjects = 1024
	// maxEntryDetail bounds the text of one entry.
	maxEntryDetail = 256
)

// drillJournal remembers what the last entries of the log were. The zero value is ready.
type drillJournal struct {
	mu      sync.Mutex
	from    uint64 // all commands with a higher index are in entries, up to to
	to      uint64
	known   bool
	entries []webui.DrillEntry
}

// add notes what was applied. It is called on the goroutine of the state machine.
func (j *drillJournal) add(batch []node.Applied) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range batch {
		a := &batch[i]
		if !j.known || a.Index <= j.to {
			j.known, j.from, j.entries = true, a.Index-1, nil
		}
		j.to = a.Index
		if e, ok := drillEntry(a); ok {
			j.entries = append(j.entries, e)
		}
	}
	if n := len(j.entries); n > 2*maxJournal {
		cut := n - maxJournal
		j.from = j.entries[cut-1].Index
		j.entries = append([]webui.DrillEntry(nil), j.entries[cut:]...)
	}
}

// restored forgets everything: a snapshot has taken the place of entries that were never seen here.
func (j *drillJournal) restored() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known, j.from, j.to, j.entries = false, 0, 0, nil
}

// since gives up to limit entries behind an index, and the range that they are complete for.
func (j *drillJournal) since(after uint64, limit int) (from, to uint64, out []webui.DrillEntry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, to = max(j.from, after), j.to
	for i := range j.entries {
		e := j.entries[i]
		if e.Index <= after {
			continue
		}
		if len(out) == limit {
			return from, out[limit-1].Index, out
		}
		out = append(out, e)
	}
	return from, max(from, to), out
}

// DrillLog implements webui.Drills.
func (d *drills) DrillLog(after uint64, limit int) webui.DrillLog {
	from, to, entries := d.journal.since(after, limit)
	return webui.DrillLog{From: from, To: to, Entries: entries}
}

// unremarkable commands change nothing that a drill compares, and there are many of them.
var unremarkable = map[string]bool{"LaunchReceipts": true, "CheckDigest": true, "ConfirmApplication": true, "SetRelease": true, "StageRestore": true}

// drillEntry says what a command was about; false for those that change nothing that a drill compares.
func drillEntry(a *node.Applied) (webui.DrillEntry, bool) {
	h := a.Cmd.Header()
	e := webui.DrillEntry{Index: a.Index, Term: a.Term, TimeMillis: h.NowMillis, Command: a.Cmd.Type().String(), Subjects: []string{}}
	switch {
	case unremarkable[e.Command]:
		return e, false
	case describeWorker(&e, a) || describeApp(&e, a) || describeDriver(&e, a):
	case e.Command == "CommitRestore":
		say(&e, webui.DrillCauseOperator, "the whole state was restored from a snapshot")
	default:
		say(&e, webui.DrillCauseMaster, "")
	}
	if a.Result.Err != nil {
		e.Detail = "refused: " + a.Result.Err.Error()
		e.Subjects = []string{}
	}
	e.Subjects = e.Subjects[:min(len(e.Subjects), maxSubjects)]
	if len(e.Detail) > maxEntryDetail {
		e.Detail = e.Detail[:maxEntryDetail]
	}
	e.Detail = strings.ToValidUTF8(e.Detail, "?")
	return e, true
}

func say(e *webui.DrillEntry, cause, detail string, subjects ...string) bool {
	e.Cause, e.Detail = cause, detail
	e.Subjects = append(e.Subjects, subjects...)
	return true
}

func keys(list []fsm.ExecutorKey) []string {
	out := make([]string, len(list))
	for i, k := range list {
		out[i] = k.String()
	}
	return out
}

func describeWorker(e *webui.DrillEntry, a *node.Applied) bool {
	switch c := a.Cmd.(type) {
	case fsm.RegisterWorker:
		detail := ""
		if r, ok := a.Result.Value.(fsm.RegisterWorkerResult); ok {
			detail = r.Outcome.String()
			if r.HolderID != "" {
				say(e, "", "", r.HolderID)
			}
		}
		return say(e, webui.DrillCauseWorker, detail, c.ID)
	case fsm.RemoveWorker:
		return say(e, webui.DrillCauseMaster, c.Reason, c.ID)
	case fsm.ReapWorkers:
		return say(e, webui.DrillCauseMaster, "forgotten", c.IDs...)
	case fsm.ReconcileWorker:
		detail := fmt.Sprintf("%d executors and %d drivers are not on the list of worker %s", len(c.Missing), len(c.MissingDrivers), c.WorkerID)
		return say(e, webui.DrillCauseMaster, detail, append(append([]string{c.WorkerID}, keys(c.Missing)...), c.MissingDrivers...)...)
	case fsm.DecommissionWorkers:
		return say(e, webui.DrillCauseOperator, "decommissioned", c.IDs...)
	case fsm.DrainWorkers:
		return say(e, webui.DrillCauseOperator, fmt.Sprintf("draining: %t", c.On), c.IDs...)
	case fsm.LeaderElected:
		return say(e, webui.DrillCauseMaster, c.Reason, c.NodeID)
	case fsm.ClearCompleted:
		return say(e, webui.DrillCauseOperator, "")
	}
	return false
}

func describeApp(e *webui.DrillEntry, a *node.Applied) bool {
	switch c := a.Cmd.(type) {
	case fsm.RegisterApplication:
		if r, ok := a.Result.Value.(fsm.RegisterApplicationResult); ok {
			say(e, "", "", r.AppID)
			if r.OldAppID != "" {
				say(e, "", "", r.OldAppID)
			}
		}
		return say(e, webui.DrillCauseApp, c.Name)
	case fsm.FinishApplication:
		cause := map[fsm.AppState]string{fsm.AppFinished: webui.DrillCauseApp, fsm.AppKilled: webui.DrillCauseOperator}[c.State]
		if cause == "" {
			cause = webui.DrillCauseMaster
		}
		return say(e, cause, c.State.String()+": "+c.Reason, c.AppID)
	case fsm.PlaceExecutors:
		return say(e, webui.DrillCauseMaster, fmt.Sprintf("%d placements", len(c.Placements)))
	case fsm.ExecutorChanged:
		detail := c.State.String()
		if c.Message != nil {
			detail += ": " + *c.Message
		}
		return say(e, webui.DrillCauseWorker, detail, fsm.ExecutorKey{AppID: c.AppID, ExecID: c.ExecID}.String())
	case fsm.SetTargets:
		return say(e, webui.DrillCauseApp, "", c.AppID)
	case fsm.KillExecutors:
		for _, id := range c.IDs {
			say(e, "", "", fsm.ExecutorKey{AppID: c.AppID, ExecID: id}.String())
		}
		return say(e, webui.DrillCauseApp, "")
	case fsm.MarkIncompatible:
		return say(e, webui.DrillCauseMaster, c.Reason, fsm.ExecutorKey{AppID: c.AppID, ExecID: c.ExecID}.String())
	}
	return false
}

func describeDriver(e *webui.DrillEntry, a *node.Applied) bool {
	switch c := a.Cmd.(type) {
	case fsm.SubmitDriver:
		if r, ok := a.Result.Value.(fsm.DriverSubmitted); ok {
			say(e, "", "", r.ID)
		}
		return say(e, webui.DrillCauseOperator, c.MainClass)
	case fsm.RequestKillDriver:
		return say(e, webui.DrillCauseOperator, "", c.DriverID)
	case fsm.KillAllDrivers:
		return say(e, webui.DrillCauseOperator, "all drivers")
	case fsm.DriverChanged:
		return say(e, webui.DrillCauseWorker, c.State.String()+": "+c.Exception, c.DriverID)
	case fsm.PlaceDrivers:
		for _, p := range c.Placements {
			say(e, "", "", p.DriverID)
		}
		return say(e, webui.DrillCauseMaster, "placed")
	}
	return false
}

// DrillState implements webui.Drills.
func (d *drills) DrillState() webui.DrillState { return drillState(d.view()) }

// drillState is what a drill compares. Unfinished things only: what has ended does not change any more.
func drillState(view fsm.View) webui.DrillState {
	st := webui.DrillState{StateIndex: view.Index(), StateDigest: view.Digest().String()}
	st.NextApp, st.NextDriver = view.Counters()
	view.Workers(func(w *fsm.Worker) bool {
		st.Workers = append(st.Workers, webui.DrillWorker{ID: w.ID, Address: w.HostPort(), State: w.State.String(), Cores: w.Cores, CoresUsed: w.CoresUsed,
			MemoryMB: w.MemoryMB, MemoryUsedMB: w.MemoryUsedMB, Decommissioned: w.Decommissioned, Draining: w.Draining})
		return true
	})
	view.ActiveApplications(func(a *fsm.Application) bool {
		app := webui.DrillApp{ID: a.ID, Number: a.Number, Name: a.Name, State: a.State.String(), Driver: a.Driver.String(), Cores: a.CoresGranted,
			MaxCores: orUnlimited(a.RequestedCores), Executors: a.ExecutorCount, NextExecutor: a.NextExecutorID, Targets: []webui.DrillTarget{}}
		for i := range a.Profiles {
			app.Targets = append(app.Targets, webui.DrillTarget{Profile: a.Profiles[i].Profile.ID, Target: orUnlimited(a.Profiles[i].Target)})
		}
		st.Apps = append(st.Apps, app)
		view.ExecutorsOfApp(a.ID, func(e *fsm.Executor) bool {
			st.Executors = append(st.Executors, webui.DrillExecutor{AppID: e.AppID, ID: e.ID, WorkerID: e.WorkerID, State: e.State.String(),
				Cores: e.Cores, MemoryMB: e.MemoryMB, LaunchedMillis: e.LaunchedAtMillis})
			return true
		})
		return true
	})
	view.Drivers(func(d *fsm.Driver) bool {
		st.Drivers = append(st.Drivers, webui.DrillDriver{ID: d.ID, Number: d.Number, State: d.State.String(), WorkerID: d.WorkerID, Cores: d.Cores,
			MemoryMB: d.MemoryMB, Supervise: d.Supervise, KillRequested: d.KillRequested})
		return true
	})
	return st
}

func orUnlimited(n int) int64 {
	if n >= fsm.UnlimitedCores {
		return webui.Unlimited
	}
	return int64(n)
}
