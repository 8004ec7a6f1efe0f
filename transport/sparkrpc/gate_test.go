package sparkrpc

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

func bigPush(i int) sparkmsg.Message {
	return &sparkmsg.WorkerRemoved{ID: strconv.Itoa(i), Host: "h", Message: strings.Repeat("x", 8<<10)}
}

func TestClosedGateDropsTheOutboxButNotAnswers(t *testing.T) {
	var open atomic.Bool
	s := serve(t, func(c *Config) { c.Gate = open.Load })
	p := dialScript(t, s.addr, workerAddr)
	p.register(s) // an answer: not gated
	outcome := make(chan error, 1)
	s.Send(workerAddr, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: "stale"})
	s.Ask(workerAddr, VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: "Worker"}, patience,
		func(_ sparkmsg.Message, err error) { outcome <- err })
	if err := <-outcome; !errors.Is(err, ErrDropped) {
		t.Errorf("ask behind a closed gate: %v", err)
	}
	eventually(t, "an empty outbox", func() bool { return s.Queued(workerAddr) == 0 })
	if n := s.Stats().Dropped["gate"]; n < 1 {
		t.Errorf("dropped %v", s.Stats().Dropped)
	}
	open.Store(true)
	s.Send(workerAddr, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: "fresh"})
	if _, _, msg := p.nextMessage(); msg.(*sparkmsg.KillDriver).DriverID != "fresh" {
		t.Errorf("got %#v", msg)
	}
	// What was dropped cannot be proven by the next answer.
	s.Ask(workerAddr, VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: "Worker"}, patience,
		func(_ sparkmsg.Message, err error) { outcome <- err })
	f, _, _ := p.nextMessage()
	p.answer(f.RequestID, true)
	if err := <-outcome; !errors.Is(err, ErrMoved) {
		t.Errorf("ask after a dropped push: %v", err)
	}
	s.Ask(workerAddr, VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: "Worker"}, patience,
		func(_ sparkmsg.Message, err error) { outcome <- err })
	f, _, _ = p.nextMessage()
	p.answer(f.RequestID, true)
	if err := <-outcome; err != nil {
		t.Errorf("second ask: %v", err)
	}
}

// stuck fills the socket of a peer that does not read, and returns how many messages were queued.
func stuck(t *testing.T, s *server) int {
	t.Helper()
	total := 0
	last, since := uint64(0), time.Now()
	for {
		for s.Queued(workerAddr) < 50 {
			s.Send(workerAddr, "AppClient", sparkmsg.FamilyB, bigPush(total))
			total++
		}
		if out := s.Stats().FramesOut; out != last {
			last, since = out, time.Now()
		} else if time.Since(since) > 300*time.Millisecond {
			return total
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A full socket that becomes writable again after the lease has ended must not carry another byte, even if a batch was
// half written (B-047: LaunchDriver names no master, the worker cannot refuse it).
func TestNothingIsWrittenAfterTheGateClosedOverAFullSocket(t *testing.T) {
	for _, how := range []string{"gate", "stepdown"} {
		t.Run(how, func(t *testing.T) {
			var open atomic.Bool
			open.Store(true)
			s := serve(t, func(c *Config) { c.Gate = open.Load })
			p := dialScript(t, s.addr, workerAddr)
			p.register(s)
			total := stuck(t, s)
			if how == "gate" {
				open.Store(false)
			} else {
				s.DropOutboxes()
			}
			read := 0
			for {
				if err := p.nc.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
					t.Fatal(err)
				}
				f, err := p.in.Next()
				if err != nil {
					break // cut inside a frame, or silence
				}
				if f.Type == frame.OneWayMessage {
					read++
				}
			}
			eventually(t, "an empty outbox", func() bool { return s.Queued(workerAddr) == 0 })
			dropped := int(s.Stats().Dropped[how])
			if read+dropped < total-1 || read+dropped > total {
				t.Errorf("%d sent, %d read, %d dropped: more than the one message cut short is missing", total, read, dropped)
			}
			if dropped < 40 {
				t.Errorf("only %d of about 50 queued messages were dropped", dropped)
			}
		})
	}
}

func TestSlowPeerIsCutOffAndHoldsUpNobody(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.MaxQueue = 200 })
	slow := dialScript(t, s.addr, workerAddr)
	slow.register(s)
	healthyAddr := frame.Address{Host: "127.0.0.1", Port: 31002}
	healthy := dialScript(t, s.addr, healthyAddr)
	healthy.register(s)
	stuck(t, s)
	if !s.Attached(workerAddr) {
		t.Fatal("slow peer was cut before its queue was full")
	}
	for i := range 300 {
		s.Send(workerAddr, "AppClient", sparkmsg.FamilyB, bigPush(i))
		s.Send(healthyAddr, "AppClient", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: strconv.Itoa(i)})
		if _, _, msg := healthy.nextMessage(); msg.(*sparkmsg.KillDriver).DriverID != strconv.Itoa(i) {
			t.Fatalf("healthy peer got %#v", msg)
		}
		if i == 250 {
			slow.closedByServer()
		}
	}
	if s.Stats().Dropped["overflow"] == 0 {
		t.Errorf("dropped %v", s.Stats().Dropped)
	}
	eventually(t, "Closed", func() bool { return len(s.rec.closed()) == 1 })
	if e := s.rec.closed()[0]; e.peer != workerAddr {
		t.Errorf("closed %+v", e)
	}
}

