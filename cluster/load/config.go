package load

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// Phase is one part of a run.
type Phase string

// The phases, in the order in which Run executes those it is told to.
const (
	// PhaseWorkers connects and registers the workers. Every run begins with it.
	PhaseWorkers Phase = "workers"
	// PhaseHeartbeats sends heartbeats, as many as the master takes or at Config.HeartbeatRate.
	PhaseHeartbeats Phase = "heartbeats"
	// PhaseApps registers the applications and waits for their executors.
	PhaseApps Phase = "apps"
	// PhaseBurst lets one more application ask for Config.Burst executors at once.
	PhaseBurst Phase = "burst"
	// PhaseChurn lets executors exit and be replaced, Config.ChurnWindow at a time: for each of them the worker reports
	// EXITED, the master launches another, and its worker reports RUNNING. It needs PhaseApps.
	PhaseChurn Phase = "churn"
	// PhaseDrivers submits drivers, which the workers run until they are killed.
	PhaseDrivers Phase = "drivers"
	// PhaseHold only keeps the load as it is, with each worker's heartbeat every Config.HeartbeatEvery.
	PhaseHold Phase = "hold"
)

// Phases lists all phases in their order.
var Phases = []Phase{PhaseWorkers, PhaseHeartbeats, PhaseApps, PhaseBurst, PhaseChurn, PhaseDrivers, PhaseHold}

// Config describes a run. A zero field means its default.
type Config struct {
	// Masters are the addresses of spark://HOST:PORT,HOST:PORT. Required.
	Masters []frame.Address
	// Release is the Spark release that the peers play; 4.3.0.
	Release string
	// Workers is how many workers there are, 1 to MaxPeers; 100.
	Workers int
	// Apps is how many applications there are, 0 to MaxPeers.
	Apps int
	// Executors is how many executors of one core each application wants; 1.
	Executors int
	// Cores and MemoryMB are what each worker offers; 16 and 65536. An executor takes one core and ExecutorMB; 512.
	Cores, MemoryMB, ExecutorMB int32
	// Net is the second octet of the workers' addresses, 1 to 253; applications have the next one. 90.
	Net int
	// Port is where all peers listen; 0 takes a free one from 20000 to 31999.
	Port int
	// Phases are executed in the order of the list Phases; nil means workers, heartbeats, apps, burst and churn.
	Phases []Phase

	Window      int // registrations without an answer; 256
	AppWindow   int // application registrations without an answer; 1
	ChurnWindow int // executors between their exit and their replacement; 32
	Burst       int // executors of PhaseBurst; one for each worker
	Drivers     int // drivers of PhaseDrivers; 100

	// HeartbeatRate is heartbeats a second in PhaseHeartbeats; 0 sends as many as the master takes.
	HeartbeatRate float64
	// HeartbeatEvery is each worker's own period outside PhaseHeartbeats; 15 s.
	HeartbeatEvery time.Duration
	// Duration is how long each phase without a natural end takes (heartbeats, churn, hold); 5 s.
	Duration time.Duration
	// Warmup runs before the heartbeats and the churn that count; 0 is none.
	Warmup time.Duration
	// Timeout bounds each phase, and each answer; 60 s.
	Timeout time.Duration
	// PID is the leader's process, for its CPU time and memory; 0 leaves them out.
	PID int
	// Others are the processes of the other masters on this machine, for the mean of theirs; they need PID.
	Others []int

	// After, if set, is called when a phase is over, while all peers live on; its error ends the run.
	After func(Phase) error

	Log hclog.Logger
	// Progress, if set, is called about five times a second from one goroutine at a time.
	Progress func(Progress)
}

// Progress says how far a phase is.
type Progress struct {
	Phase string
	Done  int
	Total int // 0 when the phase ends by time
	// Part is how far the phase is, 0 to 1.
	Part float64
}

// MaxPeers is the largest number of workers, and of applications: the addresses of one 127.NET.
const MaxPeers = 250 * 250

