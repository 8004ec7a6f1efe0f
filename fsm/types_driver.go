package fsm

import "strconv"

// DriverState is the state of a driver of cluster deploy mode; the numbers are the ordinals of Spark's
// DriverState.scala (B-133).
type DriverState uint8

// Driver states. UNKNOWN is never given (B-133).
const (
	DriverStateSubmitted   DriverState = 0 // waits for a worker
	DriverStateRunning     DriverState = 1 // booked on a worker, from the moment of the decision on (B-140)
	DriverStateFinished    DriverState = 2
	DriverStateRelaunching DriverState = 3 // final for this id: its successor goes on (B-138)
	DriverStateUnknown     DriverState = 4
	DriverStateKilled      DriverState = 5
	DriverStateFailed      DriverState = 6
	DriverStateError       DriverState = 7
)

var driverStateNames = [...]string{"SUBMITTED", "RUNNING", "FINISHED", "RELAUNCHING", "UNKNOWN", "KILLED", "FAILED", "ERROR"}

// String gives Spark's name.
func (s DriverState) String() string {
	if int(s) < len(driverStateNames) {
		return driverStateNames[s]
	}
	return "DriverState(" + strconv.Itoa(int(s)) + ")"
}

// Valid tells whether the number is one of Spark's states.
func (s DriverState) Valid() bool { return s <= DriverStateError }

// Finished tells whether the driver of this id has ended. RELAUNCHING has: another id goes on for it.
func (s DriverState) Finished() bool {
	return s == DriverStateFinished || s == DriverStateRelaunching || s.endsByReport()
}

// endsByReport tells whether a worker may report the state as a driver's end, FINISHED aside (B-137).
func (s DriverState) endsByReport() bool {
	return s == DriverStateKilled || s == DriverStateFailed || s == DriverStateError
}

// Driver is a driver of cluster deploy mode: waiting, running or completed. Immutable. Cores and memory are Spark's
// units: cores, MiB. Times are Unix milliseconds, 0 = not yet.
type Driver struct {
	ID string `codec:",omitempty"`
	// Number is the replicated counter inside ID: the order of submission, and of the queue (S17).
	Number            uint64      `codec:",omitempty"`
	State             DriverState `codec:",omitempty"`
	SubmittedAtMillis int64       `codec:",omitempty"`
	SubmitStamp       string      `codec:",omitempty"`
	// IDPattern is kept for the ids of successors; "" is DefaultDriverIDPattern.
	IDPattern       string           `codec:",omitempty"`
	Cores, MemoryMB int              `codec:",omitempty"`
	Supervise       bool             `codec:",omitempty"`
	ResourceReqs    []ResourceAmount `codec:",omitempty"` // sorted by name
	MainClass       string           `codec:",omitempty"`
	JarURL          string           `codec:",omitempty"`
	Client          string           `codec:",omitempty"` // see SubmitDriver; not inherited by successors
	Families        uint8            `codec:",omitempty"` // of the submitting client
	Release         string           `codec:",omitempty"`
	// Payload is the driver's description as received: opaque here; nil once the driver has ended.
	Payload []byte `codec:"-"`
	// PayloadSum is the SHA-256 of Payload: it stands for it in the digest.
	PayloadSum []byte `codec:",omitempty"`
	// WorkerID and the rest of the worker are set while the driver is booked there, and kept after its end (B-141).
	WorkerID       string     `codec:",omitempty"`
	WorkerHost     string     `codec:",omitempty"`
	WorkerPort     int        `codec:",omitempty"`
	WorkerWebUIURL string     `codec:",omitempty"`
	Resources      []Resource `codec:",omitempty"` // assigned addresses; kept after the end

	LaunchedAtMillis int64 `codec:",omitempty"`
	EndedAtMillis    int64 `codec:",omitempty"`
	// Delivered: the worker is known to have received the launch.
	Delivered bool `codec:",omitempty"`
	// KillRequested: somebody wants the running driver ended; it stays until the worker has said so (G-36). Such a driver
	// is never started again.
	KillRequested bool `codec:",omitempty"`
	// Exception is what the worker said about the end; EndReason is why the master itself ended it ("worker lost: ...").
	Exception string `codec:",omitempty"`
	EndReason string `codec:",omitempty"`
	// Predecessor and Successor are the chain of relaunches (S10). A successor is remembered as long as its
	// predecessor is; the predecessor may have been forgotten.
	Predecessor string `codec:",omitempty"`
	// Origin is the first id of the chain, the one that its submitter knows; "" for the first driver itself. It stays when
	// that one is forgotten.
	Origin    string `codec:",omitempty"`
	Successor string `codec:",omitempty"`
	// Attempt counts the relaunches before this one; QuickRuns those in a row that did not last (driverQuickRunMillis).
	Attempt   int `codec:",omitempty"`
	QuickRuns int `codec:",omitempty"`
	// NotBeforeMillis: the planner does not place the driver earlier (relaunch delay, back-off, lost launch).
	NotBeforeMillis int64 `codec:",omitempty"`
	// CompletedSeq orders completed drivers; 0 = unfinished.
	CompletedSeq uint64 `codec:",omitempty"`

	sum digestSum
}

// WorkerHostPort gives host:port of the worker that holds or held the driver; "" if there was none.
func (d *Driver) WorkerHostPort() string {
	if d.WorkerID == "" {
		return ""
	}
	return Address{Host: d.WorkerHost, Port: d.WorkerPort}.String()
}

// held tells whether the driver is booked on a worker.
func (d *Driver) held() bool { return d.State == DriverStateRunning }
