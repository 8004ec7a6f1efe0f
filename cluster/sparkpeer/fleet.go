package sparkpeer

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"raftmaster/transport/sparkmsg"
)

// Counters are the numbers of a fleet.
type Counters struct {
	Registrations atomic.Int64 // RegisterWorker messages sent
	Registered    atomic.Int64 // RegisteredWorker messages received
	Heartbeats    atomic.Int64
	Received      atomic.Int64 // one-way messages from masters
	Launches      atomic.Int64 // executors and drivers started
	Duplicates    atomic.Int64 // of them, launches of something that was there already
	Ends          atomic.Int64 // executors ended
	Reports       atomic.Int64 // ExecutorStateChanged answered
}

// FleetConfig describes a fleet of equal workers.
type FleetConfig struct {
	// Worker is the model of all. Its Host, Port and ID are not used; Plain and no kept events save memory.
	Worker WorkerConfig
	// N is the number of workers.
	N int
	// Net is the second octet of their addresses, 127.NET.y.z; 77 if 0. Each worker has its own address.
	Net int
	// Families, if any, are given to the workers in turn.
	Families []sparkmsg.Family
	// Ramp spreads the starts over this time.
	Ramp time.Duration
}

// Fleet runs many workers in this process.
type Fleet struct {
	Counters Counters
	Workers  []*Worker
}

// NewFleet starts the workers. The caller must Close the fleet.
func NewFleet(cfg FleetConfig) (*Fleet, error) {
	const maxWorkers = 250 * 250
	if cfg.N < 1 || cfg.N > maxWorkers {
		return nil, fmt.Errorf("sparkpeer: a fleet has 1 to %d workers", maxWorkers)
	}
	if cfg.Net == 0 {
		cfg.Net = 77
	}
	f := &Fleet{}
	for i := range cfg.N {
		w := cfg.Worker
		w.Host = fmt.Sprintf("127.%d.%d.%d", cfg.Net, 1+i/250, 1+i%250)
		w.Port, w.ID = 0, ""
		if len(cfg.Families) > 0 {
			w.Family = cfg.Families[i%len(cfg.Families)]
		}
		worker, err := newWorker(w, &f.Counters)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("worker %d of the fleet: %w", i, err)
		}
		f.Workers = append(f.Workers, worker)
		if cfg.Ramp > 0 {
			time.Sleep(cfg.Ramp / time.Duration(cfg.N))
		}
	}
	return f, nil
}

// RegisteredCount returns how many workers are registered at present.
func (f *Fleet) RegisteredCount() int {
	n := 0
	for _, w := range f.Workers {
		if w.Registered() {
			n++
		}
	}
	return n
}

// ErrNotRegistered is wrapped by WaitRegistered.
var ErrNotRegistered = errors.New("sparkpeer: not all workers registered in time")

// WaitRegistered waits until all workers are registered.
func (f *Fleet) WaitRegistered(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		n := f.RegisteredCount()
		if n == len(f.Workers) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %d of %d", ErrNotRegistered, n, len(f.Workers))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Rates are counts per second between two calls of Fleet.Sample.
type Rates struct{ Heartbeats, Registrations, Launches, Reports, Received float64 }

// Sampler turns counters into rates.
type Sampler struct {
	f    *Fleet
	at   time.Time
	last [5]int64
}

// Sampler returns a Sampler that begins now.
func (f *Fleet) Sampler() *Sampler { return &Sampler{f: f, at: time.Now(), last: f.sample()} }

func (f *Fleet) sample() [5]int64 {
	c := &f.Counters
	return [5]int64{c.Heartbeats.Load(), c.Registrations.Load(), c.Launches.Load(), c.Reports.Load(), c.Received.Load()}
}

// Next returns the rates since the last call.
func (s *Sampler) Next() Rates {
	now, have := time.Now(), s.f.sample()
	seconds := max(now.Sub(s.at).Seconds(), 1e-9)
	rate := func(i int) float64 { return float64(have[i]-s.last[i]) / seconds }
	r := Rates{Heartbeats: rate(0), Registrations: rate(1), Launches: rate(2), Reports: rate(3), Received: rate(4)}
	s.at, s.last = now, have
	return r
}

// Close ends all workers.
func (f *Fleet) Close() {
	var wg sync.WaitGroup
	for _, w := range f.Workers {
		wg.Go(w.Close)
	}
	wg.Wait()
}
