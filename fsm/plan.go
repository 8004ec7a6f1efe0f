package fsm

import "strconv"

// SelectionPolicy is the order in which workers are offered to an application: spark.deploy.workerSelectionPolicy
// (B-177). The zero value is Spark's default.
type SelectionPolicy uint8

// Selection policies. Each DESC order is the ASC order reversed, ties (by worker id) included.
const (
	CoresFreeDesc SelectionPolicy = iota
	CoresFreeAsc
	MemoryFreeDesc
	MemoryFreeAsc
	WorkerID
)

var policyNames = [...]string{"CORES_FREE_DESC", "CORES_FREE_ASC", "MEMORY_FREE_DESC", "MEMORY_FREE_ASC", "WORKER_ID"}

// String gives Spark's name.
func (p SelectionPolicy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return "SelectionPolicy(" + strconv.Itoa(int(p)) + ")"
}

// ParseSelectionPolicy finds the policy with Spark's name, in upper case.
func ParseSelectionPolicy(name string) (SelectionPolicy, bool) {
	for i, n := range policyNames {
		if n == name {
			return SelectionPolicy(i), true
		}
	}
	return 0, false
}

// PlanParams are the leader's settings and knowledge. The functions may be nil, which means yes; they must give the
// same answer for the same arguments during one pass.
type PlanParams struct {
	// SpreadOutApps is spark.deploy.spreadOutApps (B-184): true spreads an application over many workers.
	SpreadOutApps bool
	Policy        SelectionPolicy
	// NowMillis is the leader's clock, for NotBeforeMillis of applications and drivers.
	NowMillis int64
	// SpreadOutDrivers is spark.deploy.spreadOutDrivers: B-172 when true, else B-174.
	SpreadOutDrivers bool
	// MaxDrivers is spark.deploy.maxDrivers (B-173); 0 = no limit.
	MaxDrivers int
	// Usable tells whether new work may go to a worker: the leader knows who is connected and reconciled.
	Usable func(*Worker) bool
	// Compatible tells whether a worker can run an application's executors (families, releases). Pairs known to be
	// incompatible are left out by Plan itself.
	Compatible func(*Application, *Worker) bool
	// DriverCompatible tells whether a worker can run a driver (families, releases).
	DriverCompatible func(*Driver, *Worker) bool
}

// PlanResult is what a planning pass decided.
type PlanResult struct {
	// Drivers fit into one PlaceDrivers command, which must be proposed before the PlaceExecutors of Placements.
	Drivers []DriverPlacement
	// Placements in the order in which executors get their ids: together they fit into one PlaceExecutors command.
	Placements []Placement
	// More: the pass stopped because the command is full; another one should follow after this one is applied.
	More bool
	// Hopeless names the application that waits alone, holds nothing and fits on no worker (B-178): it may hang.
	Hopeless []string
	// HopelessDrivers names the waiting drivers that fit on no ALIVE worker, not even if that were idle (G-56). The
	// caller says so once for each.
	HopelessDrivers []string
	// DriversOverLimit counts the waiting drivers that MaxDrivers holds back.
	DriversOverLimit int
	// WakeAtMillis is when something that was held back by its NotBeforeMillis may be placed; 0 = nothing is.
	WakeAtMillis int64
}

// Plan decides which drivers and executors to start now (B-160..B-184), by reading the view alone. It is a pure function.
// Applications come in queue order; one that cannot be served does not hold up the next (B-175). Its cost depends on the
// applications that want executors and the executors they get; workers are looked at only as far as needed, unless
// another policy than the default needs them sorted, or nothing fits.
func Plan(v View, params PlanParams) PlanResult {
	p := &pass{params: params, view: v}
	p.planDrivers() // before all executors (B-171)
	if p.result.More {
		return p.result
	}
	v.WantingApplications(func(a *Application) bool {
		p.planApplication(a)
		return !p.result.More
	})
	return p.result
}

// pass is one planning pass.
type pass struct {
	params PlanParams
	view   View
	fleet  *fleet // nil until an application needs it
	result PlanResult
	bytes  int // estimated size of the command
}

// appPass is what the pass knows of one application beyond the view.
type appPass struct {
	app       *Application
	coresLeft int
	held      int // executors, planned ones included
}

func (p *pass) planApplication(a *Application) {
	if a.NotBeforeMillis > p.params.NowMillis {
		p.wakeAt(a.NotBeforeMillis)
		return
	}
	ap := &appPass{app: a, coresLeft: a.CoresLeft(), held: a.ExecutorCount}
	for i := range a.Profiles {
		ps := &a.Profiles[i]
		if ps.Executors >= ps.Target || ap.coresLeft < coresPerExecutor(ps.Profile) {
			continue
		}
		if p.fleet == nil {
			p.fleet = newFleet(p.view, p.params)
		}
		r := newRequest(ps, ap.coresLeft)
		usable := p.fleet.usable(a, ps.Profile, min(r.maxNew, r.coresLeft/r.perStep))
		if len(usable) == 0 {
			p.noteHopeless(ap)
			continue
		}
		r.assign(usable, p.params.SpreadOutApps)
		p.place(ap, ps.Profile, usable)
		if p.result.More {
			return
		}
	}
}

