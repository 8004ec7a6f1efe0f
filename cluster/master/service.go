package master

import (
	"context"
	"sync"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// maxInbound bounds the messages of peers that wait for the Core: beyond it the readers of connections wait, and so,
// through TCP, do the peers.
const maxInbound = 4096

// Service runs a Core on a goroutine of its own. Its methods may be called from any goroutine.
type Service struct {
	core    *Core
	inbound chan func()
	done    chan struct{}
	ended   chan struct{}
	stop    sync.Once

	mu       sync.Mutex
	internal []func() // what Raft and the network report: never bounded, because their goroutines must not wait
	wake     chan struct{}
}

// NewService makes a Service for a Core built by build, which gets the function that brings callbacks of the network and
// of Raft onto the Core's goroutine. Run must follow.
func NewService(build func(post func(func())) *Core) *Service {
	s := &Service{
		inbound: make(chan func(), maxInbound),
		done:    make(chan struct{}),
		ended:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	s.core = build(s.post)
	return s
}

// post brings a function onto the Core's goroutine, in order, without waiting.
func (s *Service) post(fn func()) {
	s.mu.Lock()
	s.internal = append(s.internal, fn)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run serves until the context ends.
func (s *Service) Run(ctx context.Context) {
	defer close(s.ended)
	defer s.stop.Do(func() { close(s.done) })
	idle := time.NewTimer(time.Hour)
	defer idle.Stop()
	for {
		s.runInternal()
		s.core.Tick()
		wait := time.Hour
		if at, ok := s.core.NextDeadline(); ok {
			wait = max(at.Sub(s.core.now()), 0)
		}
		idle.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case fn := <-s.inbound:
			fn()
		case <-idle.C:
		}
	}
}

// runInternal runs everything that was posted, also what the posted functions post.
func (s *Service) runInternal() {
	for {
		s.mu.Lock()
		batch := s.internal
		s.internal = nil
		s.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, fn := range batch {
			fn()
		}
	}
}

// enqueue hands a peer's message to the Core and waits while it is busy; it reports whether the Core will see it.
func (s *Service) enqueue(fn func()) bool {
	select {
	case s.inbound <- fn:
		return true
	case <-s.done:
		return false
	}
}

// OneWay hands a one-way message to the Core, in the order of its connection.
func (s *Service) OneWay(conn Conn, from *sparkmsg.Address, families sparkmsg.FamilySet, msg sparkmsg.Message) {
	s.enqueue(func() { s.core.OneWay(conn, from, families, msg) })
}

// Ask hands a message that wants an answer to the Core; after the Service has ended it is answered with a failure.
func (s *Service) Ask(conn Conn, from *sparkmsg.Address, msg sparkmsg.Message, reply func(sparkmsg.Message, error)) {
	if !s.enqueue(func() { s.core.Ask(conn, from, msg, reply) }) {
		reply(nil, errNotLeader)
	}
}

// ConnClosed tells the Core of the end of a connection, behind everything that came in on it.
func (s *Service) ConnClosed(peer sparkmsg.Address, last bool) {
	s.enqueue(func() { s.core.ConnClosed(peer, last) })
}

// Applied, ProposeFailed, Elected and Deposed are what Raft reports; they never wait.
func (s *Service) Applied(batch []Applied) { s.post(func() { s.core.Applied(batch) }) }

// ProposeFailed see Applied.
func (s *Service) ProposeFailed(cmd fsm.Command, err error) {
	s.post(func() { s.core.ProposeFailed(cmd, err) })
}

// Elected see Applied.
func (s *Service) Elected(term uint64, reason string) {
	s.post(func() { s.core.Elected(term, reason) })
}

// Deposed see Applied.
func (s *Service) Deposed(term uint64) { s.post(func() { s.core.Deposed(term) }) }

// Status asks the Core for its soft state.
func (s *Service) Status(ctx context.Context) (Status, error) {
	answer := make(chan Status, 1)
	s.post(func() { answer <- s.core.Status() })
	select {
	case st := <-answer:
		return st, nil
	case <-s.ended:
		return Status{}, errNotLeader
	case <-ctx.Done():
		return Status{}, ctx.Err()
	}
}

// Ended is closed when Run has returned.
func (s *Service) Ended() <-chan struct{} { return s.ended }
