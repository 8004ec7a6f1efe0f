package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// fuzzEndpoints are the endpoints that a fuzzed message can be sent to.
var fuzzEndpoints = []string{"CoarseGrainedScheduler", "BlockManagerMaster", "HeartbeatReceiver", "AppClient", "endpoint-verifier"}

func refuseDial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("nobody is dialled here")
}

// One message of a stranger, as an ask and one-way, before and after it has registered as an executor, ends or ruins
// nothing: the application still answers.
func FuzzDriverEndpoint(f *testing.F) {
	for _, release := range []string{"3.5.9", "4.3.0"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "transport", "sparkmsg", "testdata", "executor-"+release, "*.bin"))
		if err != nil || len(files) == 0 {
			f.Fatal(err)
		}
		for i, name := range files {
			raw, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			fr, err := frame.NewReader(bytes.NewReader(raw)).Next()
			if err != nil {
				f.Fatal(err)
			}
			if req, err := frame.ParseRequest(fr.Body); err == nil && fr.Type != frame.RPCResponse {
				f.Add(byte(i), req.Content)
			} else {
				f.Add(byte(i), fr.Body)
			}
		}
	}
	for _, msg := range []sparkmsg.Message{
		&sparkmsg.RegisteredApplication{AppID: "x", Master: sparkmsg.EndpointRef{Name: "Master"}},
		&sparkmsg.ExecutorUpdated{ID: -1, State: sparkmsg.ExecutorLost}, &sparkmsg.ApplicationRemoved{Message: "x"},
		&sparkmsg.ExecutorAdded{ID: 1 << 30, HostPort: ":"}, &sparkmsg.MasterChanged{},
	} {
		content, err := sparkmsg.Encode(msg, sparkmsg.FamilyB)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(3), content)
	}
	register, err := sparkmsg.Encode(&sparkmsg.RegisterExecutor{ExecutorID: "0", Executor: sparkmsg.EndpointRef{Name: "Executor"}}, sparkmsg.FamilyB)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, endpoint byte, content []byte) {
		if len(content) == 0 || len(content) > 64<<10 {
			return
		}
		a, err := New(Config{Masters: []string{"127.0.0.1:1"}, Host: "127.0.0.1", Family: sparkmsg.FamilyB,
			Dial: refuseDial, Timers: Timers{RegisterEvery: time.Nanosecond}})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		a.onAdded(&sparkmsg.ExecutorAdded{ID: 0, HostPort: "h:1"})
		name := fuzzEndpoints[int(endpoint)%len(fuzzEndpoints)]
		var script []byte
		for _, c := range [][]byte{content, register, content} {
			body := frame.AppendRequest(nil, frame.Request{Endpoint: name, Content: c})
			script = frame.Append(script, frame.Frame{Type: frame.RPCRequest, RequestID: 1, Body: body})
			script = frame.Append(script, frame.Frame{Type: frame.OneWayMessage, Body: body})
		}
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Write(script) // cut off when it is malformed
			_ = theirs.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = io.Copy(io.Discard, theirs)
			_ = theirs.Close()
		}()
		a.ep.ServeConn(ours)
		a.Driver().Executors()
		if _, ok := a.Driver().Executor(0); !ok {
			t.Error("executor 0 is forgotten")
		}
	})
}