// noteHopeless applies the narrow rule of B-178.
func (p *pass) noteHopeless(ap *appPass) {
	t := p.view.Totals()
	if ap.held == 0 && t.AppsWaiting+t.AppsRunning == 1 && len(p.result.Hopeless) == 0 {
		p.result.Hopeless = append(p.result.Hopeless, ap.app.ID)
	}
}

// place turns the cores assigned to each worker into executors (B-180), in the workers' order.
func (p *pass) place(ap *appPass, profile Profile, usable []*planWorker) {
	for _, w := range usable {
		if w.assignedCores == 0 {
			continue
		}
		n, cores := 1, w.assignedCores
		if profile.Cores != nil {
			cores = *profile.Cores
			n = w.assignedCores / cores
		}
		p.fleet.lost(w)
		for range n {
			placement := Placement{AppID: ap.app.ID, ProfileID: profile.ID, WorkerID: w.worker.ID, Cores: cores,
				MemoryMB: profile.MemoryMB, Resources: w.take(profile.Resources)}
			if p.full(placement) {
				p.result.More = true
				return
			}
			p.result.Placements = append(p.result.Placements, placement)
			w.coresFree -= cores
			w.memoryFree -= profile.MemoryMB
			ap.coresLeft -= cores
			ap.held++
		}
	}
}

// full tells whether the command has no room for one more placement, and counts it otherwise.
func (p *pass) full(placement Placement) bool {
	const fixedBytes = 96 // field names and numbers
	size := fixedBytes + len(placement.AppID) + len(placement.WorkerID)
	for _, r := range placement.Resources {
		size += fixedBytes/2 + len(r.Name)
		for _, address := range r.Addresses {
			size += len(address) + 3
		}
	}
	if len(p.result.Placements) >= MaxPlacements || p.bytes+size > MaxCommandBytes-1024 {
		return true
	}
	p.bytes += size
	return false
}

// request is what one application wants of one profile: the input and the running sums of B-179.
type request struct {
	perStep   int  // cores given at a time
	multi     bool // several executors per worker, of perStep cores each; else one that grows
	memoryMB  int
	resources []ResourceAmount
	coresLeft int
	maxNew    int // executors up to the target
	toAssign  int
	planned   int
}

func newRequest(ps *ProfileState, coresLeft int) *request {
	return &request{perStep: coresPerExecutor(ps.Profile), multi: ps.Profile.Cores != nil, memoryMB: ps.Profile.MemoryMB,
		resources: ps.Profile.Resources, coresLeft: coresLeft, maxNew: ps.Target - ps.Executors}
}

// assign distributes cores over the usable workers: in rounds of one step each when spreading out, else filling one
// worker after the other (B-179). The result is in the workers' assignedCores.
func (r *request) assign(usable []*planWorker, spreadOut bool) {
	total := 0
	for _, w := range usable {
		w.assignedCores, w.assignedExecutors = 0, 0
		total += w.coresFree
	}
	r.toAssign = min(r.coresLeft, total)
	free := make([]*planWorker, 0, len(usable))
	free = append(free, usable...)
	for len(free) > 0 && !r.done() {
		kept := free[:0]
		for _, w := range free {
			for r.canLaunch(w) {
				r.give(w)
				if spreadOut {
					break
				}
			}
			// A worker that cannot take more now never can later in this request: what it needs only shrinks.
			if r.canLaunch(w) {
				kept = append(kept, w)
			}
		}
		free = kept
	}
}

// done tells that no worker can be given anything more.
func (r *request) done() bool {
	return r.toAssign < r.perStep || (r.multi && r.planned >= r.maxNew)
}

func (r *request) canLaunch(w *planWorker) bool {
	if r.toAssign < r.perStep || w.coresFree-w.assignedCores < r.perStep {
		return false
	}
	if !r.multi && w.assignedExecutors > 0 {
		return true // one more core for the executor that is planned here already
	}
	if r.planned >= r.maxNew || w.memoryFree-w.assignedExecutors*r.memoryMB < r.memoryMB {
		return false
	}
	for _, need := range r.resources {
		if w.freeCount(need.Name)-need.Amount*w.assignedExecutors < need.Amount {
			return false
		}
	}
	return true
}

func (r *request) give(w *planWorker) {
	r.toAssign -= r.perStep
	w.assignedCores += r.perStep
	if r.multi || w.assignedExecutors == 0 {
		w.assignedExecutors++
		r.planned++
	}
}
