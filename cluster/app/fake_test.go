package app

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// fakeExecutor is one connection of an executor: it has no address, asks, and is asked.
type fakeExecutor struct {
	t    testing.TB
	fam  sparkmsg.Family
	nc   net.Conn
	done chan struct{}

	mu      sync.Mutex
	next    int64
	waiting map[int64]chan frame.Frame
	pushed  []sparkmsg.Message
	dump    []byte // answer to TriggerThreadDump; nil: none
}

func dialExecutor(t testing.TB, a *App) *fakeExecutor {
	t.Helper()
	nc, err := net.Dial("tcp", a.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	x := &fakeExecutor{t: t, fam: a.cfg.Family, nc: nc, done: make(chan struct{}), waiting: map[int64]chan frame.Frame{}}
	go x.read()
	t.Cleanup(x.close)
	return x
}

func (x *fakeExecutor) close() {
	_ = x.nc.Close()
	<-x.done
}

func (x *fakeExecutor) read() {
	defer close(x.done)
	r := frame.NewReader(x.nc)
	for {
		f, err := r.Next()
		if err != nil {
			return
		}
		switch f.Type {
		case frame.RPCResponse, frame.RPCFailure:
			x.mu.Lock()
			if ch := x.waiting[f.RequestID]; ch != nil {
				f.Body = bytes.Clone(f.Body)
				ch <- f
			}
			x.mu.Unlock()
		case frame.OneWayMessage, frame.RPCRequest:
			req, err := frame.ParseRequest(f.Body)
			if err != nil || req.Sender == nil || req.Receiver != nil {
				x.t.Errorf("frame of the driver: %+v, %v", req, err)
				return
			}
			d, err := sparkmsg.Decode(req.Content)
			if err != nil {
				x.t.Error(err)
				return
			}
			x.mu.Lock()
			x.pushed = append(x.pushed, d.Msg)
			dump := x.dump
			x.mu.Unlock()
			if f.Type == frame.RPCRequest && dump != nil {
				x.write(frame.Append(nil, frame.Frame{Type: frame.RPCResponse, RequestID: f.RequestID, Body: dump}))
			}
		}
	}
}

func (x *fakeExecutor) write(b []byte) {
	if _, err := x.nc.Write(b); err != nil {
		x.t.Logf("executor cannot write: %v", err)
	}
}

func (x *fakeExecutor) got(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.pushed {
		if m.MessageName() == name {
			return true
		}
	}
	return false
}

// ask sends a stream to an endpoint and returns the answer; a failure is an error.
func (x *fakeExecutor) askStream(endpoint string, content []byte) (sparkmsg.Message, error) {
	x.t.Helper()
	x.mu.Lock()
	x.next++
	id := x.next
	ch := make(chan frame.Frame, 1)
	x.waiting[id] = ch
	x.mu.Unlock()
	x.write(frame.Append(nil, frame.Frame{Type: frame.RPCRequest, RequestID: id,
		Body: frame.AppendRequest(nil, frame.Request{Endpoint: endpoint, Content: content})}))
	select {
	case f := <-ch:
		if f.Type == frame.RPCFailure {
			return nil, errors.New(string(f.Body))
		}
		d, err := sparkmsg.Decode(f.Body)
		return d.Msg, err
	case <-x.done:
		return nil, errors.New("connection closed")
	case <-time.After(patience):
		x.t.Fatalf("no answer of %s", endpoint)
		return nil, nil
	}
}

func (x *fakeExecutor) encode(msg sparkmsg.Message) []byte {
	x.t.Helper()
	content, err := sparkmsg.Encode(msg, x.fam)
	if err != nil {
		x.t.Fatal(err)
	}
	return content
}

func (x *fakeExecutor) ask(endpoint string, msg sparkmsg.Message) (sparkmsg.Message, error) {
	x.t.Helper()
	return x.askStream(endpoint, x.encode(msg))
}

func (x *fakeExecutor) send(endpoint string, msg sparkmsg.Message) {
	x.t.Helper()
	x.write(frame.Append(nil, frame.Frame{Type: frame.OneWayMessage,
		Body: frame.AppendRequest(nil, frame.Request{Endpoint: endpoint, Content: x.encode(msg)})}))
}

// register does what an executor does up to LaunchedExecutor.
func (x *fakeExecutor) register(a *App, id int32) error {
	x.t.Helper()
	name := strconv.Itoa(int(id))
	for _, endpoint := range []string{"CoarseGrainedScheduler", "MapOutputTracker", "BlockManagerMaster", "AnythingAtAll"} {
		if m, err := x.ask("endpoint-verifier", &sparkmsg.CheckExistence{Name: endpoint}); err != nil || !m.(*sparkmsg.Boolean).Value {
			x.t.Errorf("%s does not exist: %v", endpoint, err)
		}
	}
	m, err := x.ask("CoarseGrainedScheduler", &sparkmsg.RegisterExecutor{ExecutorID: name, Hostname: "127.0.0.1", Cores: 1,
		Executor: sparkmsg.EndpointRef{Name: "Executor"}, Attributes: []sparkmsg.StringPair{{Key: runAttribute, Value: a.run}}})
	if err != nil {
		return err
	}
	if !m.(*sparkmsg.Boolean).Value {
		x.t.Error("registration answered false")
	}
	bm := sparkmsg.BlockManagerID{ExecutorID: name, Host: "127.0.0.1", Port: 4711}
	if m, err = x.ask("BlockManagerMaster", &sparkmsg.RegisterBlockManager{ID: bm, Sender: sparkmsg.EndpointRef{Name: "BlockManagerEndpoint1"}}); err != nil {
		return err
	}
	if got := m.(*sparkmsg.RegisteredBlockManager).ID; got.ExecutorID != name || got.Port != 4711 {
		x.t.Errorf("block manager %+v", got)
	}
	x.send("CoarseGrainedScheduler", &sparkmsg.LaunchedExecutor{ExecutorID: name})
	return nil
}

func (x *fakeExecutor) beat(id int32) error {
	x.t.Helper()
	m, err := x.ask("HeartbeatReceiver", &sparkmsg.ExecutorHeartbeat{ExecutorID: strconv.Itoa(int(id)),
		BlockManager: sparkmsg.BlockManagerID{ExecutorID: strconv.Itoa(int(id)), Host: "h"}})
	if err != nil {
		return err
	}
	if m.(*sparkmsg.HeartbeatResponse).ReregisterBlockManager {
		x.t.Error("asked to register again")
	}
	return nil
}

func waitExecutors(t testing.TB, a *App, cond func([]Executor) bool) []Executor {
	t.Helper()
	list, err := a.Driver().Wait(within(t), cond)
	if err != nil {
		t.Fatalf("%v: %+v", err, list)
	}
	return list
}

func passed(n int, s Step) func([]Executor) bool {
	return func(list []Executor) bool {
		count := 0
		for i := range list {
			if list[i].Reached(s) {
				count++
			}
		}
		return count >= n
	}
}

// grant makes the master tell of an executor up to RUNNING.
func (m *fakeMaster) grant(a *App, id int32, hostPort string) {
	m.push(a, &sparkmsg.ExecutorAdded{ID: id, WorkerID: "worker-" + hostPort, HostPort: hostPort, Cores: 1, Memory: 512})
	m.push(a, &sparkmsg.ExecutorUpdated{ID: id, State: sparkmsg.ExecutorLaunching})
	m.push(a, &sparkmsg.ExecutorUpdated{ID: id, State: sparkmsg.ExecutorRunning})
}

func (m *fakeMaster) end(a *App, id int32, state sparkmsg.ExecutorState, status int32) {
	text := "Command exited with code " + strconv.Itoa(int(status))
	m.push(a, &sparkmsg.ExecutorUpdated{ID: id, State: state, Message: &text, ExitStatus: &status})
}

// recorded returns the frame that a real process sent.
func recorded(t testing.TB, release, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "transport", "sparkmsg", "testdata", "executor-"+release, name+".bin"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// recordedStream returns the Java stream in the frame of a recording: of an answer, or of a request.
func recordedStream(t testing.TB, release, name string) []byte {
	t.Helper()
	f, err := frame.NewReader(bytes.NewReader(recorded(t, release, name))).Next()
	if err != nil {
		t.Fatal(err)
	}
	if f.Type == frame.RPCResponse {
		return bytes.Clone(f.Body)
	}
	req, err := frame.ParseRequest(f.Body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(req.Content)
}
