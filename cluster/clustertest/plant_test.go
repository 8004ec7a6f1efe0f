package clustertest

import (
	"strings"
	"testing"
	"time"
)

// findPlanted runs seeds with a planted bug until a checker reports what the bug must lead to.
func findPlanted(t *testing.T, scenario, want string, plant func(*Options)) {
	t.Helper()
	const seeds = 200 // most are found within ten
	other := ""
	for seed := range uint64(seeds) {
		opt := ScenarioOptions(scenario, seed)
		plant(&opt)
		err := NewSim(seed, opt, false).Run().Err
		if err == nil {
			continue
		}
		if strings.Contains(err.Error(), want) {
			return
		}
		other = err.Error()
	}
	t.Errorf("no checker reported %q in %d seeds of %s; last other report: %s", want, seeds, scenario, other)
}

// The checkers must be able to fail: each test plants the bug that one of them is there for.

func TestCheckerSeesALaunchThatIsRepeated(t *testing.T) {
	findPlanted(t, "calm", "which was launched before", func(o *Options) { o.Plant.RepeatLaunch = true })
}

func TestCheckerSeesALeaderThatSpeaksWithoutTheLease(t *testing.T) {
	findPlanted(t, "isolation", "without the lease", func(o *Options) { o.Plant.LeaseAlways = true })
}

func TestCheckerSeesAMachineThatSkipsAnEntry(t *testing.T) {
	findPlanted(t, "calm", "another digest", func(o *Options) { o.Plant.SkipEntry = true })
}

func TestCheckerSeesExecutorsThatAreNotKilled(t *testing.T) {
	findPlanted(t, "calm", "the workers run", func(o *Options) { o.Plant.LoseKills = true })
}

func TestCheckerSeesAnApplicationThatIsEndedForNoReason(t *testing.T) {
	findPlanted(t, "connections", "is not active", func(o *Options) { o.Plant.NoProbe = true })
}

func TestCheckerSeesAWorkerThatIsNotAnswered(t *testing.T) {
	findPlanted(t, "calm", "is not connected with the leader", func(o *Options) {
		o.Plant.LoseRegistered = true
		o.Load.NewWorker = 5 * time.Second
	})
}

func TestCheckerSeesAsksThatAreNotAnswered(t *testing.T) {
	findPlanted(t, "calm", "has not answered", func(o *Options) { o.Plant.NoAnswers = true })
}

func TestCheckerSeesADriverWithTwoIDs(t *testing.T) {
	findPlanted(t, "takeover", "and is told", func(o *Options) { o.Plant.TwoIDs = true })
}

func TestCheckerSeesAnOverloadedWorker(t *testing.T) {
	findPlanted(t, "calm", " runs ", func(o *Options) { o.Plant.HalfWorkers = true })
}

func TestCheckerSeesTargetsThatAreForgotten(t *testing.T) {
	findPlanted(t, "calm", "the master knows", func(o *Options) { o.Plant.LoseTargets = true })
}
