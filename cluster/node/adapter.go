package node

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
)

// errHalted is what raft gets from a state machine that must not go on.
var errHalted = errors.New("the state machine is halted")

// adapter is the raft.FSM around fsm.Machine. Apply, ApplyBatch, Snapshot and Restore run on raft's FSM goroutine (or,
// for Restore at the start, on the one that starts raft); View and halt may be called from anywhere.
type adapter struct {
	log      hclog.Logger
	hooks    Hooks
	digested func(index, term uint64, digest string)
	fatal    func(error)

	machine atomic.Pointer[fsm.Machine] // replaced by Restore
	applied uint64                      // highest command applied since the last Restore; raft replays older ones when it is restarted in place

	view   atomic.Pointer[fsm.View]
	halted atomic.Bool
	once   sync.Once
}

var (
	_ raft.FSM         = (*adapter)(nil)
	_ raft.BatchingFSM = (*adapter)(nil)
)

func newAdapter(log hclog.Logger, hooks Hooks, fatal func(error), digested func(index, term uint64, digest string)) *adapter {
	a := &adapter{log: log, hooks: hooks, fatal: fatal, digested: digested}
	a.machine.Store(fsm.NewMachine())
	a.publish()
	return a
}

func (a *adapter) publish() {
	v := a.machine.Load().View()
	a.view.Store(&v)
}

// halt stops the state machine for good and reports why, once.
func (a *adapter) halt(err error) {
	a.halted.Store(true)
	a.once.Do(func() {
		a.log.Error("this master must not go on", "error", err)
		a.fatal(err)
	})
}

// Apply implements raft.FSM.
func (a *adapter) Apply(l *raft.Log) any { return a.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM.
func (a *adapter) ApplyBatch(logs []*raft.Log) []any {
	out := make([]any, len(logs))
	done := make([]Applied, 0, len(logs))
	machine := a.machine.Load()
	began := time.Now()
	for i, l := range logs {
		if a.halted.Load() {
			out[i] = errHalted
			continue
		}
		if l.Type != raft.LogCommand || l.Index <= a.applied {
			continue // configurations are raft's; what a restarted raft replays is applied already
		}
		data, err := raftstore.Unseal(l.Data)
		if err != nil {
			a.halt(raftstore.DamagedEntry(l.Index, err))
			out[i] = errHalted
			continue
		}
		cmd, err := fsm.DecodeCommand(data)
		if err != nil {
			a.halt(fmt.Errorf("log entry %d of term %d cannot be applied: %w; install a release that knows it", l.Index, l.Term, err))
			out[i] = errHalted
			continue
		}
		r := machine.Apply(l.Index, l.Term, cmd)
		a.applied = l.Index
		out[i] = r
		done = append(done, Applied{Index: l.Index, Term: l.Term, Cmd: cmd, Result: r})
		if cmd.Type() == fsm.TypeCheckDigest {
			a.digested(l.Index, l.Term, machine.View().Digest().String())
		}
	}
	if len(done) > 0 {
		a.publish()
		if a.hooks.Measured != nil {
			a.hooks.Measured(time.Since(began))
		}
		a.hooks.Applied(done)
	}
	return out
}

// Snapshot implements raft.FSM in O(1).
func (a *adapter) Snapshot() (raft.FSMSnapshot, error) {
	if a.halted.Load() {
		return nil, errHalted
	}
	return persister{a.machine.Load().Snapshot()}, nil
}

// Restore implements raft.FSM.
func (a *adapter) Restore(rc io.ReadCloser) error {
	if a.halted.Load() {
		return errHalted
	}
	m, err := fsm.Restore(rc)
	if err != nil {
		return err
	}
	a.machine.Store(m)
	a.applied = 0
	a.publish()
	a.hooks.Restored()
	return nil
}

// persister is the raft.FSMSnapshot: a root of persistent trees, written while later entries are applied.
type persister struct{ snapshot fsm.Snapshot }

// Persist implements raft.FSMSnapshot; raft cancels the sink when it fails.
func (p persister) Persist(sink raft.SnapshotSink) error {
	if err := p.snapshot.Write(sink); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (p persister) Release() {}

// View is the replicated state as of the last applied batch, in O(1).
func (n *Node) View() fsm.View { return *n.fsm.view.Load() }
