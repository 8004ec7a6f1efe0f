package sparkrpc

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// idling is how many connections wait without a goroutine.
func (e *Endpoint) idling() int {
	e.idlers.mu.Lock()
	defer e.idlers.mu.Unlock()
	return len(e.idlers.conns)
}

// beater is a server that takes repeated heartbeats by a shortcut.
type beater struct {
	*server
	noted   atomic.Int64 // by shortcuts
	decline atomic.Bool
	mu      sync.Mutex
	handled []string // by the Handler, in its order
}

func serveBeats(t testing.TB, tune func(*Config)) *beater {
	t.Helper()
	b := &beater{server: serve(t, tune)}
	b.rec.onSend = func(c *Conn, in Inbound) {
		b.mu.Lock()
		b.handled = append(b.handled, in.Msg.MessageName())
		b.mu.Unlock()
		if _, ok := in.Msg.(*sparkmsg.Heartbeat); ok {
			c.OnRepeat(in.Msg, func() bool {
				if b.decline.Load() {
					return false
				}
				b.noted.Add(1)
				return true
			})
		}
	}
	return b
}

// heard is what the Handler got, and how many heartbeats the shortcuts took.
func (b *beater) heard() (handled []string, noted int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.handled), b.noted.Load()
}

// idlePeer connects a peer and makes its connection idle; beat is its heartbeat.
func (b *beater) idlePeer(t testing.TB, n int) (p *script, beat []byte) {
	t.Helper()
	before := b.idling()
	p = dialScript(t, b.addr, frame.Address{Host: workerAddr.Host, Port: int32(10000 + n)})
	beat = p.request(frame.OneWayMessage, 0, "Master", mustEncode(t, heartbeat(fmt.Sprint("worker-", n), p.self), p.fam))
	p.write(beat)
	eventually(t, "a connection becomes idle after a heartbeat", func() bool { return b.idling() > before })
	return p, beat
}

// becomesIdle sends heartbeats until the one connection is idle; one that is read while a message is still being written
// does not make it so.
func (b *beater) becomesIdle(t testing.TB, p *script, beat []byte) {
	t.Helper()
	eventually(t, "the connection is idle again", func() bool {
		p.write(beat)
		time.Sleep(time.Millisecond)
		return b.idling() == 1
	})
}

func other(p *script) []byte {
	return p.request(frame.OneWayMessage, 0, "Master", mustEncode(p.t, &sparkmsg.UnregisterApplication{AppID: "x"}, p.fam))
}

func TestIdleConnectionsTakeHeartbeatsWithoutAGoroutine(t *testing.T) {
	b := serveBeats(t, nil)
	p, beat := b.idlePeer(t, 0)
	for n := int64(1); n <= 20; n++ {
		p.write(beat)
		eventually(t, "the heartbeat is noted", func() bool { return b.noted.Load() == n })
		if b.idling() != 1 {
			t.Fatal("a heartbeat has given the connection a goroutine")
		}
	}
	if handled, _ := b.heard(); len(handled) != 1 {
		t.Errorf("the Handler got %q", handled)
	}
	if in := b.Stats().FramesIn; in != 21 {
		t.Errorf("%d frames were counted, want 21", in)
	}
}

// Whatever comes in one segment with heartbeats keeps its place, however much it is.
func TestIdleConnectionsKeepTheOrder(t *testing.T) {
	b := serveBeats(t, nil)
	p, beat := b.idlePeer(t, 0)
	var mu sync.Mutex
	var at []int64 // how many heartbeats were noted before each other message
	b.rec.mu.Lock()
	handle := b.rec.onSend
	b.rec.onSend = func(c *Conn, in Inbound) {
		mu.Lock()
		at = append(at, b.noted.Load())
		mu.Unlock()
		handle(c, in)
	}
	b.rec.mu.Unlock()
	p.write(slices.Concat(beat, beat, other(p), beat, other(p)))
	p.write(slices.Concat(slices.Repeat(beat, 100), other(p), beat[:5]))
	p.write(beat[5:])
	p.ask(1, VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
	p.mustNext()
	mu.Lock()
	defer mu.Unlock()
	if want := []int64{2, 3, 103}; !slices.Equal(at, want) {
		t.Errorf("messages came behind %v heartbeats, want %v", at, want)
	}
	if _, noted := b.heard(); noted != 104 {
		t.Errorf("%d heartbeats were noted, want 104", noted)
	}
	b.becomesIdle(t, p, beat)
}

func TestAShortcutThatDeclinesOnAnIdleConnectionGivesTheHeartbeatToTheHandler(t *testing.T) {
	b := serveBeats(t, nil)
	p, beat := b.idlePeer(t, 0)
	b.decline.Store(true)
	p.write(slices.Concat(beat, beat))
	eventually(t, "both are handled", func() bool { handled, _ := b.heard(); return len(handled) == 3 })
	b.decline.Store(false)
	eventually(t, "the connection is idle again", func() bool { return b.idling() == 1 })
	p.write(beat)
	eventually(t, "the next is noted", func() bool { return b.noted.Load() == 1 })
}

// Half a frame ends a connection by the deadline of frames, whether it comes alone or behind a heartbeat.
func TestHalfAFrameOnAnIdleConnectionHitsTheDeadline(t *testing.T) {
	for name, whole := range map[string]int{"alone": 0, "behind heartbeats": 5} {
		t.Run(name, func(t *testing.T) {
			b := serveBeats(t, func(c *Config) { c.Limits.Frame = 50 * time.Millisecond })
			p, beat := b.idlePeer(t, 0)
			p.write(append(slices.Repeat(beat, whole), beat[:len(beat)/2]...))
			p.closedByServer()
			eventually(t, "the end is reported", func() bool { return len(b.rec.closed()) == 1 })
			if st := b.Stats(); st.BadFrames != 1 || b.noted.Load() != int64(whole) {
				t.Errorf("stats %+v, noted %d", st, b.noted.Load())
			}
		})
	}
}

// The end of a connection is seen while it is idle: its orderly close, its half close, its reset.
func TestTheEndOfAnIdleConnectionIsSeen(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn) error{
		"close":      (*net.TCPConn).Close,
		"half close": (*net.TCPConn).CloseWrite,
		"reset": func(c *net.TCPConn) error {
			if err := c.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := serveBeats(t, nil)
			p, _ := b.idlePeer(t, 0)
			if err := end(p.nc.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the end is reported", func() bool { return len(b.rec.closed()) == 1 })
			if got := b.rec.closed()[0]; got.peer != p.self || !got.last {
				t.Errorf("reported %+v", got)
			}
			if st := b.Stats(); st.Conns != 0 || st.BadFrames != 0 || b.idling() != 0 {
				t.Errorf("left behind: %+v, %d idle", st, b.idling())
			}
		})
	}
}

