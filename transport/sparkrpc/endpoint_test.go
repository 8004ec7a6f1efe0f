package sparkrpc

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

var workerAddr = frame.Address{Host: "127.0.0.1", Port: 31001}

func TestVerifierAnswersBothScalaLines(t *testing.T) {
	s := serve(t, nil)
	for _, fam := range []sparkmsg.Family{sparkmsg.FamilyA, sparkmsg.FamilyB, sparkmsg.FamilyC, sparkmsg.FamilyE} {
		for name, want := range map[string]bool{"Master": true, "Worker": false} {
			p := dialScript(t, s.addr, workerAddr)
			p.fam = fam
			p.ask(77, VerifierEndpoint, &sparkmsg.CheckExistence{Name: name})
			f := p.mustNext()
			if f.Type != frame.RPCResponse || f.RequestID != 77 {
				t.Fatalf("family %s: got %v id %d", fam, f.Type, f.RequestID)
			}
			dec, err := sparkmsg.Decode(f.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := dec.Msg.(*sparkmsg.Boolean).Value; got != want {
				t.Errorf("family %s, %s: %v, want %v", fam, name, got, want)
			}
		}
	}
}

func TestMessagesArriveInOrderWithFamiliesNarrowed(t *testing.T) {
	s := serve(t, nil)
	p := dialScript(t, s.addr, workerAddr)
	p.fam = sparkmsg.FamilyE
	p.ask(1, VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
	for i := range 200 {
		p.send("Master", heartbeat(fmt.Sprint(i), workerAddr))
	}
	eventually(t, "200 heartbeats", func() bool { return len(s.rec.received()) == 200 })
	for i, in := range s.rec.received() {
		if got := in.Msg.(*sparkmsg.Heartbeat).WorkerID; got != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, got)
		}
	}
	in := s.rec.received()[0]
	if in.Families != sparkmsg.SetOf(sparkmsg.FamilyD, sparkmsg.FamilyE) {
		t.Errorf("families %s, want DE", in.Families)
	}
	if *in.Sender != workerAddr || in.Endpoint != "Master" {
		t.Errorf("sender %v endpoint %s", in.Sender, in.Endpoint)
	}
}

// B-002: asks get the failure, one-way senders get nothing, and the connection stays.
func TestUndecodableAndUnknownMessages(t *testing.T) {
	s := serve(t, nil)
	p := dialScript(t, s.addr, workerAddr)
	broken := []byte{0xAC, 0xED, 0x00, 0x05, 0x73, 0x72, 0x00}
	p.write(p.request(frame.OneWayMessage, 0, "Master", broken))
	p.write(p.request(frame.RPCRequest, 5, "Master", broken))
	if f := p.mustNext(); f.Type != frame.RPCFailure || f.RequestID != 5 || !strings.Contains(string(f.Body), "could not be read") {
		t.Fatalf("got %v %d %q", f.Type, f.RequestID, f.Body)
	}
	p.ask(6, "NoSuchEndpoint", &sparkmsg.CheckExistence{Name: "x"})
	if f := p.mustNext(); f.Type != frame.RPCFailure || f.RequestID != 6 || !strings.Contains(string(f.Body), "NoSuchEndpoint") {
		t.Fatalf("got %v %d %q", f.Type, f.RequestID, f.Body)
	}
	p.send("NoSuchEndpoint", heartbeat("w", workerAddr))
	p.ask(7, VerifierEndpoint, heartbeat("w", workerAddr))
	if f := p.mustNext(); f.Type != frame.RPCFailure || f.RequestID != 7 {
		t.Fatalf("got %v %d", f.Type, f.RequestID)
	}
	p.register(s)
	if n := len(s.rec.received()); n != 0 {
		t.Errorf("%d messages delivered", n)
	}
	st := s.Stats()
	if st.DecodeErrors["malformed"] != 2 || st.DecodeErrors["unknown endpoint"] != 2 {
		t.Errorf("decode errors %v", st.DecodeErrors)
	}
}

