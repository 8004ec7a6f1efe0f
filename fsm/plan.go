package fsm

import "strconv"

// SelectionPolicy is the order in which workers are offered to an application: spark.deploy.workerSelectionPolicy
// (B-177). The zero value is Spark's default.
type SelectionPolicy uint8

// Selection policies.
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

// PlanParams are the leader's settings and knowledge. The functions may be nil, which means yes.
type PlanParams struct {
	SpreadOutApps bool
	Policy        SelectionPolicy
	// Usable tells whether new work may go to a worker: the leader knows who is connected and reconciled.
	Usable func(*Worker) bool
	// Compatible tells whether a worker can run an application's executors (families, releases). Pairs known to be
	// incompatible are left out by Plan itself.
	Compatible func(*Application, *Worker) bool
}

// PlanResult is what a planning pass decided.
type PlanResult struct {
	// Placements in the order in which executors get their ids, at most MaxPlacements.
	Placements []Placement
	// More: the pass stopped at MaxPlacements; another one should follow after this one is applied.
	More bool
	// Hopeless names the application that waits alone and fits on no worker (B-178): "may hang".
	Hopeless []string
}

// Plan decides which executors to start now (B-160..B-184), by reading the view alone. It is a pure function.
func Plan(v View, p PlanParams) PlanResult { return PlanResult{} }