func TestMessagesForAnIdlePeerAreWritten(t *testing.T) {
	b := serveBeats(t, nil)
	p, beat := b.idlePeer(t, 0)
	for n := range 50 {
		b.Send(p.self, "Worker", sparkmsg.FamilyB, &sparkmsg.ApplicationFinished{ID: fmt.Sprint("app-", n)})
		if n%2 == 0 {
			p.write(beat) // at the same time
		}
		_, _, msg := p.nextMessage()
		if m, ok := msg.(*sparkmsg.ApplicationFinished); !ok || m.ID != fmt.Sprint("app-", n) {
			t.Fatalf("got %#v", msg)
		}
		if n%2 == 0 {
			continue
		}
		b.becomesIdle(t, p, beat)
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	b := serveBeats(t, nil)
	p, _ := b.idlePeer(t, 0)
	b.CloseConn(p.self, "test")
	p.closedByServer()
	eventually(t, "the end is reported", func() bool { return len(b.rec.closed()) == 1 })
}

// A thousand idle connections have no goroutine each, and end with the Endpoint, leaving no open file.
func TestAThousandIdleConnections(t *testing.T) {
	const peers = 1000
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	b := serveBeats(t, nil)
	var all []*script
	var beats [][]byte
	for n := range peers {
		p, beat := b.idlePeer(t, n)
		all, beats = append(all, p), append(beats, beat)
	}
	eventually(t, "their goroutines end", func() bool { return runtime.NumGoroutine() < goroutines+peers/10 })
	for n, p := range all {
		p.write(beats[n])
	}
	eventually(t, "all heartbeats are noted", func() bool { return b.noted.Load() == peers })
	if b.idling() != peers {
		t.Errorf("%d connections are idle, want %d", b.idling(), peers)
	}
	b.Close()
	b.Close()
	for _, p := range all {
		p.closedByServer()
		closeQuietly(p.nc)
	}
	if n := b.Stats().Conns; n != 0 {
		t.Errorf("%d connections are left", n)
	}
	eventually(t, "their files are closed", func() bool { return openFiles(t) < files+peers/10 })
}

func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A peer that never stops sending heartbeats does not keep the others from being heard.
func TestAFloodOfHeartbeatsHoldsUpNobody(t *testing.T) {
	b := serveBeats(t, nil)
	flood, beat := b.idlePeer(t, 0)
	p, one := b.idlePeer(t, 1)
	many := slices.Repeat(beat, 1000)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := flood.nc.Write(many); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for id := range int64(20) {
		p.write(one)
		p.ask(id, VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
		p.mustNext()
	}
	close(stop)
	wg.Wait()
}

// Heartbeats, messages in both directions and closes meet in every order.
func TestIdleConnectionsUnderStress(t *testing.T) {
	b := serveBeats(t, nil)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			for round := range 10 {
				stressPeer(t, b, 100*n+round)
			}
		})
	}
	wg.Wait()
	eventually(t, "every end is reported once", func() bool { return b.Stats().Conns == 0 && len(b.rec.closed()) == 200 })
	if b.idling() != 0 {
		t.Errorf("%d connections are still idle", b.idling())
	}
}

// stressPeer sends heartbeats among other messages while the server pushes, and is closed by one side or the other.
func stressPeer(t *testing.T, b *beater, n int) {
	nc, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Error(err)
		return
	}
	p := newScript(t, nc, frame.Address{Host: workerAddr.Host, Port: int32(10000 + n)})
	beat := p.request(frame.OneWayMessage, 0, "Master", mustEncode(t, heartbeat(fmt.Sprint("worker-", n), p.self), p.fam))
	const pushes = 20
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 100 {
			out := beat
			if i%7 == 0 {
				out = slices.Concat(beat, other(p), beat)
			}
			if _, err := nc.Write(out); err != nil {
				t.Error(err)
				return
			}
			if i%5 == 0 {
				runtime.Gosched()
			}
		}
	})
	for i := range pushes {
		b.Send(p.self, "Worker", sparkmsg.FamilyB, &sparkmsg.ApplicationFinished{ID: fmt.Sprint(i)})
		if i == 0 {
			for end := time.Now().Add(patience); !b.Attached(p.self); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Error("a peer was not attached")
					break
				}
			}
		}
	}
	for i := range pushes {
		f, err := p.next()
		if err != nil {
			t.Errorf("push %d of peer %d: %v", i, n, err)
			break
		}
		if f.Type != frame.OneWayMessage {
			t.Errorf("got %v", f.Type)
		}
	}
	wg.Wait()
	if n%2 == 0 {
		closeQuietly(nc)
	} else {
		b.CloseConn(p.self, "test")
		p.closedByServer()
	}
}
