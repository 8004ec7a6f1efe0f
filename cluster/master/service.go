package master

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// maxInbound bounds the messages of peers that wait for the Core: beyond it the readers of connections wait, and so,
// through TCP, do the peers.
const maxInbound = 4096

// Service runs a Core on a goroutine of its own. Its methods may be called from any goroutine.
type Service struct {
	build   func(post func(func())) *Core
	core    *Core // made and used by Run's goroutine only
	inbound chan inboundItem
	done    chan struct{} // closed when nothing is taken in any more
	ended   chan struct{}
	stop    sync.Once
	// senders is held shared while a message is put into inbound, and exclusively to set closed when Run ends, so that
	// no message comes in behind the last look.
	senders sync.RWMutex
	closed  bool
	ready   atomic.Pointer[func() bool] // see Ready

	mu       sync.Mutex
	internal []func() // what Raft and the network report: never bounded, because their goroutines must not wait
	wake     chan struct{}
}

// maxRun bounds the messages of peers that are handled without a look at the timers.
const maxRun = 128

// inboundItem is a message of a peer, or, without msg, the end of its connection.
type inboundItem struct {
	conn     Conn
	from     *sparkmsg.Address
	families sparkmsg.FamilySet
	msg      sparkmsg.Message
	reply    func(sparkmsg.Message, error) // nil for a one-way message
	last     bool                          // of the end of a connection: it was the peer's last
}

func (i *inboundItem) run(c *Core) {
	switch {
	case i.msg == nil:
		c.ConnClosed(*i.from, i.last)
	case i.reply != nil:
		c.Ask(i.conn, i.from, i.msg, i.reply)
	default:
		c.OneWay(i.conn, i.from, i.families, i.msg)
	}
}

// NewService makes a Service. Run makes its Core by build, which gets the function that brings callbacks of the network
// and of Raft onto the Core's goroutine; what is reported before Run waits for it.
func NewService(build func(post func(func())) *Core) *Service {
	s := &Service{
		build:   build,
		inbound: make(chan inboundItem, maxInbound),
		done:    make(chan struct{}),
		ended:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	return s
}

// Post brings a function onto the Core's goroutine, in order, without waiting.
func (s *Service) Post(fn func()) {
	s.mu.Lock()
	s.internal = append(s.internal, fn)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run serves until the context ends. It then answers every open ask with a failure, so that no peer waits for an answer
// that cannot come.
func (s *Service) Run(ctx context.Context) {
	defer close(s.ended)
	defer s.refuseRest()
	s.core = s.build(s.Post)
	ready := s.core.ready()
	s.ready.Store(&ready)
	defer s.ready.Store(nil)
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
		case item := <-s.inbound:
			item.run(s.core)
			s.runMore(ctx)
		case <-idle.C:
		}
	}
}

// runMore handles what else has come in, until something else wants attention.
func (s *Service) runMore(ctx context.Context) {
	for range maxRun {
		if len(s.wake) > 0 || ctx.Err() != nil {
			return
		}
		select {
		case item := <-s.inbound:
			item.run(s.core)
		default:
			return
		}
	}
}

// refuseRest takes nothing in any more and answers what is open.
func (s *Service) refuseRest() {
	s.stop.Do(func() { close(s.done) })
	s.senders.Lock() // waits for the senders that have not seen done yet
	s.closed = true
	s.senders.Unlock()
	s.runInternal() // answers that are ready
	for {
		select {
		case item := <-s.inbound:
			if item.reply != nil {
				item.reply(nil, errNotLeader)
			}
			continue
		default:
		}
		break
	}
	if s.core != nil { // building it may have failed
		s.core.Deposed(s.core.term)
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
func (s *Service) enqueue(item inboundItem) bool {
	s.senders.RLock()
	defer s.senders.RUnlock()
	if s.closed {
		return false
	}
	select {
	case s.inbound <- item:
		return true
	case <-s.done:
		return false
	}
}

// OneWay hands a one-way message to the Core, in the order of its connection.
func (s *Service) OneWay(conn Conn, from *sparkmsg.Address, families sparkmsg.FamilySet, msg sparkmsg.Message) {
	s.enqueue(inboundItem{conn: conn, from: from, families: families, msg: msg})
}

// Ask hands a message that wants an answer to the Core; after the Service has ended it is answered with a failure.
func (s *Service) Ask(conn Conn, from *sparkmsg.Address, msg sparkmsg.Message, reply func(sparkmsg.Message, error)) {
	if !s.enqueue(inboundItem{conn: conn, from: from, msg: msg, reply: reply}) {
		reply(nil, errNotLeader)
	}
}

// ConnClosed tells the Core of the end of a connection, behind everything that came in on it.
func (s *Service) ConnClosed(peer sparkmsg.Address, last bool) {
	s.enqueue(inboundItem{from: &peer, last: last})
}

// Applied, ProposeFailed, Elected and Deposed are what Raft reports; they never wait.
func (s *Service) Applied(batch []Applied) { s.Post(func() { s.core.Applied(batch) }) }

// ProposeFailed see Applied.
func (s *Service) ProposeFailed(cmd fsm.Command, err error) {
	s.Post(func() { s.core.ProposeFailed(cmd, err) })
}

// Elected see Applied.
func (s *Service) Elected(term uint64, reason string) {
	s.Post(func() { s.core.Elected(term, reason) })
}

// Deposed see Applied.
func (s *Service) Deposed(term uint64) { s.Post(func() { s.core.Deposed(term) }) }

// PushesDropped see Core.
func (s *Service) PushesDropped() { s.Post(func() { s.core.PushesDropped() }) }

// Status asks the Core for its soft state.
func (s *Service) Status(ctx context.Context) (Status, error) {
	answer := make(chan Status, 1)
	s.Post(func() { answer <- s.core.Status() })
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
