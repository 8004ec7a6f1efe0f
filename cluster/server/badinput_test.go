package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/cluster/sparkpeer"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// victims are a worker and an application that work while others send rubbish; they must not notice.
type victims struct {
	c    *cluster
	l    *member
	w    *worker
	a    *sparkpeer.App
	term uint64
}

func newVictims(t *testing.T) *victims {
	t.Helper()
	c := start(t, 3, steadyFailover)
	v := &victims{c: c, w: c.readyWorker(sparkmsg.FamilyB, 2)}
	v.a = c.readyApp(sparkmsg.FamilyB, 2) // takes the whole worker, so that nothing forged is placed there
	c.runs(v.a, 2)
	c.settle()
	v.l = c.leader()
	v.term = v.l.server().node.Status().Term
	return v
}

// unmoved makes sure that they work on and have seen nothing.
func (v *victims) unmoved() {
	t := v.c.t
	t.Helper()
	if s := v.l.server(); !leads(s) || s.node.Status().Term != v.term {
		t.Fatalf("there was a change of leaders")
	}
	beats := func() int64 {
		st, err := v.l.server().svc.Status(t.(*testing.T).Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.LastHeartbeats[v.w.ID()].UnixNano()
	}
	before := beats()
	eventually(t, "a heartbeat of the worker", func() bool { return beats() > before })
	if ok, err := v.a.RequestExecutors(2); !ok || err != nil {
		t.Errorf("the application's request: %v %v", ok, err)
	}
	for kind, n := range map[string]int{sparkpeer.DidLoseMaster: 0, "ReconnectWorker": 0, "MasterChanged": 0, "RegisteredWorker": 1, "KillExecutor": 0, "LaunchExecutor": 2} {
		if got := v.w.Log().Count(kind); got != n {
			t.Errorf("the worker saw %s %d times, want %d", kind, got, n)
		}
	}
	for kind, n := range map[string]int{sparkpeer.DidLoseMaster: 0, "MasterChanged": 0, "RegisteredApplication": 1, "ExecutorAdded": 2, "ApplicationRemoved": 0} {
		if got := v.a.Log().Count(kind); got != n {
			t.Errorf("the application saw %s %d times, want %d", kind, got, n)
		}
	}
	if len(v.c.runs(v.a, 2)) != 2 || ended(v.a) != 0 {
		t.Error("an executor has ended")
	}
}

// stranger dials the leader from an address of its own.
func (v *victims) stranger(from string) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: 20 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.Dial("tcp", v.l.cfg.Advertise().String())
	if err != nil {
		return nil, err
	}
	return nc.(*net.TCPConn), nc.SetDeadline(time.Now().Add(patience))
}

// send writes bytes on a new connection and returns what came back until the master closed it.
func (v *victims) send(t *testing.T, from string, b []byte) string {
	t.Helper()
	nc, err := v.stranger(from)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write(b); err != nil {
		return ""
	}
	answer, err := io.ReadAll(nc)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Errorf("%.40q: the connection was not closed", b)
	}
	return string(answer)
}

func TestNoiseOnTheClusterPort(t *testing.T) {
	t.Parallel()
	v := newVictims(t)
	from := newHost()
	for _, verb := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"} {
		if got := v.send(t, from, []byte(verb+" /json/ HTTP/1.1\r\nHost: x\r\n\r\n")); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, v.l.webURL()) {
			t.Errorf("%s: %q", verb, got)
		}
	}
	length := func(n int64, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint64(nil, uint64(n)), rest...)
	}
	for name, b := range map[string][]byte{
		"TLS hello":       append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3}, bytes.Repeat([]byte{7}, 505)...),
		"negative length": length(-1, 9, 9, 9),
		"most negative":   length(-1<<63, 9),
		"zero length":     length(0, 3),
		"2 GiB":           length(1<<31, 3, 0, 0),
		"2^62":            length(1<<62, 3, 0, 0),
		"no frame type":   length(9, 77),
		"internal magic":  append([]byte{0xA7}, bytes.Repeat([]byte{0xFF}, 300)...),
		"text":            []byte("xyzzy\n"),
	} {
		t.Run(name, func(t *testing.T) {
			if got := v.send(t, from, b); strings.HasPrefix(got, "HTTP") {
				t.Errorf("answer %q", got)
			}
		})
	}
	v.unmoved()
}

