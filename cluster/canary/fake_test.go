package canary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// fakeWorker is a worker of a fakeCluster, and what happens to executors there.
type fakeWorker struct {
	id, state    string
	cores, used  int
	release      string
	draining     bool
	fails        bool // executors exit at once
	silent       bool // executors never come up
	hidden       bool // the master places nothing there
	stderr       string
	left         bool // shows an executor after its end
	everLaunched int
}

func (w *fakeWorker) addr() string { return strings.TrimPrefix(w.id, "worker-") }

// fakeApp is an application of a fakeCluster.
type fakeApp struct {
	id     string
	driver frame.Address
	url    string
	run    string // what executors show to belong to this application
	fam    sparkmsg.Family
	total  int
	next   int32
	execs  map[int32]*fakeExecutor
}

// fakeCluster is a master with its workers, seen through RPC and HTTP. pick chooses the worker of an executor among those
// with a free core; nil: the one with the fewest executors.
type fakeCluster struct {
	t    *testing.T
	addr frame.Address
	ep   *sparkrpc.Endpoint
	ln   net.Listener
	web  *httptest.Server
	wg   sync.WaitGroup
	ours bool
	pick func(free []*fakeWorker) *fakeWorker

	mu      sync.Mutex
	workers []*fakeWorker
	apps    map[string]*fakeApp
	gone    []string // applications that unregistered
	stop    bool
}

func newCluster(t *testing.T, ours bool, workers ...*fakeWorker) *fakeCluster {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeCluster{t: t, ln: ln, ours: ours, workers: workers, apps: map[string]*fakeApp{}}
	c.addr = frame.Address{Host: "127.0.0.1", Port: int32(ln.Addr().(*net.TCPAddr).Port)}
	c.ep = sparkrpc.New(sparkrpc.Config{Self: c.addr, Log: hclog.NewNullLogger(), Exists: func(n string) bool { return n == "Master" }}, c)
	c.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.ep.ServeConn(nc) })
		}
	})
	c.web = httptest.NewServer(c)
	t.Cleanup(c.close)
	return c
}

func (c *fakeCluster) close() {
	c.mu.Lock()
	c.stop = true
	for _, a := range c.apps {
		for _, x := range a.execs {
			x.close()
		}
	}
	c.mu.Unlock()
	c.web.Close()
	c.ln.Close()
	c.ep.Close()
	c.wg.Wait()
}

func (c *fakeCluster) Closed(*sparkrpc.Conn, frame.Address, bool) {}

func (c *fakeCluster) OneWay(_ *sparkrpc.Conn, in sparkrpc.Inbound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := in.Msg.(type) {
	case *sparkmsg.RegisterApplication:
		fam, ok := in.Families.Single()
		if !ok {
			fam = in.Families.Lowest()
		}
		a := &fakeApp{id: fmt.Sprintf("app-%d", len(c.apps)), driver: *m.Driver.Address, fam: fam, execs: map[int32]*fakeExecutor{}}
		if n := m.AppDescription.InitialExecutorLimit; n != nil {
			a.total = int(*n)
		}
		args := m.AppDescription.Command.Arguments
		a.url = args[slices.Index(args, "--driver-url")+1]
		for _, v := range m.AppDescription.Command.Environment {
			if name, ok := strings.CutPrefix(v.Name, "SPARK_EXECUTOR_ATTRIBUTE_"); ok {
				a.run = name + "=" + v.Value
			}
		}
		c.apps[a.id] = a
		self := c.addr
		c.push(a, &sparkmsg.RegisteredApplication{AppID: a.id, Master: sparkmsg.EndpointRef{Name: "Master", Address: &self}})
		c.plan(a)
	case *sparkmsg.UnregisterApplication:
		c.gone = append(c.gone, m.AppID)
	}
}

func (c *fakeCluster) Ask(_ *sparkrpc.Conn, in sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := in.Msg.(type) {
	case *sparkmsg.RequestExecutors:
		a := c.apps[m.AppID]
		a.total = int(m.ResourceProfileToTotalExecs[0].Total)
		reply(&sparkmsg.Boolean{Value: true}, nil)
		c.plan(a)
	case *sparkmsg.KillExecutors:
		reply(&sparkmsg.Boolean{Value: true}, nil)
		a := c.apps[m.AppID]
		for _, id := range m.ExecutorIDs {
			n, _ := strconv.Atoi(id)
			if x := a.execs[int32(n)]; x != nil {
				c.end(x, sparkmsg.ExecutorKilled, 143)
			}
		}
	default:
		reply(&sparkmsg.Boolean{Value: true}, nil)
	}
}

