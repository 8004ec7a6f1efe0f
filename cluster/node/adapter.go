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
	known    fsm.Level // of commands

	machine atomic.Pointer[fsm.Machine] // replaced by Restore
	applied uint64                      // highest command applied since the last Restore; raft replays older ones when it is restarted in place

	view    atomic.Pointer[fsm.View]
	halted  atomic.Bool
	refused atomic.Pointer[error]
	once    sync.Once
}

var (
	_ raft.FSM         = (*adapter)(nil)
	_ raft.BatchingFSM = (*adapter)(nil)
)

func newAdapter(log hclog.Logger, hooks Hooks, fatal func(error), known fsm.Level, digested func(index, term uint64, digest string)) *adapter {
	a := &adapter{log: log, hooks: hooks, fatal: fatal, known: known, digested: digested}
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
	entries := make([]fsm.Entry, 0, len(logs))
	places := make([]int, 0, len(logs)) // of the entries in out
	began := time.Now()
	for i, l := range logs {
		if a.halted.Load() {
			out[i] = errHalted
			continue
		}
		if l.Type != raft.LogCommand || l.Index <= a.applied {
			continue // configurations are raft's; what a restarted raft replays is applied already
		}
		cmd, err := decodeEntry(l, a.known)
		if err != nil {
			a.halt(err)
			out[i] = errHalted
			continue
		}
		entries, places = append(entries, fsm.Entry{Index: l.Index, Term: l.Term, Cmd: cmd}), append(places, i)
	}
	if len(entries) == 0 {
		return out
	}
	results := a.machine.Load().ApplyBatch(entries)
	a.applied = entries[len(entries)-1].Index
	done := make([]Applied, len(entries))
	for i, e := range entries {
		out[places[i]] = results[i]
		done[i] = Applied{Index: e.Index, Term: e.Term, Cmd: e.Cmd, Result: results[i]}
		if report, ok := results[i].Value.(fsm.DigestReport); ok {
			a.digested(e.Index, e.Term, report.Digest.String())
		}
	}
	a.publish()
	if a.hooks.Measured != nil {
		a.hooks.Measured(time.Since(began))
	}
	a.hooks.Applied(done)
	return out
}

// decodeEntry reads the command of a log entry; the error says what to do.
func decodeEntry(l *raft.Log, known fsm.Level) (fsm.Command, error) {
	data, err := raftstore.Unseal(l.Data)
	if err != nil {
		return nil, raftstore.DamagedEntry(l.Index, err)
	}
	cmd, err := fsm.DecodeCommandAt(data, known)
	if err != nil {
		return nil, fmt.Errorf("log entry %d of term %d cannot be applied: %w; install a release that knows it", l.Index, l.Term, err)
	}
	return cmd, nil
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
	if err == nil && m.View().Level() > a.known {
		err = &fsm.LevelError{Needed: m.View().Level(), Known: a.known}
	}
	if err != nil {
		a.refuse(err)
		return err
	}
	a.machine.Store(m)
	a.applied = 0
	a.publish()
	a.hooks.Restored()
	return nil
}

// refuse halts when a snapshot is of a newer release: raft would try an older one, or ask for this one again.
func (a *adapter) refuse(err error) {
	var level *fsm.LevelError
	if errors.As(err, &level) {
		err = fmt.Errorf("the snapshot cannot be read: %w", err)
		a.refused.Store(&err)
		a.halt(err)
	}
}

// refusal is why a snapshot was refused, nil when none was; raft's own error does not say.
func (a *adapter) refusal() error {
	if err := a.refused.Load(); err != nil {
		return *err
	}
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