// Connections that say nothing, half of something, or one byte now and then cost what they cost and hold up nobody.
func TestHalfOpenAndSlowConnections(t *testing.T) {
	slow(t)
	t.Parallel()
	v := newVictims(t)
	from := newHost()
	real := realFrames(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	slow := func(nc net.Conn, b []byte) {
		defer nc.Close()
		for _, x := range b {
			if _, err := nc.Write([]byte{x}); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	var open []net.Conn
	for i := range 60 {
		nc, err := v.stranger(from)
		if err != nil {
			t.Fatal(err)
		}
		f := real[i%len(real)]
		switch i % 3 {
		case 0: // silent
			open = append(open, nc)
		case 1: // half of a frame, then nothing
			if _, err := nc.Write(f[:len(f)/2]); err != nil {
				t.Error(err)
			}
			open = append(open, nc)
		case 2:
			wg.Go(func() { slow(nc, f) })
		}
	}
	v.unmoved()
	close(stop)
	wg.Wait()
	for _, nc := range open {
		_ = nc.Close()
	}
}

// realFrames reads the captured frames, with the captured host replaced by one where nobody listens: the master would
// call back whoever is at the addresses in them.
func realFrames(t *testing.T) [][]byte {
	t.Helper()
	names, err := filepath.Glob("../../transport/sparkmsg/testdata/*/*.bin")
	if err != nil || len(names) < 100 {
		t.Fatalf("%d captures: %v", len(names), err)
	}
	var out [][]byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, bytes.ReplaceAll(b, []byte("127.0.0.1"), []byte("127.7.7.7")))
	}
	return out
}

// mutate returns a damaged copy of a frame. Mostly the damage is in the message and the frame around it stays whole, so
// that it is read; whole tells whether that is so.
func mutate(rng *rand.Rand, b []byte) (out []byte, whole bool) {
	f, err := frame.NewReader(bytes.NewReader(b)).Next()
	if err != nil || rng.IntN(5) == 0 {
		return damage(rng, bytes.Clone(b)), false
	}
	f.Body = damage(rng, bytes.Clone(f.Body))
	return frame.Append(nil, f), true
}

func damage(rng *rand.Rand, b []byte) []byte {
	for range 1 + rng.IntN(4) {
		if len(b) < 2 {
			return b
		}
		i := rng.IntN(len(b))
		switch rng.IntN(6) {
		case 0:
			b[i] ^= 1 << rng.IntN(8)
		case 1:
			b[i] = byte(rng.IntN(256))
		case 2:
			b = b[:i]
		case 3: // repeat a piece
			j := min(len(b), i+1+rng.IntN(64))
			b = append(b[:j:j], b[i:]...)
		case 4: // leave a piece out
			b = append(b[:i:i], b[min(len(b), i+1+rng.IntN(16)):]...)
		case 5: // a length or a handle
			if i+4 <= len(b) {
				binary.BigEndian.PutUint32(b[i:], []uint32{0, 1, 0x7E0000, 0x7E0001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF}[rng.IntN(7)])
			}
		}
	}
	return b
}

// S27: mutated real frames, on many connections. The masters live, their memory and goroutines come back, the state stays
// sound and the same everywhere, and those who work notice nothing.
func TestMutatedFrames(t *testing.T) {
	v := newVictims(t)
	total, senders := 10_000, 4
	if testing.Short() {
		total = 800
	}
	real := realFrames(t)
	goroutines, heap := runtime.NumGoroutine(), heapBytes()
	var wg sync.WaitGroup
	for s := range senders {
		from := newHost()
		rng := rand.New(rand.NewPCG(27, uint64(s)))
		wg.Go(func() {
			for sent := 0; sent < total/senders; {
				n, err := v.batch(rng, from, real)
				if err != nil {
					t.Error(err)
					return
				}
				sent += n
			}
		})
	}
	wg.Wait()
	v.unmoved()
	if _, body := v.l.get("/metrics"); !strings.Contains(body, `raftmaster_decode_errors_total{reason="frame"}`) {
		t.Error("no decode error was counted")
	}
	eventuallyNil(t, "goroutines and memory come back", func() error {
		g, h := runtime.NumGoroutine(), heapBytes()
		if g > goroutines+20 || h > heap+48<<20 {
			return fmt.Errorf("%d goroutines and %d KiB of heap; before %d and %d", g, h>>10, goroutines, heap>>10)
		}
		return nil
	})
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// batch sends a few frames on one connection, the last of which may break it, and waits until they are read.
func (v *victims) batch(rng *rand.Rand, from string, real [][]byte) (int, error) {
	nc, err := v.stranger(from)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	var b []byte
	n := 0
	for whole := true; whole && n < 8; n++ {
		var f []byte
		f, whole = mutate(rng, real[rng.IntN(len(real))])
		b = append(b, f...)
	}
	if _, err := nc.Write(b); err != nil {
		return n, nil // closed at a bad frame
	}
	if err := nc.CloseWrite(); err != nil {
		return n, nil
	}
	_, err = io.Copy(io.Discard, nc)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return n, fmt.Errorf("the connection was not closed: %w", err)
	}
	return n, nil
}

// S27: a registration that is no registration is dropped, or answered with a failure when it was asked, as
// docs/PROTOCOL.md says; its connection goes on, and the state does not change.
func TestRegistrationThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	v := newVictims(t)
	host := newHost()
	self := &frame.Address{Host: host, Port: driverPort}
	for _, fam := range []sparkmsg.Family{sparkmsg.FamilyB, sparkmsg.FamilyE} {
		good := registration(t, fam, self)
		foreign := bytes.Replace(good, []byte("DeployMessages$RegisterApplication"), []byte("DeployMessages$RegisterApplicatiom"), 1)
		inside := bytes.Replace(good, []byte("deploy.ApplicationDescription"), []byte("deploy.ApplicationDescriptiom"), 1)
		if bytes.Equal(good, foreign) || bytes.Equal(good, inside) {
			t.Fatal("the registration has other classes than this test knows")
		}
		for name, content := range map[string][]byte{
			"truncated": good[:len(good)-1], "half": good[:len(good)/2], "foreign class": foreign, "foreign class inside": inside, "stream header only": good[:4],
		} {
			t.Run(fam.String()+" "+name, func(t *testing.T) {
				index := v.l.server().State().Index()
				nc, err := v.stranger(host)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				request := func(typ frame.Type, id int64, endpoint string, content []byte) {
					t.Helper()
					to := v.l.address()
					body := frame.AppendRequest(nil, frame.Request{Sender: self, Receiver: &to, Endpoint: endpoint, Content: content})
					if _, err := nc.Write(frame.Append(nil, frame.Frame{Type: typ, RequestID: id, Body: body})); err != nil {
						t.Fatal(err)
					}
				}
				request(frame.OneWayMessage, 0, "Master", content)
				request(frame.RPCRequest, 7, "Master", content)
				ask, err := sparkmsg.Encode(&sparkmsg.CheckExistence{Name: "Master"}, fam)
				if err != nil {
					t.Fatal(err)
				}
				request(frame.RPCRequest, 8, "endpoint-verifier", ask)
				in := frame.NewReader(nc)
				for _, want := range []struct {
					typ frame.Type
					id  int64
				}{{frame.RPCFailure, 7}, {frame.RPCResponse, 8}} {
					f, err := in.Next()
					if err != nil {
						t.Fatalf("no answer to %d: %v", want.id, err)
					}
					if f.Type != want.typ || f.RequestID != want.id {
						t.Errorf("answer %v to %d, want %v to %d", f.Type, f.RequestID, want.typ, want.id)
					}
				}
				if now := v.l.server().State().Index(); now != index {
					t.Errorf("the state went from %d to %d", index, now)
				}
			})
		}
	}
	v.unmoved()
}

// registration is a RegisterApplication as a driver at that address sends it.
func registration(t *testing.T, fam sparkmsg.Family, driver *frame.Address) []byte {
	t.Helper()
	desc := &sparkmsg.ApplicationDescription{
		Name: "x", User: "u", AppUIURL: "http://" + driver.Host + ":4040",
		DefaultProfile: sparkmsg.ResourceProfile{
			ExecutorResources: []sparkmsg.ExecutorResourceRequest{{ResourceName: "memory", Amount: 512}},
			TaskResources:     []sparkmsg.TaskResourceRequest{{ResourceName: "cpus", Amount: 1}},
		},
		Command: sparkmsg.Command{MainClass: "m"},
	}
	if err := desc.Bind(fam); err != nil {
		t.Fatal(err)
	}
	b, err := sparkmsg.Encode(&sparkmsg.RegisterApplication{AppDescription: desc, Driver: sparkmsg.EndpointRef{Name: "AppClient", Address: driver}}, fam)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
