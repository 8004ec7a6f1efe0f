package sparkrpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

func TestBadFramesCloseTheirConnection(t *testing.T) {
	s := serve(t, nil)
	header := func(length int64, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint64(nil, uint64(length)), rest...)
	}
	for name, b := range map[string][]byte{
		"negative length": header(-5, 9),
		"zero length":     header(0, 9),
		"2 GiB":           header(1<<31-1, 9),
		"over 1 MiB":      header(1<<20+1, 9),
		"HTTP":            []byte("GET /v1/submissions HTTP/1.1\r\nHost: x\r\n\r\n"),
		"unknown type":    header(30, 7, 0, 0, 0, 0, 0, 0, 0, 0),
		"body size":       header(30, 9, 0, 0, 0, 99),
		"bad request":     header(20, 9, 0, 0, 0, 7, 9, 9, 9, 9, 9, 9, 9),
	} {
		t.Run(name, func(t *testing.T) {
			p := dialScript(t, s.addr, workerAddr)
			p.write(b)
			p.closedByServer()
		})
	}
	if n := s.Stats().BadFrames; n != 8 {
		t.Errorf("%d bad frames counted", n)
	}
}

func TestFrameLimitRisesWithTrust(t *testing.T) {
	s := serve(t, nil)
	s.rec.onSend = func(c *Conn, _ Inbound) { c.SetTrusted() }
	big := strings.Repeat("y", 60000)
	drivers := make([]string, 40) // 2.4 MB
	for i := range drivers {
		drivers[i] = big
	}
	state := &sparkmsg.WorkerLatestState{ID: "w", DriverIDs: drivers}
	p := dialScript(t, s.addr, workerAddr)
	p.send("Master", heartbeat("w", workerAddr))
	eventually(t, "heartbeat", func() bool { return len(s.rec.received()) == 1 })
	p.send("Master", state)
	eventually(t, "big message of a trusted peer", func() bool { return len(s.rec.received()) == 2 })
	stranger := dialScript(t, s.addr, workerAddr)
	b := stranger.request(frame.OneWayMessage, 0, "Master", mustEncode(t, state, sparkmsg.FamilyB))
	if _, err := stranger.nc.Write(b); err == nil {
		stranger.closedByServer()
	}
}

func TestSilentAndSlowConnectionsEnd(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.FirstFrame, c.Limits.Frame = 100*time.Millisecond, 100*time.Millisecond })
	dialScript(t, s.addr, workerAddr).closedByServer() // says nothing
	drip := dialScript(t, s.addr, workerAddr)
	b := drip.request(frame.OneWayMessage, 0, "Master", mustEncode(t, heartbeat("w", workerAddr), sparkmsg.FamilyB))
	for _, x := range b {
		if _, err := drip.nc.Write([]byte{x}); err != nil {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	drip.closedByServer()
	if n := len(s.rec.received()); n != 0 {
		t.Errorf("%d messages of a slow writer arrived", n)
	}
	// A registered peer may be idle for ever, but not inside a frame.
	idle := dialScript(t, s.addr, workerAddr)
	idle.register(s)
	time.Sleep(300 * time.Millisecond)
	idle.register(s)
	idle.write(b[:len(b)/2])
	idle.closedByServer()
}

func TestPartialFramesHaveABudget(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.MaxPartialBytes = 1 << 20 })
	var closed int
	for range 4 {
		p := dialScript(t, s.addr, workerAddr)
		p.write(binary.BigEndian.AppendUint64(nil, 1<<20))
		p.write([]byte{9, 0, 0x0F, 0xFF, 0xF3})
		_, err := p.nc.Write(make([]byte, 500<<10))
		if err == nil {
			err = p.nc.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		}
		if err == nil {
			_, err = p.nc.Read(make([]byte, 1))
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			closed++
		}
	}
	if closed == 0 || closed == 4 {
		t.Errorf("%d of 4 connections with half a megabyte of frame closed", closed)
	}
	eventually(t, "budget", func() bool { return s.partial.Load() <= 1<<20 })
}

func TestFloodIsCapped(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.MaxConnsPerHost = 10 })
	var open []*script
	for range 10 {
		p := dialScript(t, s.addr, workerAddr)
		p.register(s)
		open = append(open, p)
	}
	for range 20 {
		dialScript(t, s.addr, workerAddr).closedByServer()
	}
	if n := s.Stats().Refused; n != 20 {
		t.Errorf("%d refused", n)
	}
	closeQuietly(open[0].nc)
	eventually(t, "room", func() bool { return s.Stats().Conns == 9 })
	dialScript(t, s.addr, workerAddr).register(s)
}

