package sparktest

import "testing"

// Workers and applications of two Spark releases share one cluster at the same
// time: every application gets executors on workers of its own release only, and
// a failover changes nothing about that.
func TestMixedReleases(t *testing.T) { mixReleases(t, WorkerKind(*workersFlag)) }

// The same under our workers: each starts the executors of the Spark that it has.
func TestMixedReleasesOfOurWorkers(t *testing.T) { mixReleases(t, WorkerRaft) }

func mixReleases(t *testing.T, kind WorkerKind) {
	t.Helper()
	needSeveralMasters(t)
	skipShort(t)
	list := releases()
	if len(list) < 2 {
		t.Skipf("LEFT OUT: %s names one release only", releasesEnv)
	}
	var sparks []Spark
	for _, release := range []string{list[0], list[len(list)-1]} {
		sparks = append(sparks, install(t, release))
	}
	shareCluster(t, sparks, kind, false)
}
