package clustertest

import (
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
)

// Planted bugs for the checkers of drivers of cluster deploy mode, of custom resources, of snapshots and of crash loops.

func TestCheckerSeesADriverThatIsLaunchedTwice(t *testing.T) {
	findPlanted(t, "jobs", "is told to launch driver", func(o *Options) {
		o.Plant.RepeatLaunch = true
		o.Drivers, o.Load.NewDriver = 0, 0 // executors would be noticed first
	})
}

func TestCheckerSeesADriverThatIsNotKilled(t *testing.T) {
	findPlanted(t, "jobs", "was killed, and its last successor", func(o *Options) {
		o.Plant.LoseKills = true
		o.Load.KillJob, o.Load.JobLife = 10*time.Second, 0
		o.Drivers, o.Load.NewDriver = 0, 0
	})
}

func TestCheckerSeesTwoCopiesOfADriver(t *testing.T) {
	findPlanted(t, "jobs", "copies of driver", func(o *Options) {
		o.Plant.HideJobs, o.Plant.LoseKills = true, true
		o.Load.JobLife, o.Load.KillJob, o.RelaunchDelay = 0, 0, 0
		o.Drivers, o.Load.NewDriver, o.Faults.Transfer = 0, 0, 20*time.Second
	})
}

func TestCheckerSeesASubmissionThatIsLost(t *testing.T) {
	findPlanted(t, "jobs", "which is not its driver's", func(o *Options) {
		o.Plant.NewIDs = true
		o.Drivers, o.Load.NewDriver = 0, 0
	})
}

func TestCheckerSeesADriverThatIsSubmittedTwice(t *testing.T) {
	findPlanted(t, "submit", "was submitted twice", func(o *Options) { o.Plant.ForgetClients = true })
}

func TestCheckerSeesAQueueThatIsJumped(t *testing.T) {
	findPlanted(t, "jobs", "which is older and no larger, waits", func(o *Options) {
		o.Plant.JumpQueue = true
		o.MaxDrivers = 0
		o.Load.Submit = time.Second
	})
}

func TestCheckerSeesTooManyDrivers(t *testing.T) {
	findPlanted(t, "jobs", "and maxDrivers is", func(o *Options) {
		o.Plant.NoMaxDrivers = true
		o.MaxDrivers = 1
	})
}

func TestCheckerSeesARelaunchBeforeItsTime(t *testing.T) {
	findPlanted(t, "relaunch", "before its time", func(o *Options) {
		o.Plant.NoDelay = true
		o.RelaunchDelay = 30 * time.Second
	})
}

func TestCheckerSeesAnAddressInTwoHands(t *testing.T) {
	findPlanted(t, "resources", "is in two hands", func(o *Options) { o.Plant.SameAddress = true })
}

func TestCheckerSeesASnapshotThatIsNotWhatItSays(t *testing.T) {
	findPlanted(t, "snapshots", "after it restored a snapshot", func(o *Options) { o.Plant.StaleSnapshot = true })
}

func TestCheckerSeesACrashLoopWithoutEnd(t *testing.T) {
	findPlanted(t, "crashloop", "all of which fail, were launched within", func(o *Options) { o.Plant.HideCrashes = true })
}

func TestCheckerSeesACrashLoopInSpiteOfTheLimit(t *testing.T) {
	findPlanted(t, "crashloop", "in spite of the limit", func(o *Options) {
		o.Plant.NoRetryLimit = true
		o.UnlimitedRetries = false
	})
}

// A leader without its lease sends launches and kills of drivers, too.
func TestCheckerSeesADeposedLeaderThatLaunchesDrivers(t *testing.T) {
	findPlanted(t, "submit", "Driver {", func(o *Options) {
		o.Plant.LeaseAlways = true
		o.Drivers, o.Load.NewDriver, o.Faults.Isolate = 0, 0, 5*time.Second
		o.Load.Submit = time.Second
	})
}

func TestCheckerKnowsWhichStatesAreFinal(t *testing.T) {
	place, list := fsm.PlaceDrivers{}, fsm.ReconcileWorker{}
	for _, c := range []struct {
		from, to fsm.DriverState
		cmd      fsm.Command
		want     string // "" for a change that is right
	}{
		{fsm.DriverStateFinished, fsm.DriverStateRunning, place, "which is final"},
		{fsm.DriverStateKilled, fsm.DriverStateFailed, fsm.DriverChanged{}, "which is final"},
		{fsm.DriverStateRelaunching, fsm.DriverStateSubmitted, list, "which is final"},
		{fsm.DriverStateSubmitted, fsm.DriverStateRunning, list, "it is RUNNING after"},
		{fsm.DriverStateSubmitted, fsm.DriverStateError, fsm.RemoveWorker{}, "it waited, and is ERROR"},
		{fsm.DriverStateRunning, fsm.DriverStateSubmitted, fsm.RemoveWorker{}, "waits again"},
		{fsm.DriverStateSubmitted, fsm.DriverStateRunning, place, ""},
		{fsm.DriverStateSubmitted, fsm.DriverStateKilled, fsm.RequestKillDriver{}, ""},
		{fsm.DriverStateRunning, fsm.DriverStateSubmitted, list, ""},
		{fsm.DriverStateRunning, fsm.DriverStateRelaunching, fsm.RemoveWorker{}, ""},
	} {
		err := jobMoves(c.from, c.to, c.cmd)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v to %v by %T: %v, want %q", c.from, c.to, c.cmd, err, c.want)
		}
	}
}
