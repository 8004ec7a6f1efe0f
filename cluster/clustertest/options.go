package clustertest

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Options is everything that shapes a simulation beside its seed. Times between faults are means of an exponential
// distribution; zero means never.
type Options struct {
	Scenario string
	// Masters, Workers and Drivers are the numbers at the start.
	Masters, Workers, Drivers int
	// Active is how long activity and faults last; then everything is healed and the cluster must settle.
	Active time.Duration

	// MinLatency and MaxLatency bound one message's way; SlowShare of them take up to SlowFactor times as long.
	MinLatency, MaxLatency time.Duration
	SlowShare              float64
	SlowFactor             int
	// MaxCommit bounds a commit, MaxLag how far followers apply behind.
	MaxCommit, MaxLag time.Duration

	// MaxDrivers, RelaunchDelay and SpreadOutDrivers are configured on every master; UnlimitedRetries takes the limit off
	// failures of executors.
	MaxDrivers       int
	RelaunchDelay    time.Duration
	SpreadOutDrivers bool
	UnlimitedRetries bool
	// Snapshots is the chance that a master saves a snapshot after it has applied entries. A restarted one begins with its
	// last snapshot, and reads the rest of the log from bytes; a follower that is far behind may get the leader's.
	Snapshots float64

	Faults FaultOptions
	Load   LoadOptions
	Plant  Plant
}

// FaultOptions are the faults of network, masters and peers.
type FaultOptions struct {
	Cut, Partition, Swizzle                 time.Duration
	KillMaster, PauseMaster, Isolate        time.Duration
	Transfer, Storm, Outage                 time.Duration
	KillWorker, VanishWorker, PauseWorker   time.Duration
	KillDriver, VanishDriver, ReplaceDriver time.Duration
	PauseDriver                             time.Duration
	Decommission                            time.Duration
	// What operators do: Drain takes the mark away as well.
	Drain, OrderDecommission, KillApp, Clear, KillAll time.Duration
	// MaxPartition and MaxPause bound how long such a fault lasts.
	MaxPartition, MaxPause time.Duration
	// KillAtCommit is the chance that the leader dies around the commit of a registration or of a plan.
	KillAtCommit float64
	// Undialable is the share of peers that masters cannot connect to.
	Undialable float64
}

// LoadOptions are what peers do by themselves.
type LoadOptions struct {
	// Target, KillExecutors and Unregister are the times between such actions of one driver.
	Target, KillExecutors, Unregister time.Duration
	// ExecutorLife is the mean life of an executor that ends by itself; Crashing the share of ends with a code.
	ExecutorLife time.Duration
	Crashing     float64
	// FailStart is the share of executors whose process never starts, SlowStart of those that need up to 20 s.
	FailStart, SlowStart float64
	// Silent is the share of workers of a release that nobody can tell and that cannot read other releases' launches.
	Silent float64
	// Submit and SubmitREST are the times between submissions of drivers of cluster deploy mode; JobStatus and KillJob
	// those between such questions of one client. JobLife is the mean life of such a driver.
	Submit, SubmitREST, JobStatus, KillJob, JobLife time.Duration
	// GPU is the share of workers that have addresses of a custom resource, and of those who want some.
	GPU float64
	// CrashLoop is the share of applications whose executors all end as soon as they run.
	CrashLoop float64
	// NewWorker and NewDriver are the times between arrivals.
	NewWorker, NewDriver time.Duration
}

// Plant is a bug that is put into the simulated cluster on purpose, to see the checkers fire.
type Plant struct {
	RepeatLaunch   bool // the network writes launches twice, of executors and of drivers
	LeaseAlways    bool // masters believe in their lease for ever
	SkipEntry      bool // one machine does not apply one entry
	LoseKills      bool // the network loses KillExecutor and KillDriver
	NoProbe        bool // probes find every peer gone
	LoseRegistered bool // the network loses every RegisteredWorker of the second half
	NoAnswers      bool // executor states are never answered
	NewIDs         bool // the answer to a submission names another driver
	HalfWorkers    bool // workers have half of what they offered
	TwoIDs         bool // every RegisteredApplication is followed by one with another id
	LoseTargets    bool // RequestExecutors is answered and not heeded
	HideJobs       bool // workers do not list their drivers
	ForgetClients  bool // nobody notes who has submitted a driver
	JumpQueue      bool // the first of several drivers is not placed
	NoMaxDrivers   bool // masters do not know of MaxDrivers
	NoDelay        bool // masters do not know of RelaunchDelay
	SameAddress    bool // executors are all given the same address
	StaleSnapshot  bool // a restored snapshot is one entry younger than it says
	NoRetryLimit   bool // masters do not know of the limit of failures
	HideCrashes    bool // executors that crash are said to have ended well
}

