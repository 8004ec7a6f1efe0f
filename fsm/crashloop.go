package fsm

// Crash loops (G-44). Spark forgives all failures of an application whenever one of its executors reports RUNNING,
// which is as soon as its process exists (B-125): an executor that starts and dies at once is replaced for ever, many
// times a second. Here:
//
//   - RUNNING forgives nothing. An executor that was RUNNING for quickRunMillis forgives at its end, however it ends,
//     before that end itself is counted.
//   - A failure (B-123) within quickRunMillis of RUNNING counts towards spark.deploy.maxExecutorRetries, like one before
//     RUNNING. Spark's rule stays that an application with an executor in RUNNING is not ended (B-124).
//   - Such failures are also counted in LoopFailures. From the third one on, no executor of the application is placed
//     for 1 s, doubling with each to 60 s. Failures before RUNNING join in only where the limit cannot end the
//     application: those are ten quick ones in Spark too.
//   - A failure that comes more than loopOverMillis after such a pause belongs to no loop any more: as in Spark, all
//     before it is forgiven. So a quick failure now and then does no harm to a long-lived application.
//
// Time decides, taken from the commands; the planner compares NotBeforeMillis with the leader's clock.
const (
	// quickRunMillis: an executor that ends sooner after RUNNING has not worked.
	quickRunMillis = 30_000
	// driverQuickRunMillis is the same for a supervised driver whose worker is lost, from its launch on. A lost worker is
	// noticed by time-out only after a minute.
	driverQuickRunMillis = 120_000
	// loopOverMillis is longer than a quick run and the launch before it.
	loopOverMillis = 60_000
	// freeFailures in a row have no consequence.
	freeFailures = 2
	// maxLoopDelayMillis bounds the pause.
	maxLoopDelayMillis = 60_000
)

// crashLoopDelayMillis is the pause after the nth quick failure in a row.
func crashLoopDelayMillis(failures int) int64 {
	const first, doublings = int64(1000), 6
	n := failures - freeFailures
	switch {
	case n <= 0:
		return 0
	case n > doublings:
		return maxLoopDelayMillis
	}
	return min(first<<(n-1), maxLoopDelayMillis)
}

// ranWell tells whether an executor that ends now was RUNNING for long enough.
func ranWell(e *Executor, now int64) bool {
	wasRunning := e.State == ExecutorRunning || (e.State == ExecutorDecommissioned && e.RunningAtMillis > 0)
	return wasRunning && now-e.RunningAtMillis >= quickRunMillis
}

// forgive forgets an application's failures. It must be an edited copy.
func (a *Application) forgive() {
	a.RetryCount, a.LoopFailures, a.LastFailureMillis, a.NotBeforeMillis = 0, 0, 0, 0
}

// countFailure counts a failure of an executor that has not run well, and gives the application its pause.
func (a *Application) countFailure(e *Executor, now int64, limit int) {
	ran := e.State == ExecutorRunning
	if a.LoopFailures > 0 && now-max(a.LastFailureMillis, a.NotBeforeMillis) > loopOverMillis {
		a.LoopFailures, a.NotBeforeMillis = 0, 0
		if ran {
			a.RetryCount = 0
		}
	}
	a.RetryCount++
	if !ran && limit >= 0 && a.RetryCount < limit {
		return
	}
	a.LoopFailures++
	a.LastFailureMillis = now
	if wait := crashLoopDelayMillis(a.LoopFailures); wait > 0 {
		a.NotBeforeMillis = now + wait
	}
}
