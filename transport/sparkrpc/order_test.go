package sparkrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// cutConn breaks after a number of written bytes: what it took is delivered, the rest is refused.
type cutConn struct {
	net.Conn
	mu   sync.Mutex
	left int
}

// orderlyConn delivers what was written before it is closed: a socket closed with unread input would reset the
// connection, and lose what is on the way.
type orderlyConn struct {
	net.Conn
	once sync.Once
	wg   *sync.WaitGroup
}

func (c *orderlyConn) Close() error {
	c.once.Do(func() {
		c.wg.Go(func() {
			_, _ = io.Copy(io.Discard, c.Conn) // until the peer has read all and closed
			closeQuietly(c.Conn)
		})
	})
	return c.Conn.(*net.TCPConn).CloseWrite()
}

var errCut = errors.New("cut")

func (c *cutConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) <= c.left {
		c.left -= len(p)
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:c.left])
	c.left = 0
	if err == nil {
		err = errCut
	}
	return n, err
}

// sink is a peer that notes what arrives, connection by connection, and answers asks at once. With drop set it closes a
// connection abruptly after so many frames.
type sink struct {
	mu    sync.Mutex
	conns [][]int // ids received, by connection in order of acceptance
	wg    sync.WaitGroup
	drop  func() int
}

func (k *sink) serve(ln net.Listener) {
	k.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			k.mu.Lock()
			i := len(k.conns)
			k.conns = append(k.conns, nil)
			limit := -1
			if k.drop != nil {
				limit = k.drop()
			}
			k.mu.Unlock()
			k.wg.Go(func() { k.read(nc, i, limit) })
		}
	})
}

func (k *sink) read(nc net.Conn, i, limit int) {
	defer closeQuietly(nc)
	in := frame.NewReader(nc)
	for n := 0; n != limit; n++ {
		f, err := in.Next()
		if err != nil {
			return
		}
		req, err := frame.ParseRequest(f.Body)
		if err != nil {
			panic(err)
		}
		dec, err := sparkmsg.Decode(req.Content)
		if err != nil {
			panic(err)
		}
		switch m := dec.Msg.(type) {
		case *sparkmsg.KillDriver:
			id, err := strconv.Atoi(m.DriverID)
			if err != nil {
				panic(err)
			}
			k.mu.Lock()
			k.conns[i] = append(k.conns[i], id)
			k.mu.Unlock()
		case *sparkmsg.CheckExistence:
			content, err := sparkmsg.Encode(&sparkmsg.Boolean{Value: true}, sparkmsg.FamilyB)
			if err != nil {
				panic(err)
			}
			reply := frame.Append(nil, frame.Frame{Type: frame.RPCResponse, RequestID: f.RequestID, Body: content})
			if _, err := nc.Write(reply); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				return
			}
		}
	}
}

func (k *sink) received() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []int
	for _, c := range k.conns {
		all = append(all, c...)
	}
	return all
}

type receiptCheck struct {
	from, to int // pushes from..to-1 precede the ask, since the ask before
	err      error
	called   int
}

// TestOutboxOrderAndNoRepeat cuts connections at random bytes: what arrives is in order and never twice, each cut costs
// the message it went through at most, and an ask with a good answer proves the pushes before it.
func TestOutboxOrderAndNoRepeat(t *testing.T) {
	for _, wrapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("wrapped=%v", wrapped), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { outboxProperty(t, rt, wrapped) })
		})
	}
}

