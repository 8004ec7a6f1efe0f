package fsm

// DriverSubmitted answers SubmitDriver.
type DriverSubmitted struct {
	ID string
}

// DriverKill answers RequestKillDriver. Known is false when the driver has ended or does not exist. ID is the driver
// that was meant: the one named, or the last of its successors. Waiting: it was in the queue and is KILLED now; else
// its worker is asked.
type DriverKill struct {
	Known   bool
	ID      string
	Waiting bool
}

// AllDriversKill answers KillAllDrivers, in the order of submission: Ended were waiting, the workers of Asked are asked.
type AllDriversKill struct {
	Ended, Asked []string
}

// DriverChangedResult answers DriverChanged. Known is false when the reporter holds no such driver.
type DriverChangedResult struct {
	Known bool
}

// PlacedDriver is a driver's placement that was booked.
type PlacedDriver struct {
	DriverID, WorkerID string
	// Index is the placement's position in the command.
	Index int
}

// DroppedDriver is a driver's placement that was not booked.
type DroppedDriver struct {
	Placement DriverPlacement
	Reason    DropReason
}

// PlaceDriversResult answers PlaceDrivers; both lists are in the command's order.
type PlaceDriversResult struct {
	Placed  []PlacedDriver
	Dropped []DroppedDriver
}

// DrainResult answers DrainWorkers. Matched counts the known workers among the ids; Changed lists those newly marked or
// unmarked; Busy those that IdleOnly spared.
type DrainResult struct {
	Matched       int
	Changed, Busy []string
}
