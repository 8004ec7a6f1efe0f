package sparktest

import (
	"strings"
	"testing"
	"time"

	"raftmaster/cluster/canary"
)

// The canary gets one real executor on each worker that has room, follows it to a thread dump, says why the others have
// none, and leaves nothing.
func TestCanary(t *testing.T) {
	forMasters(t, func(t *testing.T, kind MasterKind, spark Spark) {
		c := NewCluster(t, Options{Kind: kind, Spark: spark})
		c.StartMasters()
		good := c.StartWorkers(2, WorkerOptions{Cores: 2, Memory: "1g"})
		small := c.StartWorkers(1, WorkerOptions{Cores: 2, Memory: "300m"})[0]
		var web []string
		for _, m := range c.Masters() {
			web = append(web, m.WebURL())
		}
		report, err := canary.Run(t.Context(), canary.Config{WebURLs: web, Host: c.host(firstClient), Timeout: 2 * startTimeout, StepTimeout: 2 * startTimeout, AskTimeout: startTimeout,
			Progress: func(p canary.Progress) { t.Logf("%d/%d %s %s", p.Done, p.Total, p.WorkerID, p.Text) }})
		if err != nil || report.OK != 2 || report.Skipped != 1 || !report.Clean || len(report.Apps) != 1 || report.Apps[0].Release != spark.Release {
			t.Fatalf("%+v, %v", report, err)
		}
		for _, w := range report.Workers {
			if strings.HasPrefix(w.Address, small.Host+":") {
				if !strings.Contains(w.Reason, "it is full: 300 of its 300 MiB") {
					t.Errorf("the small worker: %+v", w)
				}
				continue
			}
			seen := map[string]bool{}
			for _, s := range w.Steps {
				seen[s.Name] = true
			}
			for _, step := range []string{canary.StepRegistered, canary.StepGranted, canary.StepRunning, canary.StepConfig, canary.StepDriver, canary.StepBlockManager,
				canary.StepLaunched, canary.StepThreadDump} {
				if !seen[step] {
					t.Errorf("%s did not show the step %s: %+v", w.Address, step, w.Steps)
				}
			}
		}
		for _, w := range good {
			if n := w.Executors(); n != 1 {
				t.Errorf("%s launched %d executors", w.Name, n)
			}
		}
		waitCompleted(t, c, report.Apps[0].ID, "FINISHED")
		waitCoresUsed(t, c, 0)
		// Named ones alone, by address.
		report, err = canary.Run(t.Context(), canary.Config{WebURLs: web, Host: c.host(firstClient), Workers: []string{good[1].Host}, Timeout: 2 * startTimeout, StepTimeout: 2 * startTimeout,
			AskTimeout: startTimeout, Settle: time.Second})
		if err != nil || report.OK != 1 || len(report.Workers) != 1 || !report.Clean {
			t.Errorf("one worker: %+v, %v", report, err)
		}
		waitCoresUsed(t, c, 0)
	})
}