func outboxProperty(t *testing.T, rt *rapid.T, wrapped bool) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &sink{}
	k.serve(ln)
	peer := frame.Address{Host: "127.0.0.1", Port: int32(ln.Addr().(*net.TCPAddr).Port)}
	cuts := rapid.SliceOfN(rapid.IntRange(0, 6000), 0, 6).Draw(rt, "cuts")
	var mu sync.Mutex
	var closing sync.WaitGroup
	dials := 0
	cut := func(nc net.Conn) net.Conn {
		mu.Lock()
		defer mu.Unlock()
		left := math.MaxInt
		if dials++; dials <= len(cuts) {
			left = cuts[dials-1]
		}
		return &cutConn{Conn: nc, left: left}
	}
	cfg := Config{
		Self: masterAddr, Exists: func(string) bool { return true }, Log: hclog.NewNullLogger(),
		Limits: Limits{DialMin: time.Millisecond, DialMax: 2 * time.Millisecond},
	}
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		nc = &orderlyConn{Conn: nc, wg: &closing}
		if !wrapped {
			nc = cut(nc)
		}
		return nc, nil
	}
	if wrapped {
		cfg.Wrap = func(nc net.Conn) (net.Conn, error) { return cut(nc), nil }
	}
	e := New(cfg, &recorder{})
	checks, total := drive(rt, e, peer)
	deadline := time.Now().Add(patience)
	for e.Queued(peer) > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	e.Close()
	closing.Wait()
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	k.wg.Wait()
	verifyOutbox(rt, k.received(), checks, total, len(cuts))
}

// drive queues pushes with asks between them.
func drive(rt *rapid.T, e *Endpoint, peer frame.Address) (checks []*receiptCheck, total int) {
	var mu sync.Mutex
	last := 0
	for range rapid.IntRange(1, 8).Draw(rt, "bursts") {
		for range rapid.IntRange(1, 20).Draw(rt, "burst") {
			e.Send(peer, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: strconv.Itoa(total)})
			total++
		}
		if rapid.Bool().Draw(rt, "ask") {
			c := &receiptCheck{from: last, to: total}
			last = total
			checks = append(checks, c)
			e.Ask(peer, VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: "Worker"}, patience,
				func(_ sparkmsg.Message, err error) {
					mu.Lock()
					defer mu.Unlock()
					c.err = err
					c.called++
				})
		}
		if rapid.Bool().Draw(rt, "pause") {
			time.Sleep(time.Millisecond)
		}
	}
	return checks, total
}

func verifyOutbox(rt *rapid.T, got []int, checks []*receiptCheck, total, cuts int) {
	have := map[int]bool{}
	for i, id := range got {
		if i > 0 && id <= got[i-1] {
			rt.Fatalf("out of order or repeated: %v", got)
		}
		have[id] = true
	}
	if lost := total - len(got); lost > cuts {
		rt.Fatalf("%d of %d messages lost by %d cuts: %v", lost, total, cuts, got)
	}
	for _, c := range checks {
		if c.called != 1 {
			rt.Fatalf("outcome of an ask reported %d times", c.called)
		}
		if c.err != nil {
			continue
		}
		for id := c.from; id < c.to; id++ {
			if !have[id] {
				rt.Fatalf("ask behind %d..%d answered, but %d did not arrive: %v", c.from, c.to-1, id, got)
			}
		}
	}
}

// TestOutboxOrderUnderAbruptCloses lets the peer close its connections while messages are on the way: those may be
// lost, but nothing is repeated or overtaken, on plain sockets.
func TestOutboxOrderUnderAbruptCloses(t *testing.T) {
	ln, peer := listen(t)
	closes := 0
	k := &sink{drop: func() int {
		if closes++; closes > 25 {
			return -1
		}
		return closes % 7
	}}
	k.serve(ln)
	s := serve(t, func(c *Config) { c.Limits.DialMin = time.Millisecond; c.Limits.DialMax = 2 * time.Millisecond })
	const total = 3000
	for i := range total {
		s.Send(peer, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: strconv.Itoa(i)})
		if i%10 == 9 {
			time.Sleep(200 * time.Microsecond)
		}
	}
	eventually(t, "an empty outbox", func() bool { return s.Queued(peer) == 0 })
	s.Close()
	closeQuietlyListener(ln)
	k.wg.Wait()
	got := k.received()
	for i := 1; i < len(got); i++ {
		if got[i] <= got[i-1] {
			t.Fatalf("out of order or repeated at %d: %d after %d", i, got[i], got[i-1])
		}
	}
	if len(got) < total/4 {
		t.Errorf("only %d of %d arrived", len(got), total)
	}
}