// Scenarios lists the names that OptionsFor knows.
var Scenarios = []string{"calm", "connections", "partitions", "swizzle", "leaders", "storm", "takeover", "pauses",
	"workers", "drivers", "isolation", "jobs", "relaunch", "submit", "resources", "snapshots", "operator", "crashloop", "everything"}

// OptionsFor gives the options of a seed: its scenario in turn, with sizes that vary.
func OptionsFor(seed uint64) Options {
	return ScenarioOptions(Scenarios[seed%uint64(len(Scenarios))], seed)
}

// ScenarioOptions gives the options of a scenario; sizes and rates vary with the seed. An unknown name panics.
func ScenarioOptions(name string, seed uint64) Options {
	rng := rand.New(rand.NewPCG(seed, 0x0b5e55ed))
	o := Options{
		Scenario: name, Masters: 3, Workers: 2 + rng.IntN(4), Drivers: 1 + rng.IntN(3),
		Active:     time.Duration(30+rng.IntN(90)) * time.Second,
		MinLatency: 100 * time.Microsecond, MaxLatency: 2 * time.Millisecond, SlowShare: 0.02, SlowFactor: 100,
		MaxCommit: 3 * time.Millisecond, MaxLag: 20 * time.Millisecond,
		Load: LoadOptions{Target: 10 * time.Second, KillExecutors: 30 * time.Second, Unregister: 200 * time.Second,
			ExecutorLife: 60 * time.Second, Crashing: 0.3, FailStart: 0.03, SlowStart: 0.1,
			NewDriver: 40 * time.Second, NewWorker: 90 * time.Second},
	}
	o.Faults.MaxPartition, o.Faults.MaxPause = 40*time.Second, 10*time.Second
	if rng.IntN(4) == 0 {
		o.Faults.MaxPartition, o.Faults.MaxPause = 150*time.Second, 100*time.Second
	}
	apply, ok := scenarios[name]
	if !ok {
		panic("clustertest: no scenario " + name)
	}
	apply(&o)
	return o
}

var scenarios = map[string]func(*Options){
	"calm":        func(*Options) {},
	"connections": func(o *Options) { o.Faults.Cut = 3 * time.Second; o.Faults.Undialable = 0.2 },
	"partitions":  func(o *Options) { o.Faults.Partition = 10 * time.Second; o.Faults.Cut = 20 * time.Second },
	"swizzle":     func(o *Options) { o.Faults.Swizzle = 30 * time.Second; o.Faults.KillMaster = 40 * time.Second },
	"leaders":     func(o *Options) { o.Faults.KillMaster = 10 * time.Second; o.Faults.Transfer = 20 * time.Second },
	"storm": func(o *Options) {
		o.Faults.Storm, o.Faults.Outage = 25*time.Second, 60*time.Second
	},
	"takeover": func(o *Options) {
		o.Faults.KillAtCommit = 0.15
		o.Load.NewDriver, o.Load.NewWorker, o.Load.ExecutorLife = 8*time.Second, 15*time.Second, 20*time.Second
	},
	"pauses": func(o *Options) {
		o.Faults.PauseMaster, o.Faults.PauseWorker = 15*time.Second, 25*time.Second
	},
	"workers": func(o *Options) {
		o.Faults.KillWorker, o.Faults.VanishWorker, o.Faults.PauseWorker = 20*time.Second, 30*time.Second, 30*time.Second
		o.Faults.Decommission, o.Load.Silent = 60*time.Second, 0.2
	},
	"drivers": func(o *Options) {
		o.Faults.KillDriver, o.Faults.VanishDriver, o.Faults.ReplaceDriver = 20*time.Second, 40*time.Second, 20*time.Second
		o.Load.NewDriver = 10 * time.Second
	},
	"isolation": func(o *Options) {
		o.Faults.Isolate, o.Faults.Transfer, o.Faults.KillAtCommit = 12*time.Second, 30*time.Second, 0.03
		o.Faults.PauseMaster, o.Load.Silent = 40*time.Second, 0.2
	},
	"jobs": func(o *Options) {
		o.jobs()
		o.Faults.Cut = 20 * time.Second
	},
	"relaunch": func(o *Options) {
		o.jobs()
		o.Faults.KillWorker, o.Faults.VanishWorker, o.Faults.PauseWorker = 20*time.Second, 40*time.Second, 20*time.Second
		o.Faults.Partition, o.Faults.Transfer, o.Load.JobLife = 25*time.Second, 40*time.Second, 150*time.Second
		o.Load.Silent, o.Faults.KillAtCommit = 0.05, 0.05
	},
	"submit": func(o *Options) {
		o.jobs()
		o.Load.Submit, o.Load.KillJob, o.Load.JobLife = 3*time.Second, 10*time.Second, 15*time.Second
		o.Faults.KillAtCommit, o.Faults.Isolate, o.Faults.PauseMaster = 0.06, 30*time.Second, 40*time.Second
		o.Faults.Transfer, o.Faults.Partition = 15*time.Second, 20*time.Second
	},
	"resources": func(o *Options) {
		o.jobs()
		o.Load.GPU = 0.7
		o.Faults.KillMaster, o.Faults.PauseWorker, o.Faults.KillWorker = 25*time.Second, 25*time.Second, 40*time.Second
		o.Faults.Cut = 10 * time.Second
	},
	"snapshots": func(o *Options) {
		o.jobs()
		o.Snapshots = 0.05
		o.Faults.KillMaster, o.Faults.Outage, o.Faults.Clear = 8*time.Second, 50*time.Second, 40*time.Second
		o.Faults.KillWorker, o.Load.GPU = 40*time.Second, 0.3
	},
	"operator": func(o *Options) {
		o.jobs()
		f := &o.Faults
		f.Drain, f.OrderDecommission, f.KillApp, f.Clear = 10*time.Second, 40*time.Second, 20*time.Second, 20*time.Second
		f.KillAll, f.PauseDriver, f.Transfer, f.KillMaster = 60*time.Second, 30*time.Second, 20*time.Second, 40*time.Second
		o.Load.SubmitREST = 15 * time.Second
	},
	"crashloop": func(o *Options) {
		o.Load.CrashLoop, o.Load.NewDriver, o.Load.KillExecutors = 0.6, 20*time.Second, 0
		o.Faults.Transfer = 60 * time.Second
		o.UnlimitedRetries = o.Workers%2 == 0
	},
	"everything": everything,
}

