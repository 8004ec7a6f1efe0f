package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

const smallJournal = dataStart + 12*pageSize

// model is a log as it must be.
type model struct {
	first, last uint64 // 0: empty
	next        uint64 // index of the next entry if the log is empty
	term        uint64
	entries     map[uint64]*raft.Log
}

func (m model) clone() model {
	m.entries = maps.Clone(m.entries)
	return m
}

func (m *model) store(logs []*raft.Log) {
	for _, l := range logs {
		m.entries[l.Index] = l
	}
	if m.first == 0 {
		m.first = logs[0].Index
	}
	m.last = logs[len(logs)-1].Index
	m.next = m.last + 1
}

func (m *model) remove(from, to uint64) {
	for i := from; i <= to; i++ {
		delete(m.entries, i)
	}
	switch {
	case from <= m.first && to >= m.last:
		m.first, m.last, m.next = 0, 0, from
	case from <= m.first:
		m.first = to + 1
	default:
		m.last, m.next = from-1, from
	}
}

// differs compares a store with the model.
func (m *model) differs(s *Store) error {
	first, last, err := s.Bounds()
	if err != nil || first != m.first || last != m.last {
		return fmt.Errorf("the log is %d to %d, want %d to %d (%v)", first, last, m.first, m.last, err)
	}
	for i := max(m.first, 1); i <= m.last+1; i++ {
		var got raft.Log
		err := s.Logs().GetLog(i, &got)
		want := m.entries[i]
		if want == nil {
			if !errors.Is(err, raft.ErrLogNotFound) {
				return fmt.Errorf("entry %d is there (%v)", i, err)
			}
			continue
		}
		if err != nil || got.Index != i || got.Term != want.Term || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) ||
			!bytes.Equal(got.Extensions, want.Extensions) || !got.AppendedAt.Equal(want.AppendedAt) {
			return fmt.Errorf("entry %d is %+v, want %+v (%v)", i, got, *want, err)
		}
	}
	if first > 0 && s.BytesAfter(0) < int64(m.last-m.first+1)*entryOverhead {
		return fmt.Errorf("%d bytes are counted for entries %d to %d", s.BytesAfter(0), m.first, m.last)
	}
	return nil
}

// run is one sequence of operations on a store and the model of it.
type run struct {
	t     *testing.T
	rng   *rand.Rand
	dir   string
	disk  *faultyDisk
	store *Store
	model model
	maybe []model // states beside model that a crash may leave, because an operation that was not acknowledged did its work
	steps []string
}

func (r *run) note(format string, args ...any) {
	r.steps = append(r.steps, fmt.Sprintf(format, args...))
}

func (r *run) fatal(err error) {
	r.t.Helper()
	for _, s := range r.steps {
		r.t.Log(s)
	}
	r.t.Fatal(err)
}

func (r *run) open() {
	r.t.Helper()
	o := options(r.dir)
	o.disk, o.journalSize = r.disk, smallJournal
	var err error
	if r.store, err = Open(o); err != nil {
		r.fatal(err)
	}
}

func (r *run) batch() []*raft.Log {
	logs := make([]*raft.Log, 1+r.rng.IntN(6))
	for i := range logs {
		data := make([]byte, r.rng.IntN([]int{40, 600, 5000}[r.rng.IntN(3)]))
		for k := range data {
			data[k] = byte(r.rng.Uint32())
		}
		logs[i] = &raft.Log{Index: r.model.next + uint64(i), Term: r.model.term, Type: raft.LogCommand, Data: Seal(data), AppendedAt: time.Unix(r.rng.Int64N(1<<31), r.rng.Int64N(1e9))}
		if r.rng.IntN(10) == 0 {
			logs[i].Type, logs[i].Extensions = raft.LogBarrier, []byte("more")
		}
	}
	return logs
}

