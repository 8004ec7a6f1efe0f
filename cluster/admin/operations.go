package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"raftmaster/cluster/master"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// Operator makes an operator's changes: the leader service (*master.Service). A master that does not lead answers
// *master.NotLeaderError.
type Operator interface {
	KillApplication(ctx context.Context, id string) (found bool, err error)
	KillDriver(ctx context.Context, id string) (master.DriverKill, error)
	DecommissionHosts(ctx context.Context, hosts []string) (n int, err error)
	DecommissionWorkers(ctx context.Context, ids []string) (n int, err error)
	DrainWorkers(ctx context.Context, ids []string, on, idleOnly bool) (n int, err error)
	ClearCompleted(ctx context.Context) error
	UnmarkIncompatible(ctx context.Context, workerID, appID string) (n int, err error)
}

// Operations implements webui.Operations. What is meant is looked up and judged here, so that a dry run and a real one
// refuse the same things; the leader service has the last word.
type Operations struct {
	b  *Backend
	op Operator
	// decommission: spark.decommission.enabled.
	decommission bool
}

// Operations makes the changes of op available. decommission is spark.decommission.enabled.
func (b *Backend) Operations(op Operator, decommission bool) *Operations {
	return &Operations{b: b, op: op, decommission: decommission}
}

// mayStillHappen is said when the outcome is open.
const mayStillHappen = "; it may still take effect: look before you try again"