func TestPeerThatReadsNoAnswersIsCutOff(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.MaxReplyQueueBytes = 64 << 10 })
	p := dialScript(t, s.addr, workerAddr)
	s.rec.onAsk = func(_ *Conn, _ Inbound, reply func(sparkmsg.Message, error)) {
		reply(nil, errors.New(strings.Repeat("z", 16<<10)))
	}
	b := p.request(frame.RPCRequest, 5, "Master", mustEncode(t, &sparkmsg.RequestDriverStatus{DriverID: "d"}, p.fam))
	many := bytes.Repeat(b, 10)
	deadline := time.Now().Add(patience)
	for {
		if err := p.nc.SetWriteDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		if _, err := p.nc.Write(many); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("not cut off")
			}
			return
		}
	}
}

func TestOpenRequestsAreBounded(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.MaxOpenRequests = 3 })
	s.rec.onAsk = func(*Conn, Inbound, func(sparkmsg.Message, error)) {} // never answers
	p := dialScript(t, s.addr, workerAddr)
	for i := range 4 {
		p.ask(int64(i+1), "Master", &sparkmsg.RequestDriverStatus{DriverID: "d"})
	}
	if f := p.mustNext(); f.Type != frame.RPCFailure || f.RequestID != 4 {
		t.Errorf("got %v %d", f.Type, f.RequestID)
	}
}

func TestLinesAreLimited(t *testing.T) {
	l := newLineLimiter()
	now := time.Unix(0, 0)
	l.now = func() time.Time { return now }
	if !l.allow("a", "x") || l.allow("a", "x") || !l.allow("a", "y") || !l.allow("b", "x") {
		t.Error("one line per peer and class")
	}
	now = now.Add(lineInterval)
	if !l.allow("a", "x") {
		t.Error("a minute later")
	}
	passed := 0
	for i := range 10 * maxLineKeys {
		if l.allow(strconv.Itoa(i), "x") {
			passed++
		}
	}
	if len(l.last) > maxLineKeys || passed > maxLineKeys+1 {
		t.Errorf("%d keys, %d lines", len(l.last), passed)
	}
}

// captured returns the recorded frames whose name has the infix.
func captured(t testing.TB, infix string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "sparkmsg", "testdata", "spark-*", "*"+infix+"*.bin"))
	if err != nil {
		t.Fatal(err)
	}
	frames := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		frames[name] = b
	}
	if len(frames) == 0 {
		t.Fatalf("no recordings match %s", infix)
	}
	return frames
}

