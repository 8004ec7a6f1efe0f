package fsm

import "strconv"

// Result is what applying a command gives. Err is the domain's refusal: the command changed nothing. Value's type is
// named in each command's documentation.
type Result struct {
	Value   any
	Err     error
	Effects []Effect
}

// WorkerOutcome tells how a RegisterWorker ended.
type WorkerOutcome uint8

// Outcomes of RegisterWorker.
const (
	WorkerRegistered   WorkerOutcome = iota + 1 // a new worker
	WorkerDuplicate                             // the id is known and live; its facts were refreshed
	WorkerRevived                               // the id was DEAD; it starts afresh without executors
	WorkerReplaced                              // the holder of its address was removed for it
	WorkerAddressInUse                          // refused: another live worker holds its address
)

// String names the outcome in lower case.
func (o WorkerOutcome) String() string {
	switch o {
	case WorkerRegistered:
		return "registered"
	case WorkerDuplicate:
		return "duplicate"
	case WorkerRevived:
		return "revived"
	case WorkerReplaced:
		return "replaced"
	case WorkerAddressInUse:
		return "address-in-use"
	}
	return "WorkerOutcome(" + strconv.Itoa(int(o)) + ")"
}

// RegisterWorkerResult answers RegisterWorker. HolderID is set for WorkerReplaced and WorkerAddressInUse.
type RegisterWorkerResult struct {
	Outcome  WorkerOutcome
	HolderID string
}

// AppOutcome tells how a RegisterApplication ended.
type AppOutcome uint8

// Outcomes of RegisterApplication.
const (
	AppRegistered AppOutcome = iota + 1 // a new application
	AppRepeated                         // the same driver again: the same id
	AppReplaced                         // a new driver on an old driver's address: that one's application failed
)

// String names the outcome in lower case.
func (o AppOutcome) String() string {
	switch o {
	case AppRegistered:
		return "registered"
	case AppRepeated:
		return "repeated"
	case AppReplaced:
		return "replaced"
	}
	return "AppOutcome(" + strconv.Itoa(int(o)) + ")"
}

// RegisterApplicationResult answers RegisterApplication. OldAppID is set for AppReplaced.
type RegisterApplicationResult struct {
	AppID    string
	Outcome  AppOutcome
	OldAppID string
}

// PlacedExecutor is a placement that was booked.
type PlacedExecutor struct {
	Key      ExecutorKey
	WorkerID string
	// Index is the placement's position in the command.
	Index int
}

// DropReason tells why a placement was not booked.
type DropReason uint8

// Reasons for dropping a placement.
const (
	DropAppUnknown DropReason = iota + 1 // unknown or finished application
	DropProfileUnknown
	DropWorkerUnknown
	DropWorkerNotAlive
	DropIncompatible
	DropCores     // not enough free cores on the worker
	DropMemory    // not enough free memory on the worker
	DropResources // wrong or occupied resource addresses
	DropMaxCores  // beyond what the application may have
	DropTarget    // beyond the profile's target
	DropMalformed // does not fit the profile, or makes no sense
	DropDriverUnknown
	DropWorkerDraining
)

var dropReasonNames = [...]string{"", "application unknown", "profile unknown", "worker unknown", "worker not alive",
	"incompatible", "no free cores", "no free memory", "no free resources", "above cores.max", "above target", "malformed",
	"driver unknown or not waiting", "worker draining"}

// String says the reason in words.
func (r DropReason) String() string {
	if r > 0 && int(r) < len(dropReasonNames) {
		return dropReasonNames[r]
	}
	return "DropReason(" + strconv.Itoa(int(r)) + ")"
}

// DroppedPlacement is a placement that was not booked.
type DroppedPlacement struct {
	Placement Placement
	Reason    DropReason
}

// PlaceResult answers PlaceExecutors; both lists are in the command's order.
type PlaceResult struct {
	Placed  []PlacedExecutor
	Dropped []DroppedPlacement
}

// ExecutorChangedResult answers ExecutorChanged. Known is false when the reporter holds no such executor (B-127): the
// worker is told true all the same. AppFailed: the retry limit ended the application (B-124).
type ExecutorChangedResult struct {
	Known     bool
	AppFailed bool
}

// KillResult answers KillExecutors. Known tells whether the application is known, Unknown lists ids that it does not
// have, in the command's order.
type KillResult struct {
	Known   bool
	Unknown []int
}

// ReconcileResult answers ReconcileWorker. Known is false when there is no such worker, or when it is DEAD and another
// worker has its address: then nothing was done. Lists are in the command's order.
type ReconcileResult struct {
	Known   bool
	Revived bool
	// Killed were reported, but are not held by this worker.
	Killed []ExecutorKey
	// Ended were held, but are missing.
	Ended []ExecutorKey
	// KilledDrivers were reported, but are not held by this worker. EndedDrivers were held, but are missing: they are
	// in the queue again, relaunched, or in their final state.
	KilledDrivers, EndedDrivers []string
}

// DecommissionResult answers DecommissionWorkers. Matched counts live workers among the ids, those already
// decommissioned included (B-065); Changed lists those newly marked.
type DecommissionResult struct {
	Matched int
	Changed []string
}

// DigestReport answers CheckDigest.
type DigestReport struct {
	Index  uint64
	Digest Digest
}