// operationFailed gives an error of the leader service its code.
func (o *Operations) operationFailed(what string, err error) error {
	var notLeader *master.NotLeaderError
	var off *master.DecommissionOffError
	switch {
	case errors.As(err, &notLeader):
		if l := o.b.leader(o.b.node.Status()); l != nil {
			return &webui.Error{Code: webui.CodeNotLeader, Leader: l, Message: "this master is not the leader; the leader is " + l.Address}
		}
		return failure(webui.CodeNoLeader, "there is no leader to %s", what)
	case errors.As(err, &off):
		return failure(webui.CodeRefused, "%v", err)
	case errors.Is(err, master.ErrUnknownOutcome):
		return failure(webui.CodeTimeout, "%s: %v", what, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failure(webui.CodeTimeout, "%s: not committed in time%s", what, mayStillHappen)
	}
	return failure(webui.CodeInternal, "%s: %v", what, err)
}

// Kill implements webui.Operations.
func (o *Operations) Kill(ctx context.Context, req webui.KillRequest) (webui.Kill, error) {
	if req.ID == "" || (req.Kind != webui.KindApp && req.Kind != webui.KindDriver) {
		return webui.Kill{}, failure(webui.CodeBadRequest, "name what to kill: kind app or driver, and its id")
	}
	if _, err := o.b.writable("kill anything"); err != nil {
		return webui.Kill{}, err
	}
	if req.Kind == webui.KindApp {
		return o.killApp(ctx, req)
	}
	return o.killDriver(ctx, req)
}

func (o *Operations) killApp(ctx context.Context, req webui.KillRequest) (webui.Kill, error) {
	a, ok := o.b.node.View().Application(req.ID)
	if !ok {
		return webui.Kill{}, failure(webui.CodeNotFound, "no application has the id %q", req.ID)
	}
	out := webui.Kill{Kind: req.Kind, ID: a.ID, Name: a.Name, State: a.State.String(), DryRun: req.DryRun}
	if a.State.Finished() {
		out.Already, out.Message = true, "application "+a.ID+" has ended already, as "+out.State
		return out, nil
	}
	out.Executors, out.Cores = a.ExecutorCount, a.CoresGranted
	if req.DryRun {
		return out, nil
	}
	found, err := o.op.KillApplication(ctx, req.ID)
	if err != nil {
		return webui.Kill{}, o.operationFailed("kill application "+req.ID, err)
	}
	out.Done, out.Already = found, !found
	out.Message = "application " + a.ID + " was killed"
	if !found {
		out.Message = "application " + a.ID + " ended by itself in the meantime"
	}
	return out, nil
}

func (o *Operations) killDriver(ctx context.Context, req webui.KillRequest) (webui.Kill, error) {
	d, ok := o.b.node.View().Driver(req.ID)
	if !ok {
		if d, ok = o.b.node.View().CurrentDriver(req.ID); !ok {
			return webui.Kill{}, failure(webui.CodeNotFound, "no driver has the id %q", req.ID)
		}
	}
	out := webui.Kill{Kind: req.Kind, ID: d.ID, Name: d.MainClass, State: d.State.String(), DryRun: req.DryRun}
	if d.State.Finished() && d.Successor == "" {
		out.Already, out.Message = true, "driver "+d.ID+" has ended already, as "+out.State
		return out, nil
	}
	out.Cores = d.Cores
	if req.DryRun {
		return out, nil
	}
	answer, err := o.op.KillDriver(ctx, req.ID)
	if err != nil {
		return webui.Kill{}, o.operationFailed("kill driver "+req.ID, err)
	}
	out.Message, out.Already = answer.Message, !answer.Success
	if after, ok := o.b.node.View().CurrentDriver(d.ID); ok && answer.Success {
		out.Done = after.State.Finished()
	}
	return out, nil
}

// Decommission implements webui.Operations.
func (o *Operations) Decommission(ctx context.Context, req webui.DecommissionRequest) (webui.WorkerChange, error) {
	if (req.Worker == "") == (len(req.Hosts) == 0) {
		return webui.WorkerChange{}, failure(webui.CodeBadRequest, "name a worker, or hosts")
	}
	if _, err := o.b.writable("decommission workers"); err != nil {
		return webui.WorkerChange{}, err
	}
	if !o.decommission {
		return webui.WorkerChange{}, failure(webui.CodeRefused, "%v", &master.DecommissionOffError{})
	}
	workers, err := o.meant(req)
	if err != nil {
		return webui.WorkerChange{}, err
	}
	out := webui.WorkerChange{Workers: o.views(workers), DryRun: req.DryRun}
	for _, w := range workers {
		if w.State == fsm.WorkerAlive {
			out.Changed++
		}
	}
	if req.DryRun {
		return out, nil
	}
	var n int
	if req.Worker != "" {
		n, err = o.op.DecommissionWorkers(ctx, []string{workers[0].ID})
	} else {
		n, err = o.op.DecommissionHosts(ctx, req.Hosts)
	}
	if err != nil {
		return webui.WorkerChange{}, o.operationFailed("decommission", err)
	}
	if n == 0 {
		return webui.WorkerChange{}, failure(webui.CodeNotFound, "no live worker matches any more: nothing was changed")
	}
	return out, nil
}

// meant finds the live workers of a request.
func (o *Operations) meant(req webui.DecommissionRequest) ([]*fsm.Worker, error) {
	view := o.b.node.View()
	if req.Worker != "" {
		w, err := findWorker(view, req.Worker)
		if err != nil {
			return nil, err
		}
		if !w.Live() {
			return nil, failure(webui.CodeRefused, "worker %s is %s", w.ID, w.State)
		}
		return []*fsm.Worker{w}, nil
	}
	var out []*fsm.Worker
	seen := map[string]bool{}
	for _, host := range req.Hosts {
		view.WorkersByHost(host, func(w *fsm.Worker) bool {
			if !seen[w.ID] {
				seen[w.ID] = true
				out = append(out, w)
			}
			return true
		})
	}
	if len(out) == 0 {
		return nil, failure(webui.CodeNotFound, "no live worker is on %s", strings.Join(req.Hosts, ", "))
	}
	return out, nil
}

// Drain implements webui.Operations.
func (o *Operations) Drain(ctx context.Context, req webui.DrainRequest) (webui.WorkerChange, error) {
	if req.Worker == "" || (req.IdleOnly && !req.On) {
		return webui.WorkerChange{}, failure(webui.CodeBadRequest, "name a worker; idle_only goes with draining alone")
	}
	if _, err := o.b.writable("drain workers"); err != nil {
		return webui.WorkerChange{}, err
	}
	w, err := findWorker(o.b.node.View(), req.Worker)
	if err != nil {
		return webui.WorkerChange{}, err
	}
	switch {
	case !w.Live():
		return webui.WorkerChange{}, failure(webui.CodeRefused, "worker %s is %s", w.ID, w.State)
	case req.IdleOnly && w.ExecutorCount+w.DriverCount > 0: // drained already or not: who asks wants to stop it
		return webui.WorkerChange{}, notIdle(w)
	}
	out := webui.WorkerChange{Workers: o.views([]*fsm.Worker{w}), DryRun: req.DryRun}
	if w.Draining != req.On {
		out.Changed = 1
	}
	if req.DryRun {
		return out, nil
	}
	n, err := o.op.DrainWorkers(ctx, []string{w.ID}, req.On, req.IdleOnly)
	if err != nil {
		return webui.WorkerChange{}, o.operationFailed("drain worker "+w.ID, err)
	}
	if n == 0 {
		if now, ok := o.b.node.View().Worker(w.ID); ok && req.IdleOnly && now.Live() {
			return webui.WorkerChange{}, notIdle(now)
		}
		return webui.WorkerChange{}, failure(webui.CodeNotFound, "worker %s is gone: nothing was changed", w.ID)
	}
	return out, nil
}

func notIdle(w *fsm.Worker) error {
	return failure(webui.CodeRefused, "worker %s is not idle: it holds %s and %s; nothing was changed", w.ID,
		plural(w.ExecutorCount, "executor"), plural(w.DriverCount, "driver"))
}

// ClearCompleted implements webui.Operations.
func (o *Operations) ClearCompleted(ctx context.Context, req webui.ClearRequest) (webui.Clear, error) {
	if _, err := o.b.writable("clear anything"); err != nil {
		return webui.Clear{}, err
	}
	t := o.b.node.View().Totals()
	out := webui.Clear{Apps: t.AppsCompleted, Drivers: t.DriversCompleted, DryRun: req.DryRun}
	if req.DryRun {
		return out, nil
	}
	if err := o.op.ClearCompleted(ctx); err != nil {
		return webui.Clear{}, o.operationFailed("clear the completed applications and drivers", err)
	}
	return out, nil
}

// ClearIncompatible implements webui.Operations. The worker may be gone: what is said of it goes by its id.
func (o *Operations) ClearIncompatible(ctx context.Context, req webui.ClearIncompatibleRequest) (webui.ClearIncompatible, error) {
	if req.Worker == "" {
		return webui.ClearIncompatible{}, failure(webui.CodeBadRequest, "name a worker")
	}
	if _, err := o.b.writable("change what workers are given"); err != nil {
		return webui.ClearIncompatible{}, err
	}
	view := o.b.node.View()
	id := req.Worker
	out := webui.ClearIncompatible{DryRun: req.DryRun}
	if out.Pairs = o.b.incompatible(view, id, req.AppID); len(out.Pairs) == 0 {
		w, err := findWorker(view, req.Worker)
		if err != nil {
			return webui.ClearIncompatible{}, err
		}
		id = w.ID
		out.Pairs = o.b.incompatible(view, id, req.AppID)
	}
	if out.WorkerID = id; req.AppID != "" {
		if _, ok := view.Application(req.AppID); !ok {
			return webui.ClearIncompatible{}, failure(webui.CodeNotFound, "no application has the id %q", req.AppID)
		}
	}
	if req.DryRun || len(out.Pairs) == 0 {
		return out, nil
	}
	if _, err := o.op.UnmarkIncompatible(ctx, id, req.AppID); err != nil {
		return webui.ClearIncompatible{}, o.operationFailed("clear what never came up on worker "+id, err)
	}
	return out, nil
}

func (o *Operations) views(workers []*fsm.Worker) []webui.Worker {
	soft := o.b.master.Soft()
	out := make([]webui.Worker, 0, len(workers))
	for _, w := range workers {
		out = append(out, o.b.worker(w, soft))
	}
	return out
}

// maxNamed bounds the workers that a message names.
const maxNamed = 10

// findWorker finds the worker with this id, or the live one with this host:port, or the only live one on this host.
func findWorker(view fsm.View, name string) (*fsm.Worker, error) {
	if w, ok := view.Worker(name); ok {
		return w, nil
	}
	host, port := name, ""
	if h, p, err := net.SplitHostPort(name); err == nil {
		host, port = h, p
	}
	var found []*fsm.Worker
	view.WorkersByHost(strings.Trim(host, "[]"), func(w *fsm.Worker) bool {
		if port == "" || port == strconv.Itoa(w.Port) || port == strconv.Itoa(w.Address.Port) {
			found = append(found, w)
		}
		return len(found) <= maxNamed
	})
	switch len(found) {
	case 0:
		return nil, failure(webui.CodeNotFound, "no live worker has the id, address or host %q", name)
	case 1:
		return found[0], nil
	}
	var ids []string
	for _, w := range found[:min(len(found), maxNamed)] {
		ids = append(ids, w.ID)
	}
	more := ""
	if len(found) > maxNamed {
		more = ", ..."
	}
	return nil, failure(webui.CodeBadRequest, "%q is the host of several workers: name one of %s%s", name, strings.Join(ids, ", "), more)
}

// plural counts things in words: "1 core", "2 cores".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