// change tries an operation on the store and, if that works, on the model.
func (r *run) change(what string, onStore func() error, onModel func(*model)) {
	r.t.Helper()
	after := r.model.clone()
	onModel(&after)
	err := onStore()
	r.note("%s: %v", what, err)
	if err != nil {
		r.maybe = append(r.maybe, after)
		return
	}
	r.model, r.maybe = after, nil
}

func (r *run) step() {
	m := &r.model
	switch n := r.rng.IntN(100); {
	case n < 60:
		logs := r.batch()
		r.change(fmt.Sprintf("store %d to %d", logs[0].Index, logs[len(logs)-1].Index),
			func() error { return r.store.Logs().StoreLogs(logs) }, func(m *model) { m.store(logs) })
	case n < 68 && m.first > 0: // a conflict: the end goes, and entries of a later term come
		from := m.last - min(m.last-m.first, r.rng.Uint64N(8))
		m.term++
		to := m.last
		r.change(fmt.Sprintf("remove %d to %d", from, to),
			func() error { return r.store.Logs().DeleteRange(from, to) }, func(m *model) { m.remove(from, to) })
	case n < 76 && m.first > 0: // a compaction
		from, to := m.first, m.first+r.rng.Uint64N(m.last-m.first+1)
		r.change(fmt.Sprintf("remove %d to %d", from, to),
			func() error { return r.store.Logs().DeleteRange(from, to) }, func(m *model) { m.remove(from, to) })
	case n < 80:
		r.note("close")
		if err := r.store.Close(); err != nil && r.disk.sync == nil && r.disk.budget < 0 {
			r.fatal(err)
		}
		r.heal()
		r.open()
		r.settle()
	case n < 90:
		r.crash(n%2 == 0)
	case n < 93:
		budget := r.rng.Int64N(30000)
		r.note("writes fail after %d bytes", budget)
		r.disk.set(func(d *faultyDisk) { d.budget = budget })
	case n < 96:
		r.note("syncs fail")
		r.disk.set(func(d *faultyDisk) { d.sync = errors.New("sync failed") })
	default:
		r.heal()
	}
}

func (r *run) heal() {
	r.disk.set(func(d *faultyDisk) { d.budget, d.sync = -1, nil })
}

func (r *run) crash(power bool) {
	r.note("crash, loss of power: %t", power)
	if err := crash(r.store); err != nil {
		r.fatal(err)
	}
	if power {
		if err := r.disk.powerLoss(r.rng); err != nil {
			r.fatal(err)
		}
	}
	r.heal()
	r.open()
	r.settle()
}

// settle finds out which of the allowed states a restart has found.
func (r *run) settle() {
	var errs []error
	for _, m := range append([]model{r.model}, r.maybe...) {
		err := m.differs(r.store)
		if err == nil {
			m.term = r.model.term
			r.model, r.maybe = m, nil
			return
		}
		errs = append(errs, err)
	}
	r.fatal(errors.Join(errs...))
}

// Whatever happens, all that was acknowledged is there after it, and beside it at most an operation that was not.
func TestTheLogIsWhatWasAcknowledged(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &run{
				t: t, rng: rand.New(rand.NewPCG(uint64(seed), 7)), dir: t.TempDir(), disk: newFaultyDisk(),
				model: model{next: 1, term: 1, entries: make(map[uint64]*raft.Log)},
			}
			r.open()
			if err := r.store.JoinCluster("c1", nil); err != nil {
				t.Fatal(err)
			}
			snapshot(t, r.store, 1<<40, 1) // so that a log may begin anywhere
			for range 100 {
				r.step()
				if err := r.model.differs(r.store); err != nil {
					r.fatal(err)
				}
			}
			if err := r.store.Close(); err != nil && !r.failing() {
				r.fatal(err)
			}
		})
	}
}

func (r *run) failing() (f bool) {
	r.disk.set(func(d *faultyDisk) { f = d.sync != nil || d.budget >= 0 })
	return f
}