func TestBytesBoundTheQueue(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.MaxQueueBytes = 64 << 10; c.Limits.DialMin = time.Hour })
	ln, addr := listen(t)
	closeQuietlyListener(ln)
	for i := range 20 {
		s.Send(addr, "AppClient", sparkmsg.FamilyB, bigPush(i))
	}
	if n := s.Stats().Dropped["overflow"]; n == 0 {
		t.Error("20 messages of 8 KiB fit into 64 KiB")
	}
}

func TestWriteDeadlineFreesTheWriter(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Write = 100 * time.Millisecond })
	p := dialScript(t, s.addr, workerAddr)
	p.register(s)
	for i := 0; s.Attached(workerAddr); i++ {
		if s.Queued(workerAddr) < 100 {
			s.Send(workerAddr, "AppClient", sparkmsg.FamilyB, bigPush(i))
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	eventually(t, "Closed", func() bool { return len(s.rec.closed()) > 0 })
}

func TestUnreachablePeerIsGivenUp(t *testing.T) {
	s := serve(t, func(c *Config) {
		c.Limits.DialMin, c.Limits.DialMax, c.Limits.GiveUp = time.Millisecond, 5*time.Millisecond, 60*time.Millisecond
	})
	ln, addr := listen(t)
	closeQuietlyListener(ln)
	outcome := make(chan error, 1)
	s.Send(addr, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: "d"})
	s.Ask(addr, VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: "Worker"}, patience,
		func(_ sparkmsg.Message, err error) { outcome <- err })
	if err := <-outcome; !errors.Is(err, ErrDropped) {
		t.Errorf("ask: %v", err)
	}
	st := s.Stats()
	if st.Dropped["unreachable"] != 2 || st.Dials < 2 {
		t.Errorf("dropped %v after %d dials", st.Dropped, st.Dials)
	}
}

// Where nobody listens a queue is given up sooner than where nothing answers.
func TestAnAbsentPeerIsGivenUpSooner(t *testing.T) {
	ln, gone := listen(t)
	closeQuietlyListener(ln)
	silent := frame.Address{Host: "silent.invalid", Port: 1}
	s := serve(t, func(c *Config) {
		c.Limits.DialMin, c.Limits.DialMax = time.Millisecond, 5*time.Millisecond
		c.Limits.GiveUp, c.Limits.GiveUpAbsent = time.Hour, 60*time.Millisecond
		c.Dial = func(ctx ctx, network, addr string) (net.Conn, error) {
			if addr == silent.String() {
				return nil, errors.New("no route")
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	s.Send(silent, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: "d"})
	for range 40 {
		s.Send(gone, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: "d"})
	}
	outcome := make(chan error, 1)
	s.Ask(gone, VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: "Worker"}, patience,
		func(_ sparkmsg.Message, err error) { outcome <- err })
	// The asker is told why: "dropped" alone helps nobody who has a wrong address.
	if err := <-outcome; !errors.Is(err, ErrDropped) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the ask ended with %v", err)
	}
	eventually(t, "the absent peer is given up", func() bool { return s.Stats().Dropped["unreachable"] == 41 })
	eventually(t, "the silent one is dialled on", func() bool { return s.Stats().Dials > 50 })
	if s.Queued(gone) != 0 || s.Queued(silent) != 1 {
		t.Errorf("queued: %d for the absent, %d for the silent", s.Queued(gone), s.Queued(silent))
	}
}

// TestDialsAreBounded keeps many black holes from holding up a peer that answers.
func TestDialsAreBounded(t *testing.T) {
	const limit = 4
	var running, most atomic.Int32
	ln, good := listen(t)
	s := serve(t, func(c *Config) {
		c.Limits.MaxDials, c.Limits.Dial = limit, 50*time.Millisecond
		c.Limits.DialMin, c.Limits.DialMax = time.Millisecond, time.Millisecond
	})
	plain := s.cfg.Dial
	s.cfg.Dial = func(ctx ctx, network, addr string) (net.Conn, error) {
		now := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		if addr == good.String() {
			return plain(ctx, network, addr)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for i := range 40 {
		s.Send(frame.Address{Host: "10.0.0.1", Port: int32(1000 + i)}, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: "d"})
	}
	s.Send(good, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: "good"})
	p := newScript(t, accept(t, ln), good)
	if _, _, msg := p.nextMessage(); msg.(*sparkmsg.KillDriver).DriverID != "good" {
		t.Errorf("got %#v", msg)
	}
	if m := most.Load(); m > limit {
		t.Errorf("%d dials at once, limit %d", m, limit)
	}
}
