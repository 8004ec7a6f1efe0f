package worker

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"raftmaster/cluster/sparkpeer"
	"raftmaster/fsm"
)

// What ends while nobody leads is told to the next leader as it was: a driver is FINISHED, an executor EXITED with its
// code, and neither becomes ERROR or LOST.
func TestEndsDuringAnOutageAreTold(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test starts three masters twice")
	}
	m := startMasters(t, 3)
	dir := t.TempDir()
	java := fakeJava(t, fmt.Sprintf(`case "$*" in
*CoarseGrained*) while [ ! -e %[1]s/executor ]; do sleep 0.02; done; exit 9;;
*) while [ ! -e %[1]s/driver ]; do sleep 0.02; done; exit 0;; esac`, dir))
	w := startWorker(t, settings(t, m.addresses(), 2), java, nil)
	w.registered()
	client, err := sparkpeer.NewSubmitClient(sparkpeer.SubmitConfig{Common: sparkpeer.Common{Host: newHost(), Masters: m.addresses()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	job := sparkpeer.DriverJob("x.Main", 1, 128, false, m.addresses()...)
	job.JarURL = ""
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	submitted, err := client.Submit(ctx, job)
	if err != nil || submitted.DriverID == nil {
		t.Fatal(submitted, err)
	}
	eventually(t, "the driver", func() bool { d := w.Status().Drivers; return len(d) == 1 && d[0].PID != 0 })
	a := m.app(1)
	eventually(t, "the executor", func() bool { return running(a) == 1 && len(w.pids()) == 1 })

	for i := range m.up {
		m.kill(i)
	}
	eventually(t, "the loss of the master", func() bool { return !w.Status().Connected })
	write(t, filepath.Join(dir, "driver"), "", 0o644)
	write(t, filepath.Join(dir, "executor"), "", 0o644)
	eventually(t, "their ends", func() bool {
		s := w.Status()
		return len(s.FinishedDrivers) == 1 && len(s.FinishedExecutors) == 1
	})
	for i := range m.up {
		m.start(i)
	}
	leader := m.leader()
	eventually(t, "the end of the driver at the masters", func() bool {
		d, known := m.up[leader].State().Driver(*submitted.DriverID)
		return known && d.State.Finished()
	})
	if d, _ := m.up[leader].State().Driver(*submitted.DriverID); d.State != fsm.DriverStateFinished {
		t.Errorf("the driver is %v: %s", d.State, d.EndReason)
	}
	var end *fsm.RemovedExecutor
	eventually(t, "the end of the executor at the masters", func() bool {
		m.up[leader].State().RemovedExecutors(a.ID(), func(e *fsm.RemovedExecutor) bool {
			if e.ID == 0 {
				end = e
			}
			return true
		})
		return end != nil
	})
	if end.State != fsm.ExecutorExited || end.ExitStatus == nil || *end.ExitStatus != 9 {
		t.Errorf("the executor is %+v", end)
	}
}
