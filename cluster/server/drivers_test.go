package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"raftmaster/cluster/sparkpeer"
	"raftmaster/fsm"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// submitter starts a submission client.
func (c *cluster) submitter(fam sparkmsg.Family) *sparkpeer.SubmitClient {
	c.t.Helper()
	s, err := sparkpeer.NewSubmitClient(sparkpeer.SubmitConfig{Common: sparkpeer.Common{Host: newHost(), Masters: c.addresses(), Family: fam}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(s.Close)
	return s
}

// submit submits a driver, which must be accepted.
func (c *cluster) submit(s *sparkpeer.SubmitClient, desc *sparkmsg.DriverDescription) string {
	c.t.Helper()
	r, err := s.Submit(c.t.Context(), desc)
	if err != nil || !r.Success {
		c.t.Fatalf("the submission gave %+v, %v", r, err)
	}
	return *r.DriverID
}

// becomes waits until a client is told a driver's state.
func (c *cluster) becomes(s *sparkpeer.SubmitClient, id string, want sparkmsg.DriverState) *sparkmsg.DriverStatusResponse {
	c.t.Helper()
	var last *sparkmsg.DriverStatusResponse
	eventuallyNil(c.t, "driver "+id, func() error {
		st, err := s.Status(c.t.Context(), id)
		if err != nil {
			return err
		}
		if !st.Found || *st.State != want {
			return fmt.Errorf("it is %+v, want %s", st, want)
		}
		last = st
		return nil
	})
	return last
}

// launchedDriver gives what a worker was told to start.
func launchedDriver(w *worker, id string) *sparkmsg.LaunchDriver {
	for _, e := range w.Log().All() {
		if m, ok := e.Msg.(*sparkmsg.LaunchDriver); ok && m.DriverID == id {
			return m
		}
	}
	return nil
}

// B-134 to B-141 over TCP, for clients and workers of 3.5 and 4.3 at once; S12: each driver is told of all masters.
func TestB134_S12_DriversOfBothReleases(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	for _, fam := range []sparkmsg.Family{sparkmsg.FamilyB, sparkmsg.FamilyE} {
		w, s := c.readyWorker(fam, 4), c.submitter(fam)
		standby := c.standbys()[0].address()
		id := c.submit(s, sparkpeer.DriverJob("com.example.Job", 1, 512, false, standby))
		st := c.becomes(s, id, sparkmsg.DriverRunning)
		if *st.WorkerID != w.ID() {
			t.Errorf("family %s: it runs on %s", fam, *st.WorkerID)
		}
		wait(t, w.Log(), "LaunchDriver")
		var names []string
		for _, a := range c.addresses() {
			names = append(names, a.String())
		}
		if opts := launchedDriver(w, id).DriverDesc.Command.JavaOpts; opts[0] != "-Dspark.master=spark://"+strings.Join(names, ",") {
			t.Errorf("family %s: the driver is told %s", fam, opts[0])
		}
		ends := c.submit(s, sparkpeer.DriverJob("com.example.Other", 1, 512, false, standby))
		eventually(t, "its start", func() bool { return slices.Contains(w.Drivers(), ends) })
		w.EndDriver(ends, sparkmsg.DriverFailed)
		c.becomes(s, ends, sparkmsg.DriverFailed)
		if k, err := s.Kill(t.Context(), id); err != nil || !k.Success {
			t.Errorf("family %s: the kill gave %+v, %v", fam, k, err)
		}
		c.becomes(s, id, sparkmsg.DriverKilled)
		if k, err := s.Kill(t.Context(), id); err != nil || k.Success {
			t.Errorf("family %s: the kill of an ended driver gave %+v, %v", fam, k, err)
		}
	}
}

// G-12, S17: what waits when the leader is killed waits at the next one, in order, and runs once.
func TestG12_S17_QueuedDriversSurviveTheLeader(t *testing.T) {
	t.Parallel()
	c := start(t, 3, shortFailover)
	s := c.submitter(sparkmsg.FamilyE)
	var ids []string
	for i := range 4 { // one client is one process: the same description again would be a repetition
		ids = append(ids, c.submit(s, sparkpeer.DriverJob(fmt.Sprintf("com.example.Job%d", i), 4, 512, false, c.addresses()...)))
	}
	old := c.leader()
	old.kill()
	w := c.readyWorker(sparkmsg.FamilyE, 4)
	for _, id := range ids {
		eventually(t, "the start of "+id, func() bool { return slices.Contains(w.Drivers(), id) })
		w.EndDriver(id, sparkmsg.DriverFinished)
		c.becomes(s, id, sparkmsg.DriverFinished)
	}
	if n := w.Log().Count("LaunchDriver"); n != len(ids) {
		t.Errorf("%d launches of %d drivers", n, len(ids))
	}
}

// S10, B-138: the worker of a supervised driver is killed: the driver goes on elsewhere under a new id, by which and by
// the old one it can be killed.
func TestS10_SupervisedDriverGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	s := c.submitter(sparkmsg.FamilyE)
	one := c.readyWorker(sparkmsg.FamilyE, 4)
	id := c.submit(s, sparkpeer.DriverJob("com.example.Job", 1, 512, true, c.addresses()...))
	eventually(t, "its start", func() bool { return slices.Contains(one.Drivers(), id) })
	two := c.readyWorker(sparkmsg.FamilyE, 4)
	one.kill()
	c.becomes(s, id, sparkmsg.DriverRelaunching)
	eventually(t, "its relaunch", func() bool { return len(two.Drivers()) == 1 })
	next := two.Drivers()[0]
	if k, err := s.Kill(t.Context(), id); err != nil || !k.Success {
		t.Errorf("the kill by the old id gave %+v, %v", k, err)
	}
	c.becomes(s, next, sparkmsg.DriverKilled)
}

// S19: the leader is killed right after it has accepted a driver, again and again: each accepted driver runs once.
func TestS19_AcceptedDriversRunOnceWhenTheLeaderIsKilled(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, shortFailover)
	workers := []*worker{c.readyWorker(sparkmsg.FamilyE, 64), c.readyWorker(sparkmsg.FamilyE, 64)}
	const rounds = 4
	for range rounds {
		s := c.submitter(sparkmsg.FamilyE)
		l := c.leader()
		var id string
		eventuallyNil(t, "an accepted driver", func() error {
			r, err := s.Submit(t.Context(), sparkpeer.DriverJob("com.example.Job", 1, 64, false, c.addresses()...))
			if err != nil {
				return err
			}
			id = *r.DriverID
			return nil
		})
		l.kill()
		c.leader()
		eventually(t, "the start of "+id, func() bool {
			return slices.ContainsFunc(workers, func(w *worker) bool { return slices.Contains(w.Drivers(), id) })
		})
		l.start()
	}
	c.settle()
	launched := map[string]int{}
	for _, w := range workers {
		for _, e := range w.Log().All() {
			if m, ok := e.Msg.(*sparkmsg.LaunchDriver); ok {
				launched[m.DriverID]++
			}
		}
	}
	for id, n := range launched {
		if n != 1 {
			t.Errorf("%s was launched %d times", id, n)
		}
	}
	if len(launched) != rounds {
		t.Errorf("%d drivers were launched, want %d", len(launched), rounds)
	}
}

