package fsm

import (
	"fmt"
	"sync/atomic"
)

// Machine is the replicated state machine.
type Machine struct {
	current atomic.Pointer[state]
	sums    *summer
	refs    workerRefs // what allWorkers listed last
}

// NewMachine gives the empty state at index 0.
func NewMachine() *Machine { return machineAt(emptyState()) }

func machineAt(s *state) *Machine {
	m := &Machine{sums: newSummer()}
	m.current.Store(s)
	return m
}

// Apply applies one entry of the log. Indexes must rise: an index that does not is a programmer's error, as is a
// Command of another package, and panics. Only the FSM goroutine may call it. A command that is refused (Result.Err)
// has changed nothing but the index. Nobody may write to what the command points to afterwards.
func (m *Machine) Apply(index, term uint64, cmd Command) Result {
	base := m.current.Load()
	r, next := m.apply(base, index, term, cmd)
	if r.Err != nil {
		unchanged := *base
		unchanged.index, unchanged.term = index, term
		m.current.Store(&unchanged)
		return r
	}
	next.tables.commit()
	m.current.Store(next)
	return r
}

// apply gives the state after a command, whose tables are not committed; nil when the command is refused.
func (m *Machine) apply(base *state, index, term uint64, cmd Command) (Result, *state) {
	if index <= base.index {
		panic(fmt.Sprintf("fsm: index %d applied after %d", index, base.index))
	}
	t := newTx(base, m.sums, index, term, cmd.Header())
	t.refs = &m.refs
	value, err := t.dispatch(cmd)
	if err != nil {
		return Result{Err: err}, nil
	}
	if t.replacement != nil {
		return Result{Value: value}, t.replacement
	}
	return Result{Value: value, Effects: t.effects}, t.finish()
}

// Entry is one command of the log.
type Entry struct {
	Index, Term uint64
	Cmd         Command
}

// ApplyBatch does what Apply does for each entry in turn, and gives their results in order. Readers see the state before
// all of them, then the one after. Nodes of the trees that several commands change are copied once, which is most of
// the cost of a command.
func (m *Machine) ApplyBatch(entries []Entry) []Result {
	if results, ok := m.applyTogether(entries); ok {
		return results
	}
	results := make([]Result, len(entries))
	for i, e := range entries {
		results[i] = m.Apply(e.Index, e.Term, e.Cmd)
	}
	return results
}

// applyTogether applies all entries in one edit of the tables. When one of them is refused it gives up without a trace:
// what a refused command wrote before it failed cannot be told from what the commands before it wrote.
func (m *Machine) applyTogether(entries []Entry) ([]Result, bool) {
	results := make([]Result, len(entries))
	s := m.current.Load()
	for i, e := range entries {
		if results[i], s = m.apply(s, e.Index, e.Term, e.Cmd); s == nil {
			return nil, false
		}
	}
	s.tables.commit()
	if len(entries) > 0 {
		m.current.Store(s)
	}
	return results, true
}

// View gives an immutable view of the state in O(1), from any goroutine.
func (m *Machine) View() View { return View{s: m.current.Load()} }

// Snapshot gives the state for writing in O(1), from any goroutine.
func (m *Machine) Snapshot() Snapshot { return Snapshot{s: m.current.Load()} }

// dispatch applies the command. New command types are added here, in commandCodecs and in the tests' generators.
func (t *tx) dispatch(cmd Command) (any, error) {
	switch c := cmd.(type) {
	case RegisterWorker:
		return t.registerWorker(c)
	case RemoveWorker:
		return t.removeWorkerCommand(c)
	case ReapWorkers:
		return t.reapWorkers(c)
	case RegisterApplication:
		return t.registerApplication(c)
	case FinishApplication:
		return t.finishApplicationCommand(c)
	case ConfirmApplication:
		return t.confirmApplication(c)
	case PlaceExecutors:
		return t.placeExecutors(c)
	case ExecutorChanged:
		return t.executorChanged(c)
	case SetTargets:
		return t.setTargets(c)
	case KillExecutors:
		return t.killExecutors(c)
	case ReconcileWorker:
		return t.reconcileWorker(c)
	case DecommissionWorkers:
		return t.decommissionWorkers(c)
	case LaunchReceipts:
		return t.launchReceipts(c)
	case CheckDigest:
		return DigestReport{Index: t.index, Digest: t.digest.digest()}, nil
	case MarkIncompatible:
		return t.markIncompatible(c)
	case SetRelease:
		return t.setRelease(c)
	case LeaderElected:
		return t.leaderElected(c)
	case InitCluster:
		return t.initCluster(c)
	case ClearCompleted:
		return t.clearCompleted(), nil
	case Skipped:
		return nil, nil
	}
	return t.dispatchDriver(cmd)
}

// dispatchDriver applies the commands of command_driver.go.
func (t *tx) dispatchDriver(cmd Command) (any, error) {
	switch c := cmd.(type) {
	case SubmitDriver:
		return t.submitDriver(c)
	case RequestKillDriver:
		return t.requestKillDriver(c)
	case KillAllDrivers:
		return t.killAllDrivers(), nil
	case DriverChanged:
		return t.driverChanged(c)
	case PlaceDrivers:
		return t.placeDrivers(c)
	case DrainWorkers:
		return t.drainWorkers(c), nil
	case UnmarkIncompatible:
		return t.unmarkIncompatible(c), nil
	case StageRestore:
		return t.stageRestore(c)
	case CommitRestore:
		return t.commitRestore(c)
	case RaiseLevel:
		return t.raiseLevel(c)
	}
	panic(fmt.Sprintf("fsm: command %T is not of this package", cmd))
}
