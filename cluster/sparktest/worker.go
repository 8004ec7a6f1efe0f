package sparktest

import (
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// WorkerOptions describe a Spark worker.
type WorkerOptions struct {
	Spark  Spark // default: the cluster's
	Cores  int   // default 2
	Memory string
	Host   string            // advertised; default: an address of its own
	Port   int               // default 7078
	IP     string            // SPARK_LOCAL_IP; default: Host
	Master string            // default: the URL of all masters
	Conf   map[string]string // spark.* settings of the worker
}

// Worker is Spark's own worker process.
type Worker struct {
	Host string
	Port int
	*Process

	cluster *Cluster
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
	w := &Worker{Host: opts.Host, Port: opts.Port, cluster: c, opts: opts}
	name := fmt.Sprintf("worker%d", len(c.workers)+1)
	env := map[string]string{
		"SPARK_HOME":        opts.Spark.Home,
		"SPARK_WORKER_OPTS": javaOptions(opts.Conf),
		"PYSPARK_PYTHON":    opts.Spark.Python,
	}
	var err error
	w.Process, err = c.start(name, opts.IP, env, append(politely, filepath.Join(opts.Spark.Home, "bin", "spark-class"),
		"org.apache.spark.deploy.worker.Worker", "--host", opts.Host, "--port", strconv.Itoa(opts.Port),
		"--webui-port", strconv.Itoa(workerWebUI), "--cores", strconv.Itoa(opts.Cores), "--memory", opts.Memory,
		"--work-dir", filepath.Join(c.dir, "work", name), opts.Master))
	if err != nil {
		c.tb.Fatalf("start %s: %v", name, err)
	}
	c.workers = append(c.workers, w)
	return w
}

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
