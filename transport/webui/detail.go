package webui

// Details answers questions about one thing. Every method is called from HTTP goroutines and must not block on Raft.
type Details interface {
	// App describes one application, active or completed; false when the state knows no such id.
	App(id string) (AppDetail, bool)
	// Driver describes one driver, active or completed; for a forgotten id, the one that goes on for it.
	Driver(id string) (Driver, bool)
	// WhyWaiting says what holds an application or a driver back; false when the state knows no such id.
	WhyWaiting(id string) (WhyWaiting, bool)
	// Explain gives the texts of WhyWaiting, by id, for the first applications that want executors and the first drivers
	// that wait.
	Explain() map[string]string
	// Incompatible lists what never came up on a worker, so that no more of it goes there: by worker, then by application.
	Incompatible() []IncompatiblePair
	// PeerUI gives the address of the web UI that a live worker, or an unfinished application, has registered.
	PeerUI(id string) (address string, ok bool)
}

// AppDetail is an application with its executors.
type AppDetail struct {
	App App `json:"app"`
	// ExecutorLimit is the number of executors wanted of all profiles together; Unlimited without a limit.
	ExecutorLimit int64 `json:"executor_limit"`
	// CoreLimit is the number of cores that it may have, CoresLeft what it may still be given; Unlimited without a limit.
	CoreLimit int64      `json:"core_limit"`
	CoresLeft int64      `json:"cores_left"`
	Executors []Executor `json:"executors"`
	// Removed are the last executors that have ended, oldest first; RemovedTotal counts all that there ever were.
	Removed      []RemovedExecutor `json:"removed_executors"`
	RemovedTotal int64             `json:"removed_total"`
}

// Unlimited stands for "no limit" in AppDetail.
const Unlimited int64 = -1

// RemovedExecutor is one executor that has ended.
type RemovedExecutor struct {
	ID           int    `json:"id"`
	WorkerID     string `json:"worker_id"`
	WorkerWebURL string `json:"worker_web_url"`
	State        string `json:"state"`
	Cores        int    `json:"cores"`
	MemoryMB     int    `json:"memory_mb"`
	ProfileID    int    `json:"resource_profile_id"`
	StartMillis  int64  `json:"start_millis"`
	EndMillis    int64  `json:"end_millis"`
	Message      string `json:"message"`
	// ExitStatus is nil when the process gave none.
	ExitStatus *int `json:"exit_status"`
}

// AppAnswer is the body of /v1/app?id=ID.
type AppAnswer struct {
	Source
	AppDetail
}
