package sparktest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

//go:embed testdata/app.py
var appScript []byte

// AppOptions describe an application.
type AppOptions struct {
	Spark         Spark             // default: the cluster's
	Name          string            // default: app1, app2...
	Cores         int               // spark.cores.max; 0: no limit
	ExecutorCores int               // spark.executor.cores; 0: unset
	Master        string            // default: the URL of all masters
	Conf          map[string]string // further spark.* settings
}

// App is a PySpark application under remote control, started with Spark's own
// spark-submit in client mode.
type App struct {
	*Process
	ID string // known after WaitStarted

	cluster *Cluster
	host    string
	control net.Listener
	events  chan appEvent // closed when the application has closed its side
	mu      sync.Mutex    // guards conn
	conn    net.Conn
	ledger  string
	next    int // id of the next task
}

type appEvent struct {
	Event   string `json:"event"`
	AppID   string `json:"app_id"`
	Version string `json:"version"`
	UI      string `json:"ui"`
	Sum     int64  `json:"sum"`
	Count   int    `json:"count"`
	Message string `json:"message"`
}

// StartApp starts an application and does not wait for its registration.
func (c *Cluster) StartApp(opts AppOptions) *App {
	c.tb.Helper()
	n := len(c.apps) + 1
	if opts.Name == "" {
		opts.Name = fmt.Sprintf("app%d", n)
	}
	a := &App{cluster: c, host: c.host(firstApp + n - 1), events: make(chan appEvent, 16),
		ledger: filepath.Join(c.dir, opts.Name+".ledger")}
	script := filepath.Join(c.dir, "app.py")
	if err := os.WriteFile(script, appScript, 0o644); err != nil {
		c.tb.Fatalf("application script: %v", err)
	}
	var err error
	if a.control, err = net.Listen("tcp", net.JoinHostPort(c.host(harnessHost), "0")); err != nil {
		c.tb.Fatalf("control port: %v", err)
	}
	go a.serveControl()
	a.Process, err = c.submit(opts, a.host, map[string]string{
		"SPARKTEST_CONTROL": a.control.Addr().String(),
		"SPARKTEST_LEDGER":  a.ledger,
	}, nil, script)
	if err != nil {
		a.closeControl()
		c.tb.Fatalf("start %s: %v", opts.Name, err)
	}
	c.apps = append(c.apps, a)
	return a
}

// submit runs spark-submit in client mode; before are flags for spark-submit,
// what is the application and its arguments.
func (c *Cluster) submit(opts AppOptions, host string, env map[string]string, before []string, what ...string) (*Process, error) {
	if opts.Spark.Home == "" {
		opts.Spark = c.opts.Spark
	}
	if opts.Master == "" {
		opts.Master = c.URL()
	}
	conf := map[string]string{
		"spark.app.name":                 opts.Name,
		"spark.driver.host":              host,
		"spark.driver.memory":            "512m",
		"spark.executor.memory":          "512m",
		"spark.eventLog.enabled":         "true",
		"spark.eventLog.dir":             "file://" + filepath.Join(c.dir, "events"),
		"spark.eventLog.compress":        "false",
		"spark.eventLog.rolling.enabled": "false",
	}
	if opts.Cores > 0 {
		conf["spark.cores.max"] = fmt.Sprint(opts.Cores)
	}
	if opts.ExecutorCores > 0 {
		conf["spark.executor.cores"] = fmt.Sprint(opts.ExecutorCores)
	}
	for k, v := range opts.Conf {
		conf[k] = v
	}
	args := []string{filepath.Join(opts.Spark.Home, "bin", "spark-submit"), "--master", opts.Master}
	for _, k := range sortedKeys(conf) {
		args = append(args, "--conf", k+"="+conf[k])
	}
	args = append(append(args, before...), what...)
	environ := map[string]string{"SPARK_HOME": opts.Spark.Home, "PYSPARK_PYTHON": opts.Spark.Python}
	for k, v := range env {
		environ[k] = v
	}
	return c.start(opts.Name, host, environ, append(politely, args...))
}

// serveControl accepts the one connection of the application and passes on what
// it says. It owns the events channel and ends when the connection does.
func (a *App) serveControl() {
	defer close(a.events)
	conn, err := a.control.Accept()
	if err != nil {
		return // closeControl
	}
	a.mu.Lock()
	a.conn = conn
	a.mu.Unlock()
	scanner := bufio.NewScanner(conn)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var event appEvent
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			event = appEvent{Event: "garbled", Message: err.Error()}
		}
		a.events <- event
	}
}

func (a *App) closeControl() {
	_ = a.control.Close() // may have been closed before
	a.mu.Lock()
	if a.conn != nil {
		_ = a.conn.Close()
	}
	a.mu.Unlock()
	go func() { // let serveControl end if it waits to pass something on
		for range a.events {
		}
	}()
}

