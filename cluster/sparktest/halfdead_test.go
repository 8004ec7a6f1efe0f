package sparktest

import (
	"fmt"
	"testing"
)

// Executors end while the leader is half dead: it accepts connections and answers
// nothing. Their workers report to it, and then follow the next leader, which
// learns of the ends from the workers' lists. No worker ends, no executor stays as
// a ghost, and the old leader, when it goes on, changes nothing.
func TestExecutorsEndUnderPausedLeader_S23(t *testing.T) {
	needSeveralMasters(t)
	forNewest(t, func(t *testing.T, spark Spark) {
		c, leader := newCluster(t, spark, nil)
		workers := c.StartWorkers(2, WorkerOptions{Cores: 2})
		a := c.StartApp(AppOptions{Cores: 3, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 3, 0)
		a.Run(6, 0.05)
		leader.Pause()
		for _, id := range liveExecutors(t, a)[:2] {
			killExecutor(t, a.ID, id)
		}
		next := c.WaitLeader(leader)
		waitAttached(t, next)
		waitLive(t, a, 3)
		waitCoresUsed(t, c, 3)
		a.Run(6, 0.05)
		leader.Resume()
		waitFollowing(t, c, leader)
		a.Run(6, 0.05)
		waitCoresUsed(t, c, 3)
		list, err := next.Executors()
		if err != nil || len(list) != 3 {
			t.Errorf("executors at the leader: %+v (%v)", list, err)
		}
		h := checkExecutorIDs(t, a)
		if len(h.ExecutorsAdded) != 5 {
			t.Errorf("executors added: %v", h.ExecutorsAdded)
		}
		for _, w := range workers {
			if !w.Running() {
				t.Errorf("%s has ended", w.Name)
			}
		}
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		c.WaitState(startTimeout, "both workers once, nothing in use", func(s State) error {
			if len(s.Workers) != 2 || s.AliveWorkers != 2 || s.CoresUsed != 0 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		checkDigests(t, c)
	})
}
