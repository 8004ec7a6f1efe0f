package sparktest

import (
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// WorkerKind says whose worker runs executors and drivers. Either needs an installed Spark.
type WorkerKind string

const (
	// WorkerSpark is Spark's own worker.
	WorkerSpark WorkerKind = "spark"
	// WorkerRaft is raftmaster worker.
	WorkerRaft WorkerKind = "raftmaster"
)

// WorkerOptions describe a worker.
type WorkerOptions struct {
	Kind   WorkerKind // default: the cluster's
	Spark  Spark      // default: the cluster's
	Cores  int        // default 2
	Memory string
	Host   string            // advertised; default: an address of its own
	Port   int               // default 7078
	IP     string            // SPARK_LOCAL_IP; default: Host
	Master string            // default: the URL of all masters
	Conf   map[string]string // spark.* settings of the worker
	Env    map[string]string // further variables of its environment
}

// Worker is a worker process, Spark's own or raftmaster's. It can be started again after it ended.
type Worker struct {
	Host string
	Port int
	*Process

	cluster *Cluster
	name    string
	opts    WorkerOptions
}

// registeredPattern is what a worker prints on each RegisteredWorker (Spark's
// Worker.scala).
const registeredPattern = `Successfully registered with master spark://[^\s"]+`

// StartWorker starts a worker and does not wait for its registration.
func (c *Cluster) StartWorker(opts WorkerOptions) *Worker {
	c.tb.Helper()
	if opts.Spark.Home == "" {
		opts.Spark = c.opts.Spark
	}
	if opts.Cores == 0 {
		opts.Cores = 2
	}
	if opts.Memory == "" {
		opts.Memory = "2g"
	}
	if opts.Host == "" {
		opts.Host = c.host(firstWorker + len(c.workers))
	}
	if opts.Port == 0 {
		opts.Port = workerPort
	}
	if opts.IP == "" {
		opts.IP = opts.Host
	}
	if opts.Master == "" {
		opts.Master = c.URL()
	}
	if opts.Kind == "" {
		opts.Kind = c.opts.Workers
	}
	w := &Worker{Host: opts.Host, Port: opts.Port, cluster: c, name: fmt.Sprintf("worker%d", len(c.workers)+1), opts: opts}
	w.StartAgain()
	c.workers = append(c.workers, w)
	return w
}

// StartAgain starts the process with the options, the address and the work directory that it had before.
func (w *Worker) StartAgain() {
	c := w.cluster
	c.tb.Helper()
	if w.Process != nil && w.Running() {
		c.tb.Fatalf("%s already runs", w.name)
	}
	command, err := w.command()
	if err != nil {
		c.tb.Fatalf("start %s: %v", w.name, err)
	}
	env := map[string]string{
		"SPARK_HOME":        w.opts.Spark.Home,
		"SPARK_WORKER_OPTS": javaOptions(w.opts.Conf),
		"PYSPARK_PYTHON":    w.opts.Spark.Python,
	}
	for k, v := range w.opts.Env {
		env[k] = v
	}
	command = append(command, "--host", w.Host, "--port", strconv.Itoa(w.Port), "--webui-port", strconv.Itoa(workerWebUI),
		"--cores", strconv.Itoa(w.opts.Cores), "--memory", w.opts.Memory, "--work-dir", w.WorkDir(), w.opts.Master)
	if w.Process, err = c.start(w.name, w.opts.IP, env, append(politely, command...)); err != nil {
		c.tb.Fatalf("start %s: %v", w.name, err)
	}
}

// command is the program of the worker's kind; the flags of both are the same.
func (w *Worker) command() ([]string, error) {
	switch w.opts.Kind {
	case WorkerSpark, "":
		return []string{filepath.Join(w.opts.Spark.Home, "bin", "spark-class"), "org.apache.spark.deploy.worker.Worker"}, nil
	case WorkerRaft:
		bin, err := Binaries()
		return []string{bin.Raftmaster, "worker"}, err
	}
	return nil, fmt.Errorf("unknown kind of worker %q", w.opts.Kind)
}

// WorkDir is where it keeps executors and drivers, across restarts.
func (w *Worker) WorkDir() string { return filepath.Join(w.cluster.dir, "work", w.name) }

// WebURL is the base of its HTTP side, without a slash at the end.
func (w *Worker) WebURL() string { return fmt.Sprintf("http://%s:%d", w.Host, workerWebUI) }

// StartWorkers starts n workers with the same options and waits until all are
// ALIVE at the leader.
func (c *Cluster) StartWorkers(n int, opts WorkerOptions) []*Worker {
	c.tb.Helper()
	var workers []*Worker
	for range n {
		workers = append(workers, c.StartWorker(opts))
	}
	for _, w := range workers {
		w.WaitAlive()
	}
	return workers
}

// WaitAlive waits until the leader lists the worker as ALIVE and returns the
// entry.
func (w *Worker) WaitAlive() WorkerState {
	w.cluster.tb.Helper()
	return w.WaitState("ALIVE")
}

// WaitState waits until the leader lists the worker in the state.
func (w *Worker) WaitState(state string) WorkerState {
	w.cluster.tb.Helper()
	var entry WorkerState
	Eventually(w.cluster.tb, startTimeout, w.Name+" "+state+" at the leader", func() error {
		if !w.Running() && state == "ALIVE" {
			w.cluster.tb.Fatalf("%s has ended", w.Name)
		}
		s, err := w.cluster.State()
		if err != nil {
			return err
		}
		entry, err = s.Worker(w.Host, state)
		return err
	})
	return entry
}

// Registrations counts the RegisteredWorker answers that the worker has logged.
func (w *Worker) Registrations() int { return len(w.LogMatches(registeredPattern)) }

// Kill ends the worker process with SIGKILL. Its executors find out themselves.
func (w *Worker) Kill() {
	w.cluster.tb.Helper()
	w.send(syscall.SIGKILL)
	if _, err := w.Wait(startTimeout); err != nil {
		w.cluster.tb.Fatalf("%v", err)
	}
}

// Pause stops the worker process where it is; its executors run on.
func (w *Worker) Pause() { w.cluster.tb.Helper(); w.send(syscall.SIGSTOP) }

// Resume lets a paused worker go on.
func (w *Worker) Resume() { w.cluster.tb.Helper(); w.send(syscall.SIGCONT) }

func (w *Worker) send(sig syscall.Signal) {
	w.cluster.tb.Helper()
	if err := w.Signal(sig); err != nil {
		w.cluster.tb.Fatalf("signal %v: %v", sig, err)
	}
}

// Executors returns how many executors the worker has been asked to launch so
// far.
func (w *Worker) Executors() int { return len(w.LogMatches(`Asked to launch executor \S+`)) }

// State reads /json/ of the leader.
func (c *Cluster) State() (State, error) {
	leader, err := c.findLeader(nil)
	if err != nil {
		return State{}, err
	}
	return leader.JSON()
}

// WaitState polls /json/ of the leader until check accepts it.
func (c *Cluster) WaitState(timeout time.Duration, what string, check func(State) error) {
	c.tb.Helper()
	Eventually(c.tb, timeout, what, func() error {
		s, err := c.State()
		if err != nil {
			return err
		}
		return check(s)
	})
}