func (a *App) send(command map[string]any) error {
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		return errors.New("the application has not connected yet")
	}
	_, err = a.conn.Write(append(line, '\n'))
	return err
}

func (a *App) await(want string, timeout time.Duration) (appEvent, error) {
	select {
	case event, ok := <-a.events:
		if !ok {
			return event, fmt.Errorf("%s has gone while %q was awaited", a.Name, want)
		}
		if event.Event != want {
			return event, fmt.Errorf("%s said %q (%s) while %q was awaited", a.Name, event.Event, event.Message, want)
		}
		return event, nil
	case <-time.After(timeout):
		return appEvent{}, fmt.Errorf("%s did not say %q within %v", a.Name, want, timeout)
	}
}

// WaitScript waits until the Python script runs: the next thing that it does is
// to create its SparkContext and so to register.
func (a *App) WaitScript() {
	a.cluster.tb.Helper()
	if _, err := a.await("hello", startTimeout); err != nil {
		a.cluster.tb.Fatalf("%v", err)
	}
}

// WaitRegistered waits, after WaitScript, until the application has its id.
func (a *App) WaitRegistered() {
	a.cluster.tb.Helper()
	event, err := a.await("started", startTimeout)
	if err != nil {
		a.cluster.tb.Fatalf("%v", err)
	}
	a.ID = event.AppID
}

// WaitStarted waits until the application is registered.
func (a *App) WaitStarted() *App {
	a.cluster.tb.Helper()
	a.WaitScript()
	a.WaitRegistered()
	return a
}

// jobTimeout bounds one job. It must outlive the start of an executor and a
// failover on a loaded machine.
const jobTimeout = 3 * time.Minute

// Begin starts a job of count tasks of the given length; End waits for it.
func (a *App) Begin(count int, seconds float64) {
	a.cluster.tb.Helper()
	err := a.send(map[string]any{"cmd": "run", "first": a.next, "count": count, "seconds": seconds})
	if err != nil {
		a.cluster.tb.Fatalf("%s: %v", a.Name, err)
	}
	a.next += count
}

// End waits for the job that Begin started and checks its sum.
func (a *App) End(count int) {
	a.cluster.tb.Helper()
	event, err := a.await("ran", jobTimeout)
	if err != nil {
		a.cluster.tb.Fatalf("%v", err)
	}
	var want int64
	for i := a.next - count; i < a.next; i++ {
		want += int64(i) * int64(i)
	}
	if event.Sum != want || event.Count != count {
		a.cluster.tb.Fatalf("%s: %d tasks gave %d, not %d tasks and %d", a.Name, event.Count, event.Sum, count, want)
	}
}

// Run is Begin and End.
func (a *App) Run(count int, seconds float64) {
	a.cluster.tb.Helper()
	a.Begin(count, seconds)
	a.End(count)
}

// Finish stops the application in order and waits for a clean exit.
func (a *App) Finish() {
	a.cluster.tb.Helper()
	if err := a.send(map[string]any{"cmd": "finish"}); err != nil {
		a.cluster.tb.Fatalf("%s: %v", a.Name, err)
	}
	if _, err := a.await("finished", startTimeout); err != nil {
		a.cluster.tb.Fatalf("%v", err)
	}
	code, err := a.Wait(startTimeout)
	if err != nil || code != 0 {
		a.cluster.tb.Fatalf("%s ended with exit code %d (%v)", a.Name, code, err)
	}
}

// TaskRuns counts, by task id, how often tasks have begun and ended, from the
// ledger that the tasks themselves write, and names the executors that ran each.
func (a *App) TaskRuns() (begun, ended map[int]int, executors map[int][]string) {
	a.cluster.tb.Helper()
	begun, ended, executors = map[int]int{}, map[int]int{}, map[int][]string{}
	file, err := os.Open(a.ledger)
	if isMissing(err) {
		return begun, ended, executors
	}
	if err != nil {
		a.cluster.tb.Fatalf("ledger: %v", err)
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		var entry struct {
			Task           int
			What, Executor string
		}
		if err := json.Unmarshal(scanner.Bytes(), &entry); err != nil {
			a.cluster.tb.Fatalf("ledger of %s: %v", a.Name, err)
		}
		if entry.What == "begin" {
			begun[entry.Task]++
			executors[entry.Task] = append(executors[entry.Task], entry.Executor)
		} else {
			ended[entry.Task]++
		}
	}
	if err := scanner.Err(); err != nil {
		a.cluster.tb.Fatalf("ledger of %s: %v", a.Name, err)
	}
	return begun, ended, executors
}
