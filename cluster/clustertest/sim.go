package clustertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"raftmaster/transport/sparkmsg"
)

// epoch is when every simulation begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// maxEvents ends a simulation that runs away.
const maxEvents = 3_000_000

// Sim is one simulated cluster. It is used once, by one goroutine.
type Sim struct {
	seed uint64
	opt  Options
	rng  *rand.Rand

	now    time.Duration // since epoch
	events eventHeap
	seq    uint64
	steps  int

	net     *network
	raft    *raft
	masters []*masterNode // by number, the process that runs or ran last
	workers []*worker     // every worker process that ever was
	drivers []*driver     // every driver of an application that ever was
	clients []*client     // everybody who ever submitted a driver of cluster deploy mode
	disks   map[int]*disk // by number of the master
	check   *checker
	trace   *trace

	ports   int32
	healed  bool // activity and faults are over
	failure error
	settled time.Duration // how long it took to settle after the faults
}

// Result tells how a simulation went.
type Result struct {
	Events   int
	Commands int
	Settled  time.Duration // from the end of the faults until everything was as it should be
	Err      error
	Trace    string // the last events, when tracing
}

// NewSim prepares a simulation.
func NewSim(seed uint64, opt Options, tracing bool) *Sim {
	s := &Sim{seed: seed, opt: opt, disks: map[int]*disk{}, rng: rand.New(rand.NewPCG(seed, 0x5eed))}
	if tracing {
		s.trace = newTrace(s)
	}
	s.net = newNetwork(s)
	s.raft = newRaft(s)
	s.check = newChecker(s)
	return s
}

// Run simulates from the start until the cluster has settled after the faults, or something went wrong.
func (s *Sim) Run() Result {
	s.start()
	s.runUntil(s.opt.Active)
	s.heal()
	s.settle()
	r := Result{Events: s.steps, Commands: len(s.raft.log), Settled: s.settled, Err: s.failure}
	if s.trace != nil {
		r.Trace = s.trace.String()
	}
	return r
}

// start brings up masters first, and peers within some seconds.
func (s *Sim) start() {
	for i := range s.opt.Masters {
		s.masters = append(s.masters, newMaster(s, i))
	}
	s.raft.elect(s.between(0, 300*time.Millisecond))
	for range s.opt.Workers {
		s.after(s.between(0, 10*time.Second), func() { s.newWorker("", nil) })
	}
	for range s.opt.Drivers {
		s.after(s.between(0, 15*time.Second), func() { s.newDriver(nil) })
	}
	s.startFaults()
}

// runUntil runs every event up to a moment.
func (s *Sim) runUntil(end time.Duration) {
	for s.failure == nil {
		e, ok := s.events.popUntil(end)
		if !ok {
			break
		}
		s.now = e.at
		s.steps++
		if s.steps > maxEvents {
			s.fail("more than %d events: something goes round in circles", maxEvents)
			return
		}
		e.fn()
	}
	if s.failure == nil {
		s.now = end
	}
}

// errSim marks what a checker found.
var errSim = errors.New("simulation")

// fail records what went wrong; the first report ends the simulation.
func (s *Sim) fail(format string, args ...any) {
	if s.failure == nil {
		s.failure = fmt.Errorf("%w at %v: %s", errSim, s.now, fmt.Sprintf(format, args...))
		s.note("sim", "FAILURE: %v", s.failure)
	}
}

// note adds a line to the trace, if there is one.
func (s *Sim) note(who, format string, args ...any) {
	if s.trace != nil {
		s.trace.add(who, fmt.Sprintf(format, args...))
	}
}

// at runs fn at a moment that is not in the past.
func (s *Sim) at(t time.Duration, fn func()) {
	s.seq++
	s.events.push(event{at: max(t, s.now), seq: s.seq, fn: fn})
}

func (s *Sim) after(d time.Duration, fn func()) { s.at(s.now+d, fn) }

// Now is the wall clock of every master.
func (s *Sim) Now() time.Time { return epoch.Add(s.now) }

// between draws a time in [lo, hi).
func (s *Sim) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(s.rng.Int64N(int64(hi-lo)))
}

// exponential draws a time with a mean.
func (s *Sim) exponential(mean time.Duration) time.Duration {
	return time.Duration(s.rng.ExpFloat64() * float64(mean))
}

func (s *Sim) chance(p float64) bool { return p > 0 && s.rng.Float64() < p }

// pick draws one element; false when there is none.
func pick[T any](s *Sim, of []T) (T, bool) {
	if len(of) == 0 {
		var zero T
		return zero, false
	}
	return of[s.rng.IntN(len(of))], true
}

// newAddress gives an address that nobody had before.
func (s *Sim) newAddress(host string) sparkmsg.Address {
	s.ports++
	return sparkmsg.Address{Host: host, Port: 20000 + s.ports}
}

// event is something that happens at a moment.
type event struct {
	at  time.Duration
	seq uint64 // order of creation: equal moments run in a defined order
	fn  func()
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// eventHeap is a binary heap; container/heap would allocate for each event.
type eventHeap []event

func (h *eventHeap) push(e event) {
	a := append(*h, e)
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(a[up]) {
			break
		}
		a[i] = a[up]
		i = up
	}
	a[i] = e
	*h = a
}

// popUntil takes the earliest event that is not after end.
func (h *eventHeap) popUntil(end time.Duration) (event, bool) {
	a := *h
	if len(a) == 0 || a[0].at > end {
		return event{}, false
	}
	top, last := a[0], a[len(a)-1]
	a[len(a)-1] = event{}
	a = a[:len(a)-1]
	*h = a
	if len(a) == 0 {
		return top, true
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(a) {
			break
		}
		if down+1 < len(a) && a[down+1].before(a[down]) {
			down++
		}
		if !a[down].before(last) {
			break
		}
		a[i] = a[down]
		i = down
	}
	a[i] = last
	return top, true
}