func TestAskIsAnsweredOnceAndErrorsBecomeFailures(t *testing.T) {
	s := serve(t, nil)
	s.rec.onAsk = func(_ *Conn, in Inbound, reply func(sparkmsg.Message, error)) {
		if in.Msg.(*sparkmsg.RequestKillDriver).DriverID == "bad" {
			reply(nil, errors.New("no such driver"))
			return
		}
		reply(&sparkmsg.KillDriverResponse{DriverID: "d", Success: true, Message: "ok"}, nil)
		reply(nil, errors.New("second answer"))
	}
	p := dialScript(t, s.addr, workerAddr)
	p.fam = sparkmsg.FamilyC
	p.ask(1, "Master", &sparkmsg.RequestKillDriver{DriverID: "d"})
	p.ask(2, "Master", &sparkmsg.RequestKillDriver{DriverID: "bad"})
	f := p.mustNext()
	dec, err := sparkmsg.Decode(f.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := dec.Msg.(*sparkmsg.KillDriverResponse); !ok || !r.Success || f.RequestID != 1 {
		t.Fatalf("got %#v id %d", dec.Msg, f.RequestID)
	}
	if f = p.mustNext(); f.Type != frame.RPCFailure || f.RequestID != 2 || string(f.Body) != "no such driver" {
		t.Fatalf("got %v %d %q", f.Type, f.RequestID, f.Body)
	}
}

func TestPushTravelsOnTheConnectionOfThePeer(t *testing.T) {
	s := serve(t, nil)
	p := dialScript(t, s.addr, workerAddr)
	p.register(s)
	seq := s.Send(workerAddr, "Worker", sparkmsg.FamilyB, &sparkmsg.ReconnectWorker{MasterURL: "spark://m:7077"})
	f, req, msg := p.nextMessage()
	if f.Type != frame.OneWayMessage || req.Endpoint != "Worker" || *req.Sender != masterAddr || *req.Receiver != workerAddr {
		t.Fatalf("frame %v request %+v", f.Type, req)
	}
	if m, ok := msg.(*sparkmsg.ReconnectWorker); !ok || m.MasterURL != "spark://m:7077" {
		t.Fatalf("message %#v", msg)
	}
	var first, last uint64
	p.send("Master", heartbeat("w", workerAddr))
	eventually(t, "heartbeat", func() bool { return len(s.rec.received()) == 1 })
	s.rec.mu.Lock()
	first, last = s.rec.conns[0].Outbox()
	s.rec.mu.Unlock()
	if first != seq || last != seq {
		t.Errorf("outbox range %d..%d, want %d", first, last, seq)
	}
	answers := make(chan error, 1)
	s.Ask(workerAddr, VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: "Worker"}, patience, func(m sparkmsg.Message, err error) {
		if b, ok := m.(*sparkmsg.Boolean); err == nil && (!ok || !b.Value) {
			err = fmt.Errorf("answer %#v", m)
		}
		answers <- err
	})
	f, _, _ = p.nextMessage()
	p.answer(f.RequestID, true)
	if err := <-answers; err != nil {
		t.Error(err)
	}
	if s.Stats().Dials != 0 {
		t.Error("dialled although connected")
	}
}

func TestSilentPeerIsDialledAndAnswersThere(t *testing.T) {
	s := serve(t, nil)
	ln, peer := listen(t)
	s.Send(peer, "Worker", sparkmsg.FamilyE, &sparkmsg.KillDriver{DriverID: "d1"})
	nc := accept(t, ln)
	p := newScript(t, nc, peer)
	if _, _, msg := p.nextMessage(); msg.(*sparkmsg.KillDriver).DriverID != "d1" {
		t.Fatalf("message %#v", msg)
	}
	// It asks and is answered on the connection that we opened.
	p.ask(9, "Master", &sparkmsg.RequestDriverStatus{DriverID: "x"})
	if f := p.mustNext(); f.Type != frame.RPCResponse || f.RequestID != 9 {
		t.Fatalf("got %v", f.Type)
	}
	closeQuietly(nc)
	eventually(t, "Closed", func() bool { return len(s.rec.closed()) == 1 })
	if e := s.rec.closed()[0]; e.peer != peer || !e.last {
		t.Errorf("closed %+v", e)
	}
}

func TestClosedTellsTheLastConnection(t *testing.T) {
	s := serve(t, nil)
	a, b := dialScript(t, s.addr, workerAddr), dialScript(t, s.addr, workerAddr)
	a.register(s)
	b.register(s)
	closeQuietly(a.nc)
	eventually(t, "first close", func() bool { return len(s.rec.closed()) == 1 })
	if e := s.rec.closed()[0]; e.last || e.peer != workerAddr {
		t.Errorf("first close %+v", e)
	}
	if !s.Attached(workerAddr) {
		t.Error("not attached with one connection left")
	}
	closeQuietly(b.nc)
	eventually(t, "second close", func() bool { return len(s.rec.closed()) == 2 })
	if e := s.rec.closed()[1]; !e.last {
		t.Errorf("second close %+v", e)
	}
	nobody := dialScript(t, s.addr, workerAddr)
	closeQuietly(nobody.nc)
	eventually(t, "third close", func() bool { return len(s.rec.closed()) == 3 })
	if e := s.rec.closed()[2]; e.peer != (frame.Address{}) || e.last {
		t.Errorf("unnamed close %+v", e)
	}
	eventually(t, "peers forgotten", func() bool { return s.Stats().Peers == 0 && s.Stats().Conns == 0 })
}

