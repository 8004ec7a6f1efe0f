package fsm_test

import (
	"fmt"
	"reflect"
	"strings"

	"raftmaster/fsm"
)

// Text forms for scripts.

func valueText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case fsm.RegisterWorkerResult:
		return strings.TrimSpace(v.Outcome.String() + " " + v.HolderID)
	case fsm.RegisterApplicationResult:
		return strings.TrimSpace(v.Outcome.String() + " " + v.AppID + " " + v.OldAppID)
	case fsm.PlaceResult:
		var lines []string
		for _, p := range v.Placed {
			lines = append(lines, fmt.Sprintf("placed %s on %s", p.Key, p.WorkerID))
		}
		for _, d := range v.Dropped {
			lines = append(lines, fmt.Sprintf("dropped %s on %s: %s", d.Placement.AppID, d.Placement.WorkerID, d.Reason))
		}
		return strings.Join(lines, "\n")
	case fsm.PlaceDriversResult:
		var lines []string
		for _, p := range v.Placed {
			lines = append(lines, fmt.Sprintf("placed %s on %s", p.DriverID, p.WorkerID))
		}
		for _, d := range v.Dropped {
			lines = append(lines, fmt.Sprintf("dropped %s on %s: %s", d.Placement.DriverID, d.Placement.WorkerID, d.Reason))
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprintf("%+v", value)
}

func textOr(p *string) string {
	if p == nil {
		return "-"
	}
	return *p
}

func numberOr(p *int) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

func gpus(resources []fsm.Resource) string {
	var out []string
	for _, r := range resources {
		out = append(out, " "+r.Name+"="+strings.Join(r.Addresses, ","))
	}
	return strings.Join(out, "")
}

func effectText(effect fsm.Effect) string {
	switch e := effect.(type) {
	case fsm.LaunchExecutor:
		return fmt.Sprintf("%s: LaunchExecutor %s/%d profile %d, %d cores, %d MB%s, payload %q", e.Worker.Address, e.AppID, e.ExecID,
			e.ProfileID, e.Cores, e.MemoryMB, gpus(e.Resources), e.Payload)
	case fsm.ExecutorAdded:
		return fmt.Sprintf("%s: ExecutorAdded %d on %s %s, %d cores, %d MB", e.Driver.Address, e.ExecID, e.WorkerID, e.HostPort,
			e.Cores, e.MemoryMB)
	case fsm.ExecutorUpdated:
		return fmt.Sprintf("%s: ExecutorUpdated %d %s message %q exit %s host %s", e.Driver.Address, e.ExecID, e.State,
			textOr(e.Message), numberOr(e.ExitStatus), textOr(e.WorkerHost))
	case fsm.KillExecutor:
		return fmt.Sprintf("%s: KillExecutor %s/%d", e.Worker.Address, e.AppID, e.ExecID)
	case fsm.WorkerRemoved:
		var drivers []string
		for _, d := range e.Drivers {
			drivers = append(drivers, d.Address.String())
		}
		return fmt.Sprintf("%s: WorkerRemoved %s on %s: %q", drivers, e.WorkerID, e.Host, e.Message)
	case fsm.ApplicationRemoved:
		return fmt.Sprintf("%s: ApplicationRemoved %s", e.Driver.Address, e.State)
	case fsm.ApplicationFinished:
		var workers []string
		for _, w := range e.Workers {
			workers = append(workers, w.ID+"@"+w.Address.String())
		}
		return fmt.Sprintf("%s: ApplicationFinished %s", workers, e.AppID)
	case fsm.DecommissionWorker:
		return fmt.Sprintf("%s: DecommissionWorker", e.Worker.Address)
	case fsm.LaunchDriver:
		return fmt.Sprintf("%s: LaunchDriver %s, %d cores, %d MB%s, payload %q", e.Worker.Address, e.DriverID, e.Cores, e.MemoryMB,
			gpus(e.Resources), e.Payload)
	case fsm.KillDriver:
		return fmt.Sprintf("%s: KillDriver %s", e.Worker.Address, e.DriverID)
	}
	return fmt.Sprintf("unknown effect %T", effect)
}

func dump(v fsm.View) string {
	var b strings.Builder
	v.Workers(func(w *fsm.Worker) bool {
		fmt.Fprintf(&b, "worker %s %s %s cores %d/%d memory %d/%d%s used%s", w.ID, w.Address, w.State, w.CoresUsed, w.Cores,
			w.MemoryUsedMB, w.MemoryMB, gpus(w.Resources), gpus(w.ResourcesUsed))
		if w.Draining {
			b.WriteString(" draining")
		}
		if w.DiedReason != "" {
			fmt.Fprintf(&b, " died at %d: %s", w.DiedAtMillis, w.DiedReason)
		}
		if w.Release != "" || w.Families != 0 {
			fmt.Fprintf(&b, " release %s families %#x", w.Release, w.Families)
		}
		b.WriteString("\n")
		return true
	})
	v.ActiveApplications(func(a *fsm.Application) bool { dumpApp(&b, v, a); return true })
	v.CompletedApplications(func(a *fsm.Application) bool { dumpApp(&b, v, a); return true })
	v.Drivers(func(d *fsm.Driver) bool { dumpDriver(&b, d); return true })
	v.CompletedDrivers(func(d *fsm.Driver) bool { dumpDriver(&b, d); return true })
	for _, l := range v.LeaderHistory() {
		fmt.Fprintf(&b, "leader %s at index %d: %s\n", l.NodeID, l.Index, l.Reason)
	}
	if v.ClusterID() != "" {
		fmt.Fprintf(&b, "cluster %s\n", v.ClusterID())
	}
	return b.String()
}

