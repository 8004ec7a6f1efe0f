package clustertest

import (
	"slices"
	"time"

	"raftmaster/transport/sparkmsg"
)

// A driver of cluster deploy mode is called a job in this package, where driver is already the process of an application.

// job is a driver process on a worker, with the DriverRunner that watches over it.
type job struct {
	id         string
	cores, mem int
	resources  []sparkmsg.ResourceInformation
	supervise  bool
	told       bool // to be killed
	over       bool
}

// launchJob starts a driver process. A worker does so whoever asks, also when it is decommissioned: the message names no
// master (B-068).
func (w *worker) launchJob(m *sparkmsg.LaunchDriver) {
	s := w.s
	s.check.jobArrived(w, m.DriverID)
	if w.cannotRead && s.check.jobFamily(m.DriverID) != w.fam {
		w.note("cannot read a launch")
		return
	}
	d := m.DriverDesc
	j := &job{id: m.DriverID, cores: int(d.Cores), mem: int(d.Mem), resources: m.Resources, supervise: d.Supervise}
	w.jobs = append(w.jobs, j)
	s.check.workerLoad(w)
	s.check.oneHand(w)
	unfetched := s.chance(s.opt.Load.FailStart) && !s.healed
	w.after(s.between(5*time.Millisecond, 2*time.Second), func() {
		switch {
		case j.over || j.told:
		case unfetched:
			w.finishJob(j, sparkmsg.DriverError, &sparkmsg.Exception{Class: "java.io.IOException", Message: "Can not find expected jar"})
		default:
			w.runJob(j)
		}
	})
}

// runJob lets a driver process end by itself, some day. A supervised one that fails is started again where it is, under
// its id, and nobody is told (B-144).
func (w *worker) runJob(j *job) {
	mean := w.s.opt.Load.JobLife
	if mean == 0 {
		return
	}
	w.after(w.s.exponential(mean), func() {
		switch {
		case j.over || j.told || w.s.healed:
		case w.s.chance(0.4):
			w.finishJob(j, sparkmsg.DriverFinished, nil)
		case j.supervise:
			w.note("driver %s is started again in place", j.id)
			w.runJob(j)
		default:
			w.finishJob(j, sparkmsg.DriverFailed, nil)
		}
	})
}

// killJob ends a driver process, which takes up to twice spark.worker.driverTerminateTimeout. One that exits with 0 counts
// as FINISHED all the same.
func (w *worker) killJob(id string) {
	i := slices.IndexFunc(w.jobs, func(j *job) bool { return j.id == id })
	if i < 0 {
		w.note("Asked to kill unknown driver %s", id)
		return
	}
	j := w.jobs[i]
	if j.told {
		return
	}
	j.told = true
	d := w.s.between(10*time.Millisecond, 2*time.Second)
	if w.s.chance(0.1) {
		d = w.s.between(10*time.Second, 20*time.Second)
	}
	state := sparkmsg.DriverKilled
	if w.s.chance(0.1) {
		state = sparkmsg.DriverFinished
	}
	w.after(d, func() {
		if !j.over {
			w.finishJob(j, state, nil)
		}
	})
}

// finishJob reports the end once, and one-way: where the connection is gone it is lost.
func (w *worker) finishJob(j *job, state sparkmsg.DriverState, exception *sparkmsg.Exception) {
	j.over = true
	w.jobs = slices.DeleteFunc(w.jobs, func(o *job) bool { return o == j })
	w.note("driver %s is %v", j.id, state)
	if w.master != nil {
		w.master.conn.send(&sparkmsg.DriverStateChanged{DriverID: j.id, State: state, Exception: exception})
	}
}

// jobIDs is what the worker lists of drivers.
func (w *worker) jobIDs() (ids []string) {
	if w.s.opt.Plant.HideJobs {
		return nil
	}
	for _, j := range w.jobs {
		ids = append(ids, j.id)
	}
	return ids
}