// S22, G-03: a driver that could ask once only, while there was no quorum, is registered by the master that it asked.
func TestS22_G03_DriverThatAskedInAnOutageIsRegistered(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, shortFailover)
	heard := c.masters[0]
	c.masters[1].kill()
	c.masters[2].kill()
	a := c.app(sparkmsg.FamilyE, 0, func(cfg *sparkpeer.AppConfig) {
		cfg.Masters, cfg.RegisterEvery = []frame.Address{heard.address()}, 2*patience
	})
	eventually(t, "its question", func() bool { return a.Log().Count(sparkpeer.DidRegister) == 1 })
	c.masters[1].start()
	eventuallyNil(t, "leadership of the master that was asked", func() error {
		l := c.leader()
		if l == heard {
			return nil
		}
		if _, err := l.server().node.TransferLeadership(t.Context(), heard.server().node.NodeID()); err != nil {
			return err
		}
		return errors.New("it was handed over just now")
	})
	registered(t, a)
	if n := a.Log().Count(sparkpeer.DidRegister); n != 1 {
		t.Errorf("it asked %d times", n)
	}
	v := heard.server().State()
	if app, ok := v.Application(a.ID()); !ok || app.State != fsm.AppWaiting {
		t.Errorf("its application is %+v", app)
	}
}
