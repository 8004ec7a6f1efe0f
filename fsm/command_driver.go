package fsm

// Commands for drivers (cluster deploy mode), for drained workers, and the undo of MarkIncompatible.

// Command types 32..47.
const (
	TypeSubmitDriver       CommandType = 32
	TypeRequestKillDriver  CommandType = 33
	TypeKillAllDrivers     CommandType = 34
	TypeDriverChanged      CommandType = 35
	TypePlaceDrivers       CommandType = 36
	TypeDrainWorkers       CommandType = 37
	TypeUnmarkIncompatible CommandType = 38
)

// SubmitDriver adds a driver to the queue (B-134). Its id comes from IDPattern, Meta.Stamp and a counter that never
// goes back. Resources are not compared with the workers': a driver that fits nowhere waits. Value: DriverSubmitted.
// Refused with ErrTooManyDrivers when MaxWaitingDrivers wait already (G-60), or beyond MaxDriverPayloads.
type SubmitDriver struct {
	Meta
	Cores, MemoryMB   int
	Supervise         bool
	ResourceReqs      []ResourceAmount
	MainClass, JarURL string
	Families          uint8  // of the client; 0 = not known
	Release           string // of the client; "" = not known
	Payload           []byte // at most MaxPayloadBytes
	// IDPattern is spark.deploy.driverIdPattern; "" is DefaultDriverIDPattern. See CheckIDPattern.
	IDPattern string
	// Client is the address of the process that submits, "" if it has none: a leader recognises a repetition by it.
	Client string `codec:",omitempty"`
}

// RequestKillDriver ends a waiting driver at once and asks the worker of a running one to end it (B-135). The id of a
// predecessor means its last successor (S10); the first id of a chain does so even when it is forgotten. It may be
// repeated: the worker is then asked again (G-36). Value: DriverKill. (The name is that of Spark's message; KillDriver is
// the effect.)
type RequestKillDriver struct {
	Meta
	DriverID string
}

// KillAllDrivers does the same to all unfinished drivers (B-136). Value: AllDriversKill.
type KillAllDrivers struct {
	Meta
}

// DriverChanged is a worker's report of a driver's end (B-137): FINISHED, KILLED, FAILED or ERROR. Only the worker that
// holds the driver is believed (S10); a repetition changes nothing. Value: DriverChangedResult.
type DriverChanged struct {
	Meta
	DriverID  string
	WorkerID  string // the reporter
	State     DriverState
	Exception string // text, may be empty
}

// DriverPlacement is the planner's decision to start one driver. Apply chooses the addresses of custom resources: the
// first free ones (B-061).
type DriverPlacement struct {
	DriverID, WorkerID string
}

// PlaceDrivers books a plan's drivers; it goes before the same plan's PlaceExecutors (B-171). Each placement is
// validated again and booked or dropped. Value: PlaceDriversResult.
type PlaceDrivers struct {
	Meta
	Placements []DriverPlacement
}

// DrainWorkers marks workers, DEAD ones included, so that nothing new is placed on them (On), or takes the mark away.
// What runs there goes on. The mark lasts as long as the worker's id. IdleOnly: mark only those on which nothing is
// booked. Value: DrainResult.
type DrainWorkers struct {
	Meta
	IDs      []string
	On       bool
	IdleOnly bool
}

// UnmarkIncompatible takes back what MarkIncompatible has said about a worker: for one application, or for all (AppID
// ""). Value: int, the number of pairs forgotten.
type UnmarkIncompatible struct {
	Meta
	WorkerID, AppID string
}

// Type implements Command.
func (SubmitDriver) Type() CommandType       { return TypeSubmitDriver }
func (RequestKillDriver) Type() CommandType  { return TypeRequestKillDriver }
func (KillAllDrivers) Type() CommandType     { return TypeKillAllDrivers }
func (DriverChanged) Type() CommandType      { return TypeDriverChanged }
func (PlaceDrivers) Type() CommandType       { return TypePlaceDrivers }
func (DrainWorkers) Type() CommandType       { return TypeDrainWorkers }
func (UnmarkIncompatible) Type() CommandType { return TypeUnmarkIncompatible }
