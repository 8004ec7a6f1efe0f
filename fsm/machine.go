package fsm

import (
	"io"
)

// Machine is the replicated state machine.
type Machine struct{}

// NewMachine gives the empty state at index 0.
func NewMachine() *Machine { return &Machine{} }

// Apply applies one entry of the log. Indexes must rise; only the FSM goroutine may call it. A command that is refused
// (Result.Err) has changed nothing. The command and what it points to must not be written to afterwards.
func (m *Machine) Apply(index, term uint64, cmd Command) Result { return Result{} }

// View gives an immutable view of the state in O(1), from any goroutine.
func (m *Machine) View() View { return View{} }

// Snapshot gives the state for writing in O(1), from any goroutine.
func (m *Machine) Snapshot() Snapshot { return Snapshot{} }

// Snapshot is a state that can be written. It may be dropped without being written.
type Snapshot struct{}

// Write writes the snapshot: the same bytes for the same state. It may run while the Machine goes on.
func (s Snapshot) Write(w io.Writer) error { return nil }

// Restore reads a snapshot into a new Machine, after verifying its checksum and its invariants.
func Restore(r io.Reader) (*Machine, error) { return nil, ErrSnapshot }