func (c *fakeCluster) push(a *fakeApp, m sparkmsg.Message) {
	c.ep.Send(a.driver, "AppClient", a.fam, m)
}

// plan launches what is wanted. The caller holds the lock.
func (c *fakeCluster) plan(a *fakeApp) {
	for len(a.execs) < a.total && !c.stop {
		var free []*fakeWorker
		for _, w := range c.workers {
			if fam, _ := sparkmsg.FamilyForRelease(w.release); w.state == "ALIVE" && w.used < w.cores && !w.hidden && !w.draining && fam == a.fam {
				free = append(free, w)
			}
		}
		if len(free) == 0 {
			return
		}
		w := slices.MinFunc(free, func(x, y *fakeWorker) int { return x.used - y.used })
		if c.pick != nil {
			w = c.pick(free)
		}
		w.used++
		w.everLaunched++
		x := &fakeExecutor{c: c, app: a, worker: w, id: a.next}
		a.next++
		a.execs[x.id] = x
		c.push(a, &sparkmsg.ExecutorAdded{ID: x.id, WorkerID: w.id, HostPort: w.addr(), Cores: 1, Memory: 512})
		c.push(a, &sparkmsg.ExecutorUpdated{ID: x.id, State: sparkmsg.ExecutorRunning})
		c.wg.Go(x.live)
	}
}

// end takes an executor out. The caller holds the lock.
func (c *fakeCluster) end(x *fakeExecutor, state sparkmsg.ExecutorState, status int32) {
	if x.app.execs[x.id] != x {
		return
	}
	delete(x.app.execs, x.id)
	x.worker.used--
	x.close()
	text := fmt.Sprintf("Command exited with code %d", status)
	c.push(x.app, &sparkmsg.ExecutorUpdated{ID: x.id, State: state, Message: &text, ExitStatus: &status})
	// A master that launched without end would be a test without end.
	if x.worker.everLaunched < 50 {
		c.plan(x.app)
	}
}

// ServeHTTP is the web UI of the master, and under /worker/ID/ that of the workers.
func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]any{}
	var workers []map[string]any
	for _, x := range c.workers {
		url := c.web.URL + "/worker/" + x.id
		host, port, _ := net.SplitHostPort(x.addr())
		n, _ := strconv.Atoi(port)
		workers = append(workers, map[string]any{"id": x.id, "host": host, "port": n, "webuiaddress": url, "web_url": url, "state": x.state, "draining": x.draining,
			"cores": x.cores, "coresfree": x.cores - x.used, "memory": 4096, "memoryfree": 4096, "cores_used": x.used, "memory_mb": 4096, "spark_version": x.release})
		if path, ok := strings.CutPrefix(r.URL.Path, "/worker/"+x.id); ok {
			c.serveWorker(w, x, path)
			return
		}
	}
	switch path := r.URL.Path; {
	case path == "/json/":
		var active []map[string]any
		for id := range c.apps {
			if !slices.Contains(c.gone, id) {
				active = append(active, map[string]any{"id": id})
			}
		}
		out = map[string]any{"url": "spark://" + c.addr.String(), "status": "ALIVE", "workers": workers, "activeapps": active}
	case path == "/v1/status" && c.ours:
		out = map[string]any{"state": "ALIVE", "lease_valid": true, "cluster_url": "spark://" + c.addr.String()}
	case path == "/v1/workers" && c.ours:
		out["workers"] = workers
	default:
		fmt.Fprint(w, `<span class="version">4.3.0</span>`)
		return
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		c.t.Log(err)
	}
}

func (c *fakeCluster) serveWorker(w http.ResponseWriter, x *fakeWorker, path string) {
	var list []map[string]any
	for _, a := range c.apps {
		for _, e := range a.execs {
			if e.worker == x {
				list = append(list, map[string]any{"id": e.id, "appid": a.id})
			}
		}
		if x.left {
			list = append(list, map[string]any{"id": 99, "appid": a.id})
		}
	}
	switch path {
	case "/json/":
		if err := json.NewEncoder(w).Encode(map[string]any{"executors": list}); err != nil {
			c.t.Log(err)
		}
	case "/log/":
		fmt.Fprintf(w, "==== Bytes 0-9 of 9 of here ====\n%s", x.stderr)
	default:
		fmt.Fprintf(w, `<span class="version">%s</span>`, x.release)
	}
}