// The errors that Run returns for a reason which callers tell apart.
var (
	// ErrConfig is wrapped by every complaint about the Config itself.
	ErrConfig = errors.New("load: wrong configuration")
	// ErrNoLeader: no master answered as a leader in time.
	ErrNoLeader = errors.New("load: no master leads")
	// ErrTimeout: a phase was not over in time. The Report holds what was measured until then.
	ErrTimeout = errors.New("load: not finished in time")
	// ErrFiles: the limit on open files is too low.
	ErrFiles = errors.New("load: limit on open files is too low")
)

func (c *Config) setDefaults() {
	ints := []struct {
		p *int
		d int
	}{
		{&c.Workers, 100}, {&c.Executors, 1}, {&c.Net, 90}, {&c.Window, 256}, {&c.AppWindow, 1}, {&c.ChurnWindow, 32},
		{&c.Drivers, 100},
	}
	for _, f := range ints {
		if *f.p == 0 {
			*f.p = f.d
		}
	}
	if c.Burst == 0 {
		c.Burst = c.Workers
	}
	for _, f := range []struct {
		p *int32
		d int32
	}{{&c.Cores, 16}, {&c.MemoryMB, 65536}, {&c.ExecutorMB, 512}} {
		if *f.p == 0 {
			*f.p = f.d
		}
	}
	for _, f := range []struct {
		p *time.Duration
		d time.Duration
	}{{&c.HeartbeatEvery, 15 * time.Second}, {&c.Duration, 5 * time.Second}, {&c.Timeout, time.Minute}} {
		if *f.p == 0 {
			*f.p = f.d
		}
	}
	if c.Release == "" {
		c.Release = "4.3.0"
	}
	if c.Phases == nil {
		c.Phases = []Phase{PhaseWorkers, PhaseHeartbeats, PhaseApps, PhaseBurst, PhaseChurn}
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
}

// validate checks a Config with its defaults set.
func (c *Config) validate() (sparkmsg.Family, error) {
	bad := func(format string, args ...any) (sparkmsg.Family, error) {
		return 0, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	fam, ok := sparkmsg.FamilyForRelease(c.Release)
	switch {
	case len(c.Masters) == 0:
		return bad("no masters are given")
	case !ok:
		return bad("the messages of Spark %s are not known", c.Release)
	case c.Workers < 1 || c.Workers > MaxPeers:
		return bad("workers must be 1 to %d", MaxPeers)
	case c.Apps < 0 || c.Apps > MaxPeers-1:
		return bad("applications must be 0 to %d", MaxPeers-1)
	case c.Net < 1 || c.Net > 253:
		return bad("net must be 1 to 253")
	case c.Port < 0 || c.Port > 65535:
		return bad("port must be 0 to 65535")
	case c.Window < 1 || c.AppWindow < 1 || c.ChurnWindow < 1 || c.Executors < 0 || c.Burst < 1 || c.Drivers < 1:
		return bad("counts must be positive")
	case c.Cores < 1 || c.MemoryMB < 1 || c.ExecutorMB < 1:
		return bad("cores and memory must be positive")
	case math.IsNaN(c.HeartbeatRate) || c.HeartbeatRate < 0 || c.Duration < 0 || c.Warmup < 0 || c.Timeout < 0 || c.HeartbeatEvery < 0:
		return bad("rates and times must not be negative")
	}
	have := map[Phase]bool{}
	for _, p := range c.Phases {
		have[p] = true
		if !known(p) {
			return bad("phase %q is not known; the phases are %v", p, Phases)
		}
	}
	if have[PhaseChurn] && !(have[PhaseApps] && c.Apps > 0 && c.Executors > 0) {
		return bad("phase %s needs %s with applications that have executors", PhaseChurn, PhaseApps)
	}
	return fam, nil
}

func known(p Phase) bool {
	for _, k := range Phases {
		if p == k {
			return true
		}
	}
	return false
}