// jobs lets drivers of cluster deploy mode be submitted; delay and limit differ from seed to seed.
func (o *Options) jobs() {
	l := &o.Load
	l.Submit, l.SubmitREST, l.JobStatus, l.KillJob, l.JobLife = 8*time.Second, 40*time.Second, 10*time.Second, 40*time.Second, 40*time.Second
	o.RelaunchDelay = []time.Duration{0, 0, 5 * time.Second, 30 * time.Second}[o.Workers%4]
	o.MaxDrivers = []int{0, 3, 5}[(o.Workers+o.Drivers)%3]
	o.SpreadOutDrivers = o.Drivers%2 == 0
}

// maxDrivers and relaunchDelay are what the masters know of it.
func (o *Options) maxDrivers() int {
	if o.Plant.NoMaxDrivers {
		return 0
	}
	return o.MaxDrivers
}

func (o *Options) relaunchDelay() time.Duration {
	if o.Plant.NoDelay {
		return 0
	}
	return o.RelaunchDelay
}

func everything(o *Options) {
	f := &o.Faults
	f.Cut, f.Partition, f.Swizzle = 15*time.Second, 30*time.Second, 80*time.Second
	f.KillMaster, f.PauseMaster, f.Isolate = 40*time.Second, 40*time.Second, 50*time.Second
	f.Transfer, f.Storm, f.Outage = 60*time.Second, 150*time.Second, 200*time.Second
	f.KillWorker, f.VanishWorker, f.PauseWorker = 50*time.Second, 90*time.Second, 60*time.Second
	f.KillDriver, f.VanishDriver, f.ReplaceDriver = 60*time.Second, 120*time.Second, 60*time.Second
	f.Decommission, f.KillAtCommit, f.Undialable = 150*time.Second, 0.02, 0.1
	f.PauseDriver, f.Drain, f.OrderDecommission = 100*time.Second, 60*time.Second, 200*time.Second
	f.KillApp, f.Clear, f.KillAll = 150*time.Second, 150*time.Second, 200*time.Second
	o.jobs()
	o.Load.Silent, o.Load.GPU, o.Load.CrashLoop, o.Snapshots = 0.1, 0.3, 0.05, 0.01
}

// String shows the options on one line.
func (o Options) String() string {
	type plain Options // without this method
	return fmt.Sprintf("%+v", plain(o))
}