// fakeExecutor plays an executor JVM.
type fakeExecutor struct {
	c      *fakeCluster
	app    *fakeApp
	worker *fakeWorker
	id     int32
	nc     net.Conn // guarded by c.mu
	ended  bool
}

// close ends its connection. The caller holds the lock.
func (x *fakeExecutor) close() {
	x.ended = true
	if x.nc != nil {
		x.nc.Close()
	}
}

// live registers, gives a thread dump and stops when it is told to.
func (x *fakeExecutor) live() {
	c := x.c
	if x.worker.silent {
		return
	}
	if x.worker.fails {
		time.Sleep(20 * time.Millisecond) // no process ends sooner
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end(x, sparkmsg.ExecutorFailed, 1)
		return
	}
	_, at, _ := strings.Cut(x.app.url, "@")
	nc, err := net.Dial("tcp", at)
	if err != nil {
		return // the canary is gone
	}
	c.mu.Lock()
	if x.nc = nc; x.ended {
		nc.Close()
	}
	c.mu.Unlock()
	defer nc.Close()
	steps := x.script(nc)
	steps[0]()
	steps = steps[1:]
	r := frame.NewReader(nc)
	for {
		f, err := r.Next()
		if err != nil {
			return
		}
		switch f.Type {
		case frame.RPCResponse:
			if len(steps) > 0 {
				steps[0]()
				steps = steps[1:]
			}
		case frame.RPCFailure:
			c.t.Errorf("executor %d was refused: %s", x.id, f.Body)
		case frame.RPCRequest: // nothing but the thread dump is asked for
			_, _ = nc.Write(frame.Append(nil, frame.Frame{Type: frame.RPCResponse, RequestID: f.RequestID, Body: threadDump(c.t)}))
		case frame.OneWayMessage: // StopExecutor
			c.mu.Lock()
			c.end(x, sparkmsg.ExecutorExited, 0)
			c.mu.Unlock()
		}
	}
}

// script is what an executor says at its start, one thing after each answer.
func (x *fakeExecutor) script(nc net.Conn) []func() {
	name := strconv.Itoa(int(x.id))
	attribute, value, _ := strings.Cut(x.app.run, "=")
	ask := int64(0)
	say := func(t frame.Type, endpoint string, m sparkmsg.Message) {
		content, err := sparkmsg.Encode(m, x.app.fam)
		if err != nil {
			x.c.t.Error(err)
			return
		}
		ask++
		_, _ = nc.Write(frame.Append(nil, frame.Frame{Type: t, RequestID: ask, Body: frame.AppendRequest(nil, frame.Request{Endpoint: endpoint, Content: content})}))
	}
	return []func(){
		func() { say(frame.RPCRequest, "CoarseGrainedScheduler", &sparkmsg.RetrieveSparkAppConfig{}) },
		func() {
			say(frame.RPCRequest, "CoarseGrainedScheduler", &sparkmsg.RegisterExecutor{ExecutorID: name, Hostname: "127.0.0.1", Cores: 1,
				Executor: sparkmsg.EndpointRef{Name: "Executor"}, Attributes: []sparkmsg.StringPair{{Key: attribute, Value: value}}})
		},
		func() {
			say(frame.RPCRequest, "BlockManagerMaster", &sparkmsg.RegisterBlockManager{ID: sparkmsg.BlockManagerID{ExecutorID: name, Host: "127.0.0.1", Port: 4711},
				Sender: sparkmsg.EndpointRef{Name: "BlockManagerEndpoint1"}})
		},
		func() {
			say(frame.OneWayMessage, "CoarseGrainedScheduler", &sparkmsg.LaunchedExecutor{ExecutorID: name})
		},
	}
}

// threadDump is the answer of a real executor, as it was recorded.
func threadDump(t *testing.T) []byte {
	raw, err := os.ReadFile(filepath.Join("..", "..", "transport", "sparkmsg", "testdata", "executor-4.3.0", "executor-to-driver-ThreadDump.bin"))
	if err != nil {
		t.Error(err)
		return nil
	}
	f, err := frame.NewReader(bytes.NewReader(raw)).Next()
	if err != nil {
		t.Error(err)
	}
	return f.Body
}
