package webui

// Driver is one driver in cluster mode, active or completed.
type Driver struct {
	ID    string `json:"id"`
	State string `json:"state"`
	// Active: it has not ended. Waiting: it has no worker yet.
	Active  bool `json:"active"`
	Waiting bool `json:"waiting"`
	// Supervise: it is started again when it fails or its worker is lost.
	Supervise bool       `json:"supervise"`
	Cores     int        `json:"cores"`
	MemoryMB  int        `json:"memory_mb"`
	Resources []Resource `json:"resources"`
	// Requests are the custom resources that it asks for; Resources are those that it was given.
	Requests []ResourceRequest `json:"resource_requests"`
	// MainClass is the class that the submitter named, JarURL its jar, without user info and query; either may be "".
	MainClass       string `json:"main_class"`
	JarURL          string `json:"jar_url"`
	SubmittedMillis int64  `json:"submitted_millis"`
	// LaunchedMillis is 0 until it is placed, EndedMillis until it has ended.
	LaunchedMillis int64 `json:"launched_millis"`
	EndedMillis    int64 `json:"ended_millis"`
	// NotBeforeMillis: a relaunch waits until then; 0 when nothing is waited for.
	NotBeforeMillis int64 `json:"not_before_millis"`
	// WorkerID and Worker (host:port) say where it runs, or ran; "" before it is placed.
	WorkerID     string `json:"worker_id"`
	Worker       string `json:"worker"`
	WorkerWebURL string `json:"worker_web_url"`
	// KillRequested: somebody has asked for its end, and its worker has not confirmed it yet.
	KillRequested bool `json:"kill_requested"`
	// LaunchUnconfirmed: it is RUNNING by the books, and its worker has not confirmed yet that the launch arrived.
	LaunchUnconfirmed bool `json:"launch_unconfirmed"`
	// Attempt counts its launches; Predecessor and Successor name the drivers before and after it in a chain of relaunches.
	Attempt     int    `json:"attempt"`
	Predecessor string `json:"predecessor"`
	Successor   string `json:"successor"`
	// Exception is the text of the failure that ended it.
	Exception    string `json:"exception"`
	SparkVersion string `json:"spark_version"`
	Family       string `json:"family"`
	// WhyWaiting explains in words why a waiting driver has no worker, where the leader knows; in lists only.
	WhyWaiting string `json:"why_waiting"`
}

// DriversAnswer is the body of /v1/drivers: unfinished ones in the order of submission, then completed ones, oldest first.
type DriversAnswer struct {
	Source
	Drivers []Driver `json:"drivers"`
}

// DriverAnswer is the body of /v1/driver?id=ID.
type DriverAnswer struct {
	Source
	Driver Driver `json:"driver"`
}
