package webui

// Details answers questions about one thing. Every method is called from HTTP goroutines and must not block on Raft.
type Details interface {
	// App describes one application, active or completed; false when the state knows no such id.
	App(id string) (AppDetail, bool)
	// Driver describes one driver, active or completed.
	Driver(id string) (Driver, bool)
	// WhyWaiting says what holds an application back; false when the state knows no such id.
	WhyWaiting(appID string) (WhyWaiting, bool)
	// Explain gives the texts of WhyWaiting, by application id, for the first applications that want executors.
	Explain() map[string]string
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

// Limits that WhyWaiting names: what holds an application, or one of its profiles, back.
const (
	// LimitNone: nothing holds it back; what it wants it has, or is about to get.
	LimitNone = "none"
	// LimitEnded: it has ended.
	LimitEnded = "ended"
	// LimitTarget: it has as many executors as it asks for.
	LimitTarget = "target"
	// LimitMaxCores: it holds as many cores as it may (spark.cores.max, spark.deploy.defaultCores).
	LimitMaxCores = "cores_max"
	// LimitBackOff: its executors fail one after the other, so that new ones are started more slowly.
	LimitBackOff = "back_off"
	// LimitNoWorker: no worker is ALIVE.
	LimitNoWorker = "no_worker"
	// LimitDecommission and LimitDrain: workers that would do are decommissioned, or drained by an operator.
	LimitDecommission = "decommission"
	LimitDrain        = "drain"
	// LimitReconcile: the leader may not give workers work yet (their Note says what it waits for).
	LimitReconcile = "reconcile"
	// LimitRelease: workers run another Spark release or wire family; LimitIncompatible: executors failed to start there.
	LimitRelease      = "release"
	LimitIncompatible = "incompatible"
	// LimitCores, LimitMemory and LimitResources: too little of it is free on any one worker.
	LimitCores     = "cores"
	LimitMemory    = "memory"
	LimitResources = "resources"
)

// WhyWaiting says what holds an application back.
type WhyWaiting struct {
	AppID string `json:"app_id"`
	Name  string `json:"name"`
	// AppState is the application's state; in WhyAnswer "state" is that of the answering master.
	AppState string `json:"app_state"`
	// Waiting: it would be given more executors if that were possible.
	Waiting bool `json:"waiting"`
	// Limit is that of the first profile that wants more, else of the first; Text says it in words, Next what helps.
	Limit string `json:"limit"`
	Text  string `json:"text"`
	Next  string `json:"next"`
	// CoresGranted and MaxCores are for all profiles together; MaxCores is Unlimited without a limit.
	CoresGranted int   `json:"cores_granted"`
	MaxCores     int64 `json:"max_cores"`
	// QueuePosition counts from 1 among the applications that want executors, as the planner serves them; 0: it wants none.
	QueuePosition int          `json:"queue_position"`
	Profiles      []WhyProfile `json:"profiles"`
}

// WhyProfile is the part of one resource profile.
type WhyProfile struct {
	ID int `json:"resource_profile_id"`
	// Executors are held; Target are wanted, Unlimited without a limit.
	Executors int   `json:"executors"`
	Target    int64 `json:"target"`
	// What one executor needs.
	Cores     int               `json:"cores"`
	MemoryMB  int               `json:"memory_mb"`
	Resources []ResourceRequest `json:"resources"`
	Limit     string            `json:"limit"`
	Text      string            `json:"text"`
	// UntilMillis is the end of a back-off; 0 otherwise.
	UntilMillis int64 `json:"until_millis"`
	// Workers counts, by limit, the workers that cannot take an executor now, each under the first that applies;
	// LimitNone counts those that can.
	Workers map[string]int `json:"workers"`
}

// WhyAnswer is the body of /v1/why-waiting?app=ID.
type WhyAnswer struct {
	Source
	WhyWaiting
}

// AppAnswer is the body of /v1/app?id=ID.
type AppAnswer struct {
	Source
	AppDetail
}