func TestAskOutcomesOtherThanAnswers(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.MaxAsks = 2 })
	p := dialScript(t, s.addr, workerAddr)
	p.register(s)
	outcome := func(name string, timeout time.Duration) chan error {
		ch := make(chan error, 1)
		s.Ask(workerAddr, VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: name}, timeout,
			func(_ sparkmsg.Message, err error) { ch <- err })
		return ch
	}
	if err := <-outcome("expires", time.Millisecond); !errors.Is(err, ErrTimeout) {
		t.Errorf("time-out: %v", err)
	}
	first := outcome("fails", patience)
	second := outcome("never", patience)
	if err := <-outcome("third", patience); !errors.Is(err, ErrTooManyAsks) {
		t.Errorf("third ask: %v", err)
	}
	for {
		f, _, msg := p.nextMessage() // the expired ask may have been written or not
		if msg.(*sparkmsg.CheckExistence).Name == "fails" {
			p.write(frame.Append(nil, frame.Frame{Type: frame.RPCFailure, RequestID: f.RequestID, Body: []byte("boom")}))
			break
		}
	}
	var remote *RemoteError
	if err := <-first; !errors.As(err, &remote) || remote.Text != "boom" {
		t.Errorf("failure: %v", err)
	}
	closeQuietly(p.nc)
	if err := <-second; !errors.Is(err, ErrConnClosed) && !errors.Is(err, ErrDropped) {
		t.Errorf("close: %v", err)
	}
}

func TestProbe(t *testing.T) {
	s := serve(t, nil)
	ln, up := listen(t)
	free, down := listen(t)
	closeQuietlyListener(free)
	mute, silent := listen(t)
	defer closeQuietlyListener(mute)
	results := make(chan ProbeResult, 1)
	probe := func(to frame.Address, timeout time.Duration) ProbeResult {
		s.Probe(to, "Worker", timeout, func(r ProbeResult) { results <- r })
		return <-results
	}
	if r := probe(down, patience); r != ProbeRefused {
		t.Errorf("closed port: %v", r)
	}
	if r := probe(silent, 50*time.Millisecond); r != ProbeUnreachable {
		t.Errorf("silent: %v", r)
	}
	for _, want := range []ProbeResult{ProbeTrue, ProbeFalse} {
		s.Probe(up, "Worker", patience, func(r ProbeResult) { results <- r })
		p := newScript(t, accept(t, ln), up)
		f, req, msg := p.nextMessage()
		if req.Sender != nil || msg.(*sparkmsg.CheckExistence).Name != "Worker" {
			t.Fatalf("probe %+v %#v", req, msg)
		}
		// A JVM of the other Scala line cannot read the class and says so; the second question fits.
		p.write(frame.Append(nil, frame.Frame{Type: frame.RPCFailure, RequestID: f.RequestID, Body: []byte("InvalidClassException")}))
		f, _, _ = p.nextMessage()
		p.answer(f.RequestID, want == ProbeTrue)
		if r := <-results; r != want {
			t.Errorf("got %v, want %v", r, want)
		}
		p.closedByServer()
	}
	if n := len(s.rec.closed()); n != 0 {
		t.Errorf("%d Closed calls for probes", n)
	}
}

// A peer with an open connection is asked in its own words at once: a JVM of the other Scala line logs each question that it
// cannot read as an error, with its stack.
func TestProbeOfAnAttachedPeerUsesItsFamily(t *testing.T) {
	for _, fam := range []sparkmsg.Family{sparkmsg.FamilyB, sparkmsg.FamilyE} {
		s := serve(t, nil)
		ln, up := listen(t)
		p := dialScript(t, s.addr, up)
		p.fam = fam
		p.send("Master", heartbeat("w", up))
		eventually(t, "heartbeat", func() bool { return len(s.rec.received()) == 1 })
		result := make(chan ProbeResult, 1)
		s.Probe(up, "Worker", patience, func(r ProbeResult) { result <- r })
		q := newScript(t, accept(t, ln), up)
		q.fam = fam
		f, req, _ := q.nextMessage()
		if asked, err := sparkmsg.Decode(req.Content); err != nil || !asked.Families.Has(fam) {
			t.Errorf("family %s is asked in the words of %s: %v", fam, asked.Families, err)
		}
		q.answer(f.RequestID, true)
		if r := <-result; r != ProbeTrue {
			t.Errorf("family %s: %v", fam, r)
		}
		closeQuietlyListener(ln)
	}
}

// A dial to a port of the ephemeral range that nobody listens on can connect to itself.
func TestSelfConnectCountsAsRefused(t *testing.T) {
	s := serve(t, nil)
	ln, addr := listen(t)
	closeQuietlyListener(ln)
	s.cfg.Dial = func(_ ctx, _, target string) (net.Conn, error) { return selfConnect(t, target) }
	got := make(chan ProbeResult, 1)
	s.Probe(addr, "Worker", patience, func(r ProbeResult) { got <- r })
	if r := <-got; r != ProbeRefused {
		t.Errorf("self-connect: %v", r)
	}
}
