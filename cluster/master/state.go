package master

import "raftmaster/fsm"

// state is a read view whose look-ups give nil for what is not there.
type state struct{ fsm.View }

func (c *Core) view() state { return state{c.deps.View()} }

func (s state) Worker(id string) *fsm.Worker { return found(s.View.Worker(id)) }

func (s state) WorkerByAddress(a fsm.Address) *fsm.Worker { return found(s.View.WorkerByAddress(a)) }

func (s state) Application(id string) *fsm.Application { return found(s.View.Application(id)) }

func (s state) ApplicationByDriver(a fsm.Address) *fsm.Application {
	return found(s.View.ApplicationByDriver(a))
}

func (s state) Executor(k fsm.ExecutorKey) *fsm.Executor { return found(s.View.Executor(k)) }

func (s state) Driver(id string) *fsm.Driver { return found(s.View.Driver(id)) }

func found[T any](p *T, ok bool) *T {
	if !ok {
		return nil
	}
	return p
}
