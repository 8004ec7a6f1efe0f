package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"raftmaster/cluster/sparkpeer"
	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// close runs the closing checks of every test, and ends everything.
func (c *cluster) close() {
	c.t.Helper()
	if !c.t.Failed() && !c.apart {
		c.check()
	}
	var wg sync.WaitGroup
	for _, m := range c.masters {
		wg.Go(m.kill)
	}
	for _, w := range c.workers {
		wg.Go(w.Close)
	}
	for _, a := range c.apps {
		wg.Go(a.Close)
	}
	wg.Wait()
	if c.t.Failed() {
		for _, m := range c.masters {
			c.t.Logf("log of %s:\n%s", m.cfg.Advertise(), tail(m.log.String(), 60))
		}
		for _, w := range c.workers {
			c.t.Logf("worker %s saw %v", w.ID(), lastEvents(w.Log()))
		}
		for _, a := range c.apps[max(0, len(c.apps)-5):] {
			c.t.Logf("application %s %v saw %v", a.Address(), a.IDs(), lastEvents(a.Log()))
		}
	}
}

func tail(s string, lines int) string {
	all := strings.Split(s, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func lastEvents(l *sparkpeer.EventLog) []string {
	all := l.All()
	all = all[max(0, len(all)-40):]
	out := make([]string, len(all))
	for i, e := range all {
		out[i] = e.At.Format("05.000 ") + e.Kind + " " + e.Note
	}
	return out
}

// check is what must hold at the end of every test, whatever happened in it: once all masters are up and quiet, they
// agree to the last byte, their state is sound, and it is what the workers really run.
func (c *cluster) check() {
	c.t.Helper()
	c.startAll()
	c.leader()
	c.settle()
	for _, s := range c.running() {
		if err := fsm.Check(s.State()); err != nil {
			c.t.Errorf("%s: %v", s, err)
		}
		select {
		case err := <-s.fatal:
			c.t.Errorf("%s wanted to end: %v", s, err)
		default:
		}
	}
	for _, w := range c.workers {
		if n := w.Log().Count(sparkpeer.DidExit); n != 0 && !w.gone {
			c.t.Errorf("worker %s exited", w.ID())
		}
		if n := w.Log().Count(sparkpeer.DidDuplicate); n != 0 {
			c.t.Errorf("worker %s was told %d times to launch what it runs already", w.ID(), n)
		}
	}
	c.checkIDs()
}

// settle waits until everything agrees.
func (c *cluster) settle() {
	c.t.Helper()
	eventuallyNil(c.t, "the masters and the workers agree", func() error {
		if err := c.sameState(); err != nil {
			return err
		}
		return c.workersAgree(c.masters[0].server().State())
	})
}

// sameState compares the masters; at one index two digests are a fault that no waiting heals.
func (c *cluster) sameState() error {
	first := c.masters[0].server().State()
	for _, m := range c.masters[1:] {
		v := m.server().State()
		if v.Index() != first.Index() {
			return fmt.Errorf("applied index %d and %d", first.Index(), v.Index())
		}
		if v.Digest() != first.Digest() {
			c.t.Fatalf("digests differ at index %d", v.Index())
		}
	}
	return nil
}

// workersAgree compares the replicated executors of each worker with its own.
func (c *cluster) workersAgree(v fsm.View) error {
	for _, w := range c.workers {
		known, ok := v.Worker(w.ID())
		if w.gone {
			if ok && known.ExecutorCount > 0 {
				return fmt.Errorf("worker %s is gone, and %d executors are booked on it", w.ID(), known.ExecutorCount)
			}
			continue
		}
		if !ok || !known.Live() {
			return fmt.Errorf("worker %s is not live in the state", w.ID())
		}
		booked := map[string]sparkmsg.ExecutorState{}
		cores := 0
		v.ExecutorsOfWorker(w.ID(), func(e *fsm.Executor) bool {
			booked[e.Key().String()] = sparkmsg.ExecutorState(e.State)
			cores += e.Cores
			return true
		})
		if own := w.Executors(); !maps.Equal(own, booked) {
			return fmt.Errorf("worker %s runs %v, the state has %v", w.ID(), own, booked)
		}
		var drivers []string
		v.DriversOnWorker(w.ID(), func(d *fsm.Driver) bool {
			drivers = append(drivers, d.ID)
			cores += d.Cores
			return true
		})
		own := w.Drivers()
		slices.Sort(own)
		if slices.Sort(drivers); !slices.Equal(own, drivers) {
			return fmt.Errorf("worker %s runs the drivers %v, the state has %v", w.ID(), own, drivers)
		}
		if cores != known.CoresUsed || cores != int(w.CoresUsed()) {
			return fmt.Errorf("worker %s uses %d cores, the state says %d", w.ID(), w.CoresUsed(), known.CoresUsed)
		}
	}
	return nil
}

// checkIDs makes sure that no id was given twice: to two applications, or to two executors of one.
func (c *cluster) checkIDs() {
	c.t.Helper()
	owner := map[string]*sparkpeer.App{}
	for _, a := range c.apps {
		for _, id := range a.IDs() {
			if id != a.IDs()[0] {
				c.t.Errorf("driver %s got the ids %v", a.Address(), a.IDs())
			}
			if other := owner[id]; other != nil && other != a {
				c.t.Errorf("id %s went to two drivers, %s and %s", id, other.Address(), a.Address())
			}
			owner[id] = a
		}
	}
	ran := map[string]string{}
	for _, w := range c.workers {
		for _, e := range w.Log().All() {
			if e.Kind != sparkpeer.DidLaunch {
				continue
			}
			if other, ok := ran[e.Note]; ok {
				c.t.Errorf("executor %s was launched on %s and on %s", e.Note, other, w.ID())
			}
			ran[e.Note] = w.ID()
		}
	}
}