// TestMutatedFramesHurtNobodyElse feeds damaged recordings to an Endpoint that serves a healthy peer meanwhile.
func TestMutatedFramesHurtNobodyElse(t *testing.T) {
	total := 10000
	if testing.Short() {
		total = 2000
	}
	s := serve(t, nil)
	healthyAddr := frame.Address{Host: "127.0.0.1", Port: 31002}
	healthy := dialScript(t, s.addr, healthyAddr)
	healthy.register(s)
	var originals [][]byte
	for _, b := range captured(t, "-to-master-") {
		originals = append(originals, b)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() { mutate(t, s, originals, total/2, rand.New(rand.NewPCG(7, uint64(worker)))) })
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	rounds := 0
	for running := true; running; rounds++ {
		select {
		case <-done:
			running = false
		default:
		}
		id := strconv.Itoa(rounds)
		healthy.ask(int64(rounds+1), VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
		if f := healthy.mustNext(); f.Type != frame.RPCResponse || f.RequestID != int64(rounds+1) {
			t.Fatalf("round %d: %v", rounds, f.Type)
		}
		s.Send(healthyAddr, "Worker", sparkmsg.FamilyB, &sparkmsg.KillDriver{DriverID: id})
		if _, _, msg := healthy.nextMessage(); msg.(*sparkmsg.KillDriver).DriverID != id {
			t.Fatalf("round %d: %#v", rounds, msg)
		}
	}
	if rounds < 10 {
		t.Errorf("healthy peer made %d rounds only", rounds)
	}
	if n := s.Stats().DecodeErrors["panic"]; n != 0 {
		t.Errorf("%d decoder panics", n)
	}
	for _, e := range s.rec.closed() {
		if e.peer == healthyAddr {
			t.Error("the healthy peer lost its connection")
		}
	}
	eventually(t, "hostile connections gone", func() bool { return s.Stats().Conns == 1 })
	t.Logf("%d rounds of the healthy peer; %v", rounds, s.Stats())
}

// mutate sends damaged frames, a fresh connection after each that the server closed.
func mutate(t *testing.T, s *server, originals [][]byte, n int, rnd *rand.Rand) {
	var nc net.Conn
	for range n {
		b := append([]byte(nil), originals[rnd.IntN(len(originals))]...)
		for range 1 + rnd.IntN(4) {
			switch rnd.IntN(4) {
			case 0:
				b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
			case 1:
				b[min(len(b)-1, 9+rnd.IntN(len(b)))] = byte(rnd.IntN(256))
			case 2:
				b = b[:1+rnd.IntN(len(b))]
			case 3:
				at := rnd.IntN(len(b))
				b = append(b[:at:at], append([]byte{byte(rnd.IntN(256))}, b[at:]...)...)
			}
		}
		if rnd.IntN(3) > 0 && len(b) > 21 { // damage the object only: make the sizes right again
			binary.BigEndian.PutUint64(b, uint64(len(b)))
			switch b[8] {
			case 9:
				binary.BigEndian.PutUint32(b[9:], uint32(len(b)-13))
			case 3, 4, 5:
				binary.BigEndian.PutUint32(b[17:], uint32(len(b)-21))
			}
		}
		if nc == nil {
			var err error
			if nc, err = net.Dial("tcp", s.addr); err != nil {
				t.Error(err)
				return
			}
			drain(nc)
		}
		if _, err := nc.Write(b); err != nil || rnd.IntN(20) == 0 {
			closeQuietly(nc)
			nc = nil
		}
	}
	if nc != nil {
		closeQuietly(nc)
	}
}

// drain reads and forgets, so that answers do not fill the socket.
func drain(nc net.Conn) {
	go func() {
		buf := make([]byte, 4096)
		for {
			if _, err := nc.Read(buf); err != nil {
				return
			}
		}
	}()
}

// TestRecordedFrames replays what real workers, drivers and clients sent to their masters.
func TestRecordedFrames(t *testing.T) {
	s := serve(t, nil)
	want := map[string][]byte{}
	for name, b := range captured(t, "master-to-worker-ReplyToCheckExistence") {
		want[filepath.Dir(name)] = b[21:]
	}
	for name, b := range captured(t, "-to-master-") {
		t.Run(strings.TrimPrefix(name, "../sparkmsg/testdata/"), func(t *testing.T) {
			before := len(s.rec.received())
			s.rec.mu.Lock()
			asks := len(s.rec.asks)
			s.rec.mu.Unlock()
			p := dialScript(t, s.addr, workerAddr)
			p.write(b)
			if b[8] == byte(frame.OneWayMessage) {
				eventually(t, "delivery", func() bool { return len(s.rec.received()) == before+1 })
				in := s.rec.received()[before]
				checkRecorded(t, name, in)
				return
			}
			f := p.mustNext()
			if f.Type != frame.RPCResponse || f.RequestID != int64(binary.BigEndian.Uint64(b[9:])) {
				t.Fatalf("answer %v %s", f.Type, f.Body)
			}
			if strings.Contains(name, "CheckExistence") {
				if !bytes.Equal(f.Body, want[filepath.Dir(name)]) {
					t.Errorf("answer differs from the recorded one")
				}
				return
			}
			s.rec.mu.Lock()
			defer s.rec.mu.Unlock()
			if len(s.rec.asks) != asks+1 {
				t.Fatal("ask was not delivered")
			}
			checkRecorded(t, name, s.rec.asks[asks])
		})
	}
	if st := s.Stats(); len(st.DecodeErrors) != 0 || st.BadFrames != 0 {
		t.Errorf("errors: %v, %d bad frames", st.DecodeErrors, st.BadFrames)
	}
}

func checkRecorded(t *testing.T, name string, in Inbound) {
	t.Helper()
	base := strings.TrimSuffix(filepath.Base(name), ".bin")
	base = base[strings.LastIndex(base, "-to-master-")+len("-to-master-"):]
	base, _, _ = strings.Cut(base, "-")
	if got := in.Msg.MessageName(); got != base {
		t.Errorf("decoded as %s, recorded as %s", got, base)
	}
	fam := sparkmsg.FamilyB
	if strings.Contains(name, "4.3.0") {
		fam = sparkmsg.FamilyE
	}
	if !in.Families.Has(fam) || in.Sender == nil || in.Endpoint != "Master" {
		t.Errorf("%s", fmt.Sprint(in.Families, in.Sender, in.Endpoint))
	}
}