func dumpDriver(b *strings.Builder, d *fsm.Driver) {
	fmt.Fprintf(b, "%s %s", d.ID, d.State)
	if d.WorkerID != "" {
		fmt.Fprintf(b, " on %s %s%s", d.WorkerID, d.WorkerHostPort(), gpus(d.Resources))
	}
	for _, mark := range []struct {
		set  bool
		name string
	}{{d.Delivered, "delivered"}, {d.KillRequested, "kill requested"}, {d.Supervise, "supervised"}} {
		if mark.set {
			b.WriteString(" " + mark.name)
		}
	}
	if d.Predecessor != "" {
		fmt.Fprintf(b, " attempt %d after %s", d.Attempt, d.Predecessor)
	}
	if d.Successor != "" {
		fmt.Fprintf(b, " goes on as %s", d.Successor)
	}
	if d.NotBeforeMillis > 0 {
		fmt.Fprintf(b, " not before %d", d.NotBeforeMillis)
	}
	if d.State.Finished() {
		fmt.Fprintf(b, " ended at %d: %q %q", d.EndedAtMillis, d.Exception, d.EndReason)
	}
	b.WriteString("\n")
}

func dumpApp(b *strings.Builder, v fsm.View, a *fsm.Application) {
	fmt.Fprintf(b, "%s %s %s cores %d/%d retries %d next %d", a.ID, a.Driver, a.State, a.CoresGranted, a.RequestedCores,
		a.RetryCount, a.NextExecutorID)
	if a.NotBeforeMillis > 0 {
		fmt.Fprintf(b, " not before %d", a.NotBeforeMillis)
	}
	if a.Confirmed {
		b.WriteString(" confirmed")
	}
	if len(a.IncompatibleWorkers) > 0 {
		fmt.Fprintf(b, " incompatible %v", a.IncompatibleWorkers)
	}
	if a.Release != "" || a.Families != 0 {
		fmt.Fprintf(b, " release %s families %#x", a.Release, a.Families)
	}
	if a.EndReason != "" {
		fmt.Fprintf(b, " ended at %d: %s", a.EndMillis, a.EndReason)
	}
	b.WriteString("\n")
	for _, p := range a.Profiles {
		fmt.Fprintf(b, "  profile %d: cores %s memory %d resources %v: %d of %d executors\n", p.Profile.ID,
			numberOr(p.Profile.Cores), p.Profile.MemoryMB, p.Profile.Resources, p.Executors, p.Target)
	}
	v.ExecutorsOfApp(a.ID, func(e *fsm.Executor) bool {
		fmt.Fprintf(b, "  executor %d on %s %s profile %d: %d cores, %d MB%s", e.ID, e.WorkerID, e.State, e.ProfileID, e.Cores,
			e.MemoryMB, gpus(e.Resources))
		if e.Delivered {
			b.WriteString(" delivered")
		}
		b.WriteString("\n")
		return true
	})
	v.RemovedExecutors(a.ID, func(e *fsm.RemovedExecutor) bool {
		fmt.Fprintf(b, "  ended %d on %s %s exit %s: %q\n", e.ID, e.WorkerID, e.State, numberOr(e.ExitStatus), e.Message)
		return true
	})
}

// everything lists all entities of a state.
func everything(v fsm.View) []any {
	var out []any
	v.Workers(func(w *fsm.Worker) bool { out = append(out, w); return true })
	each := func(a *fsm.Application) bool {
		out = append(out, a)
		v.ExecutorsOfApp(a.ID, func(e *fsm.Executor) bool { out = append(out, e); return true })
		v.RemovedExecutors(a.ID, func(e *fsm.RemovedExecutor) bool { out = append(out, e); return true })
		return true
	}
	v.ActiveApplications(each)
	v.CompletedApplications(each)
	eachDriver := func(d *fsm.Driver) bool { out = append(out, d); return true }
	v.Drivers(eachDriver)
	v.CompletedDrivers(eachDriver)
	return append(out, v.LeaderHistory(), v.Settings(), v.ClusterID())
}

// exportAll lets go-cmp look at the entities' parts of the digest too.
func exportAll(reflect.Type) bool { return true }
