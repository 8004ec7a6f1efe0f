package sparktest

import "testing"

// Workers and applications of two Spark releases share one cluster at the same
// time: every application gets executors on workers of its own release only, and
// a failover changes nothing about that.
func TestMixedReleases(t *testing.T) {
	needSeveralMasters(t)
	skipShort(t)
	list := releases()
	if len(list) < 2 {
		t.Skipf("LEFT OUT: %s names one release only", releasesEnv)
	}
	list = []string{list[0], list[len(list)-1]}
	var sparks []Spark
	for _, release := range list {
		sparks = append(sparks, install(t, release))
	}
	c, leader := newCluster(t, sparks[0], nil)
	workers := map[string]*Worker{} // by release
	for _, spark := range sparks {
		workers[spark.Release] = c.StartWorkers(1, WorkerOptions{Spark: spark, Cores: 4, Memory: "4g"})[0]
	}
	var apps []*App
	for _, spark := range sparks {
		apps = append(apps, c.StartApp(AppOptions{Spark: spark, Name: "app-" + spark.Release, Cores: 2, ExecutorCores: 1}).WaitStarted())
	}
	for _, a := range apps {
		waitExecutors(t, a, 2, 0)
	}
	for _, a := range apps {
		a.Begin(6, 0.5)
	}
	leader.Kill()
	waitAttached(t, c.WaitLeader(leader))
	for i, a := range apps {
		a.End(6)
		h := checkExecutorIDs(t, a)
		own := workers[sparks[i].Release]
		for id, host := range h.AddedHosts {
			if host != own.Host {
				t.Errorf("%s has executor %s on %s, not on its own release's worker %s", a.Name, id, host, own.Host)
			}
		}
		if len(h.ExecutorsAdded) != 2 || len(h.ExecutorsRemoved) != 0 {
			t.Errorf("%s: executors added %v, removed %v", a.Name, h.ExecutorsAdded, h.ExecutorsRemoved)
		}
	}
	for _, w := range workers {
		if n := w.Executors(); n != 2 {
			t.Errorf("%s was asked to launch %d executors, want 2", w.Name, n)
		}
	}
	for _, a := range apps {
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkEachTaskOnce(t, a)
	}
	waitCoresUsed(t, c, 0)
}
