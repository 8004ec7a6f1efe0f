package webui

// Limits that WhyWaiting names: what holds an application, one of its profiles, or a driver back.
const (
	// LimitNone: nothing holds it back; what it wants it has, or is about to get.
	LimitNone = "none"
	// LimitEnded: it has ended.
	LimitEnded = "ended"
	// LimitTarget: an application has as many executors as it asks for.
	LimitTarget = "target"
	// LimitMaxCores: an application holds as many cores as it may (spark.cores.max, spark.deploy.defaultCores).
	LimitMaxCores = "cores_max"
	// LimitBackOff: an application's executors fail one after the other, so that new ones are started more slowly.
	LimitBackOff = "back_off"
	// LimitPause: a driver is not started again before its pause is over (relaunch delay, back-off, lost launch).
	LimitPause = "pause"
	// LimitMaxDrivers: as many drivers run as may (spark.deploy.maxDrivers).
	LimitMaxDrivers = "drivers_max"
	// LimitNoWorker: no worker is ALIVE.
	LimitNoWorker = "no_worker"
	// LimitDecommission and LimitDrain: workers that would do are decommissioned, or drained by an operator.
	LimitDecommission = "decommission"
	LimitDrain        = "drain"
	// LimitReconcile: the leader may not give workers work yet (their Note says what it waits for).
	LimitReconcile = "reconcile"
	// LimitRelease: workers run another Spark release or wire family; LimitIncompatible: it failed to start there.
	LimitRelease      = "release"
	LimitIncompatible = "incompatible"
	// LimitCores, LimitMemory and LimitResources: too little of it is free on any one worker.
	LimitCores     = "cores"
	LimitMemory    = "memory"
	LimitResources = "resources"
)

// WhyWaiting says what holds an application or a driver back.
type WhyWaiting struct {
	// Kind is KindApp or KindDriver.
	Kind string `json:"kind"`
	// ID is what is explained. A driver that was started again under another id is followed; AskedID is then the one that
	// was asked for, and the same as ID otherwise.
	ID      string `json:"id"`
	AskedID string `json:"asked_id"`
	// Name is the application's, or the driver's main class.
	Name string `json:"name"`
	// SubjectState is the application's or driver's state; in WhyAnswer "state" is that of the answering master.
	SubjectState string `json:"subject_state"`
	// Waiting: it would be placed, or given more executors, if that were possible.
	Waiting bool `json:"waiting"`
	// Limit is, of an application, that of the first profile that wants more, else of the first; Text says it in words,
	// Next what helps.
	Limit string `json:"limit"`
	Text  string `json:"text"`
	Next  string `json:"next"`
	// CoresGranted and MaxCores are an application's, for all profiles together; MaxCores is Unlimited without a limit.
	CoresGranted int   `json:"cores_granted"`
	MaxCores     int64 `json:"max_cores"`
	// QueuePosition counts from 1 among the applications that want executors, or the drivers that wait, as the planner
	// serves them; 0: it is not among them.
	QueuePosition int          `json:"queue_position"`
	Profiles      []WhyProfile `json:"profiles"`
	// Driver is nil for an application.
	Driver *WhyNeed `json:"driver"`
}

// WhyNeed is what one executor of a profile, or a driver, needs, and what keeps it from getting it.
type WhyNeed struct {
	Cores     int               `json:"cores"`
	MemoryMB  int               `json:"memory_mb"`
	Resources []ResourceRequest `json:"resources"`
	Limit     string            `json:"limit"`
	Text      string            `json:"text"`
	// UntilMillis is the end of a back-off or pause; 0 otherwise.
	UntilMillis int64 `json:"until_millis"`
	// Workers counts, by limit, the workers that cannot take it now, each under the first that applies; LimitNone counts
	// those that can.
	Workers map[string]int `json:"workers"`
	// Hopeless: no worker of now could ever take it, not even an empty one.
	Hopeless bool `json:"hopeless"`
}

// WhyProfile is the part of one resource profile of an application.
type WhyProfile struct {
	ID int `json:"resource_profile_id"`
	// Executors are held; Target are wanted, Unlimited without a limit.
	Executors int   `json:"executors"`
	Target    int64 `json:"target"`
	WhyNeed
}

// WhyAnswer is the body of /v1/why-waiting?id=ID.
type WhyAnswer struct {
	Source
	WhyWaiting
}

// IncompatiblePair is a worker and what never came up there, so that it gets no more of it.
type IncompatiblePair struct {
	WorkerID string `json:"worker_id"`
	Worker   string `json:"worker"`
	// SparkVersion and Family are the worker's.
	SparkVersion string `json:"spark_version"`
	Family       string `json:"family"`
	// Kind is KindApp or KindDriver. AppID and AppName name the application; of drivers, DriverFamily says which.
	Kind         string `json:"kind"`
	AppID        string `json:"app_id"`
	AppName      string `json:"app_name"`
	DriverFamily string `json:"driver_family"`
}

// IncompatibleAnswer is the body of /v1/incompatible. What concerns drivers only the leader knows.
type IncompatibleAnswer struct {
	Source
	Pairs []IncompatiblePair `json:"pairs"`
}
