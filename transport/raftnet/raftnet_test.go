package raftnet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var fullHello = Hello{
	Kind: KindWatch, ClusterID: "c", NodeID: "n", BootID: "b", Target: "t", Address: "a:7077", Cluster: []string{"a:7077", "b:7077"},
	Fresh: true, WebURL: "http://a:8080", RESTURL: "http://a:6066", Version: "1.0", LeaderID: "l", TransferTo: "n", Level: 3, UsedLevel: 2, Refused: "",
}

func TestHelloRoundTrip(t *testing.T) {
	for _, h := range []Hello{fullHello, {Kind: KindRaft}, {Kind: KindCall, Refused: "no"}} {
		b := AppendHello(nil, h)
		r := bytes.NewReader(append(b, "rest"...))
		got, err := ReadHello(r)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(h, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
		if r.Len() != 4 {
			t.Errorf("%d bytes left, want the 4 that follow", r.Len())
		}
	}
}

// A newer release appends fields; an old one must ignore them.
func TestHelloOfANewerReleaseIsRead(t *testing.T) {
	b := append(AppendHello(nil, fullHello), 9, 9, 9)
	binary.BigEndian.PutUint32(b[2:], uint32(len(b)-6))
	got, err := ReadHello(bytes.NewReader(b))
	if err != nil || got.NodeID != "n" {
		t.Errorf("%+v, %v", got, err)
	}
}

// An older release says nothing of levels.
func TestHelloWithoutLevelsIsRead(t *testing.T) {
	b := AppendHello(nil, fullHello)
	b = b[:len(b)-2]
	binary.BigEndian.PutUint32(b[2:], uint32(len(b)-6))
	got, err := ReadHello(bytes.NewReader(b))
	want := fullHello
	want.Level, want.UsedLevel = 0, 0
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBadHellosAreRefused(t *testing.T) {
	good := AppendHello(nil, fullHello)
	edit := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	long := Hello{NodeID: strings.Repeat("x", maxString)}
	tooLong := bytes.Clone(AppendHello(nil, long))
	for name, b := range map[string][]byte{
		"other magic":     edit(0, 0),
		"other version":   edit(1, 2),
		"huge length":     edit(2, 0xFF),
		"short":           good[:len(good)-3],
		"half the levels": append(binary.BigEndian.AppendUint32(bytes.Clone(good[:2]), uint32(len(good)-7)), good[6:len(good)-1]...),
		"bad flag":        bytes.Replace(good, []byte("1.0\x00\x01"), []byte("1.0\x00\x07"), 1),
		"string too long": bytes.Replace(tooLong, binary.AppendUvarint(nil, maxString), binary.AppendUvarint(nil, maxString+1), 1),
		"empty":           {Magic, ProtocolVersion, 0, 0, 0, 0},
	} {
		if h, err := ReadHello(bytes.NewReader(b)); err == nil {
			t.Errorf("%s: read as %+v", name, h)
		}
	}
}

func TestWatchMessagesRoundTrip(t *testing.T) {
	for _, m := range []WatchMessage{
		&Ping{}, &Info{Hello: fullHello}, &Ask{Seq: 1, LeaderID: "l", LeaderBoot: "b", Term: 9},
		&Answer{Seq: 1, Lost: true, Term: 9, LastIndex: 300, LastTerm: 8, NodeID: "n"}, &Goodbye{Term: 4},
		&DigestReport{Index: 1 << 40, Digest: "d"}, &DigestVerdict{Term: 3, Index: 4, Digest: "d"}, &Campaign{Term: 3},
	} {
		got, err := ReadWatch(bytes.NewReader(AppendWatch(nil, m)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	}
	if m, err := ReadWatch(bytes.NewReader([]byte{0, 0, 0, 2, 200, 1})); m != nil || err != nil {
		t.Errorf("a type of a newer release: %v, %v", m, err)
	}
	for _, b := range [][]byte{{0, 0, 0, 0}, {0, 1, 0, 0, 1}, {0, 0, 0, 2, watchAsk, 1}, {0, 0, 0, 5, watchPing}} {
		if m, err := ReadWatch(bytes.NewReader(b)); err == nil {
			t.Errorf("% x: read as %v", b, m)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add(AppendHello(nil, fullHello))
	f.Add(AppendHello(nil, Hello{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ReadHello(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := ReadHello(bytes.NewReader(AppendHello(nil, h)))
		if err != nil || !cmp.Equal(h, again) {
			t.Errorf("%+v came back as %+v, %v", h, again, err)
		}
	})
}

func FuzzReadWatch(f *testing.F) {
	for _, m := range []WatchMessage{&Ping{}, &Info{Hello: fullHello}, &Ask{LeaderID: "l"}, &Answer{Lost: true}, &Goodbye{Term: 1}, &DigestReport{}, &DigestVerdict{}, &Campaign{}} {
		f.Add(AppendWatch(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadWatch(bytes.NewReader(b))
		if err != nil || m == nil {
			return
		}
		again, err := ReadWatch(bytes.NewReader(AppendWatch(nil, m)))
		if err != nil || !cmp.Equal(m, again) {
			t.Errorf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

func FuzzReadCall(f *testing.F) {
	var b bytes.Buffer
	if err := WriteCall(&b, "method", []byte("body")); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 1, 'm', 0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, b []byte) {
		method, body, err := ReadCall(bytes.NewReader(b))
		if err == nil && len(method)+len(body)+8 > len(b) {
			t.Errorf("more was read than was there")
		}
	})
}

func TestCallsAndAnswers(t *testing.T) {
	var b bytes.Buffer
	if err := WriteCall(&b, "m", []byte("body")); err != nil {
		t.Fatal(err)
	}
	if m, body, err := ReadCall(&b); m != "m" || string(body) != "body" || err != nil {
		t.Errorf("%q %q %v", m, body, err)
	}
	if err := WriteAnswer(&b, []byte("yes"), nil); err != nil {
		t.Fatal(err)
	}
	if body, err := ReadAnswer(&b); string(body) != "yes" || err != nil {
		t.Errorf("%q %v", body, err)
	}
	if err := WriteAnswer(&b, make([]byte, MaxCallBody+1), nil); err != nil {
		t.Fatal(err)
	}
	var ce *CallError
	if _, err := ReadAnswer(&b); !errors.As(err, &ce) {
		t.Errorf("an answer beyond the limit: %v", err)
	}
	if err := WriteCall(&b, "m", make([]byte, MaxCallBody+1)); !errors.Is(err, ErrProtocol) {
		t.Errorf("a request beyond the limit: %v", err)
	}
}

// endpoint is a listening transport for tests.
type endpoint struct {
	id    string
	addr  string
	trans *Transport
	ln    net.Listener

	mu   sync.Mutex
	acks []Ack
}

func newEndpoint(t *testing.T, id string, inspect func(raft.RPC) bool, edits ...func(*TransportConfig)) *endpoint {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoint{id: id, addr: ln.Addr().String(), ln: ln}
	var served sync.WaitGroup
	cfg := TransportConfig{
		LocalID: raft.ServerID(id), LocalAddress: e.addr, Now: BootTime, Timeout: 10 * time.Second, Logger: hclog.NewNullLogger(),
		Dial: func(target, addr string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			c, _, err := Dial(ctx, addr, Hello{Kind: KindRaft, NodeID: id, ClusterID: "c", Target: target, Address: e.addr}, Faults{})
			return c, err
		},
		Acked: func(a Ack) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.acks = append(e.acks, a)
		},
		Inspect: inspect,
	}
	for _, edit := range edits {
		edit(&cfg)
	}
	e.trans = NewTransport(cfg)
	served.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, err = Accept(c, func(h Hello) Hello {
				mine := Hello{NodeID: id, ClusterID: "c", Address: e.addr}
				if h.Target != id {
					mine.Refused = "node " + h.Target + " is wanted, this is " + id
				}
				return mine
			})
			if err != nil {
				c.Close()
				continue
			}
			e.trans.Deliver(c)
		}
	})
	t.Cleanup(func() {
		ln.Close()
		served.Wait()
		if err := e.trans.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// answer responds to what the transport delivers until the test ends.
func (e *endpoint) answer(t *testing.T, respond func(command any) any) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case rpc := <-e.trans.Consumer():
				rpc.Respond(respond(rpc.Command), nil)
			case <-done:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		wg.Wait()
	})
}

func TestAcknowledgementsCarryTheSendTime(t *testing.T) {
	a := newEndpoint(t, "a", nil)
	b := newEndpoint(t, "b", nil)
	var mu sync.Mutex
	received := make(map[uint64]time.Duration)
	success, term := true, uint64(5)
	b.answer(t, func(command any) any {
		mu.Lock()
		defer mu.Unlock()
		if c, ok := command.(*raft.AppendEntriesRequest); ok {
			received[c.PrevLogEntry] = BootTime()
		}
		return &raft.AppendEntriesResponse{Term: term, Success: success}
	})
	send := func(prev uint64) {
		t.Helper()
		req := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte(a.addr)}, Term: 5, PrevLogEntry: prev, Entries: []*raft.Log{{Index: prev + 1}}}
		if err := a.trans.AppendEntries("b", raft.ServerAddress(b.addr), req, &raft.AppendEntriesResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	before := BootTime()
	send(10)
	pipe, err := a.trans.AppendEntriesPipeline("b", raft.ServerAddress(b.addr))
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(20); i < 24; i++ {
		req := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte(a.addr)}, Term: 5, PrevLogEntry: i, Entries: []*raft.Log{{Index: i + 1}}}
		if _, err := pipe.AppendEntries(req, &raft.AppendEntriesResponse{}); err != nil {
			t.Fatal(err)
		}
		if f := <-pipe.Consumer(); f.Error() != nil {
			t.Fatal(f.Error())
		}
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	success = false
	mu.Unlock()
	send(30)
	mu.Lock()
	success, term = true, 6
	mu.Unlock()
	send(40)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.acks) != 5 {
		t.Fatalf("%d acknowledgements, want 5: one plain, four pipelined; refused and foreign ones do not count", len(a.acks))
	}
	mu.Lock()
	defer mu.Unlock()
	for _, ack := range a.acks {
		if ack.Sent < before || ack.Sent > received[ack.Match-1] || ack.Term != 5 || ack.Peer != "b" {
			t.Errorf("%+v, received at %v", ack, received[ack.Match-1])
		}
	}
}

func TestAWrongNodeIsRefusedByName(t *testing.T) {
	a := newEndpoint(t, "a", nil)
	b := newEndpoint(t, "b", nil)
	err := a.trans.RequestVote("x", raft.ServerAddress(b.addr), &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{})
	var r *RefusedError
	if !errors.As(err, &r) || !strings.Contains(err.Error(), "node x is wanted, this is b") {
		t.Errorf("got %v", err)
	}
}

func TestInjectedAndInspectedRPCs(t *testing.T) {
	a := newEndpoint(t, "a", nil)
	refused := errors.New("not now")
	b := newEndpoint(t, "b", func(rpc raft.RPC) bool {
		if _, ok := rpc.Command.(*raft.InstallSnapshotRequest); ok {
			Refuse(rpc, refused)
			return true
		}
		return false
	})
	b.answer(t, func(command any) any {
		if c, ok := command.(*raft.TimeoutNowRequest); !ok || c.ProtocolVersion != 3 || string(c.ID) != "b" || string(c.Addr) != b.addr {
			t.Errorf("injected: %+v", command)
		}
		return &raft.TimeoutNowResponse{}
	})
	if err := b.trans.InjectTimeoutNow(); err != nil {
		t.Error(err)
	}
	data := strings.NewReader(strings.Repeat("s", 1<<20))
	err := a.trans.InstallSnapshot("b", raft.ServerAddress(b.addr), &raft.InstallSnapshotRequest{Size: int64(data.Len())}, &raft.InstallSnapshotResponse{}, data)
	if err == nil || !strings.Contains(err.Error(), refused.Error()) {
		t.Errorf("a snapshot that was to be refused: %v", err)
	}
	if err := b.trans.Close(); err != nil {
		t.Error(err)
	}
	if err := b.trans.InjectTimeoutNow(); !errors.Is(err, ErrClosed) {
		t.Errorf("injection after the end: %v", err)
	}
}

func TestInboxKeepsConnectionsUntilThereIsANode(t *testing.T) {
	in := NewInbox()
	got := make(chan net.Conn, 4)
	a, b := net.Pipe()
	defer a.Close()
	in.Handle(b)
	in.Serve(func(c net.Conn) { got <- c })
	if c := <-got; c != b {
		t.Error("another connection")
	}
	in.Handle(b)
	<-got
	in.Close()
	in.Handle(b)
	if _, err := a.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a connection to a closed inbox: %v", err)
	}
}

func TestBootTimeGoesOn(t *testing.T) {
	a := BootTime()
	time.Sleep(time.Millisecond)
	if b := BootTime(); b <= a || b-a > time.Hour {
		t.Errorf("%v, then %v", a, b)
	}
}

func TestAVoteIsAskedForAgainWhenThePooledConnectionIsDead(t *testing.T) {
	a := newEndpoint(t, "a", nil)
	b := newEndpoint(t, "b", nil)
	b.answer(t, func(any) any { return &raft.RequestVoteResponse{Granted: true} })
	vote := func() error {
		var resp raft.RequestVoteResponse
		return a.trans.RequestVote("b", raft.ServerAddress(b.addr), &raft.RequestVoteRequest{}, &resp)
	}
	if err := vote(); err != nil {
		t.Fatal(err)
	}
	// The peer's process ends and comes back: what is left of it here is a dead connection in the pool.
	b.trans.stream.mu.Lock()
	for c := range b.trans.stream.conns {
		c.Conn.Close()
	}
	b.trans.stream.mu.Unlock()
	if err := vote(); err != nil {
		t.Errorf("the vote was lost: %v", err)
	}
}

// A pipeline whose sender waits for room must not outlive the transport: raft would wait for it for ever at its end.
func TestClosingTheTransportFreesAFullPipeline(t *testing.T) {
	a := newEndpoint(t, "a", nil)
	b := newEndpoint(t, "b", nil)
	b.answer(t, func(any) any { return &raft.AppendEntriesResponse{Term: 5, Success: true} })
	pipe, err := a.trans.AppendEntriesPipeline("b", raft.ServerAddress(b.addr))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		for { // nobody consumes
			if _, err := pipe.AppendEntries(&raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte(a.addr)}, Term: 5, PrevLogEntry: 1}, &raft.AppendEntriesResponse{}); err != nil {
				ended <- err
				return
			}
		}
	}()
	time.Sleep(50 * time.Millisecond) // long enough to fill it; shorter is no failure
	if err := a.trans.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the sender still waits")
	}
}
