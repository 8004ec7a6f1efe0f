package sparktest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// MasterKind says whose master a cluster runs.
type MasterKind string

const (
	// KindRaft is raftmaster server, as many as Options.Masters says.
	KindRaft MasterKind = "raftmaster"
	// KindSpark is Spark's own master with file system recovery. It exists to
	// check the tests themselves against the original.
	KindSpark MasterKind = "spark"
)

// startTimeout bounds everything that waits for a process to come up. It is
// generous because two noisy cores may start several JVMs at once.
const startTimeout = 2 * time.Minute

// Master is one master of a cluster; it can be started again after it ended.
type Master struct {
	Host string

	cluster *Cluster
	index   int
	proc    *Process // nil before the first start
}

// Address is host:port of the cluster port.
func (m *Master) Address() string { return net.JoinHostPort(m.Host, strconv.Itoa(masterPort)) }

// WebURL is the base of its HTTP side, without a slash at the end.
func (m *Master) WebURL() string {
	return "http://" + net.JoinHostPort(m.Host, strconv.Itoa(masterWebUI))
}

// Name is master1, master2...
func (m *Master) Name() string { return fmt.Sprintf("master%d", m.index+1) }

// Process is the running or last process; nil before the first start.
func (m *Master) Process() *Process { return m.proc }

// Running reports whether its process lives.
func (m *Master) Running() bool { return m.proc != nil && m.proc.Running() }

// DataDir is where its replicated log and state are kept across restarts.
func (m *Master) DataDir() string { return filepath.Join(m.cluster.dir, "data", m.Name()) }

// Start starts the master and does not wait for it to be ready.
func (m *Master) Start() {
	c := m.cluster
	c.tb.Helper()
	if m.Running() {
		c.tb.Fatalf("%s already runs", m.Name())
	}
	var err error
	switch c.opts.Kind {
	case KindRaft:
		err = m.startRaft()
	case KindSpark:
		err = m.startSpark()
	default:
		err = fmt.Errorf("unknown kind of master %q", c.opts.Kind)
	}
	if err != nil {
		c.tb.Fatalf("start %s: %v", m.Name(), err)
	}
}

func (m *Master) startRaft() error {
	c := m.cluster
	bin, err := Binaries()
	if err != nil {
		return err
	}
	props := filepath.Join(c.dir, "conf", m.Name()+".conf")
	if err := os.WriteFile(props, []byte(properties(c.opts.Conf)), 0o644); err != nil {
		return err
	}
	args := append([]string{bin.Raftmaster, "server", "--cluster", c.URL(), "--host", m.Host,
		"--port", strconv.Itoa(masterPort), "--webui-port", strconv.Itoa(masterWebUI), "--rest-port", strconv.Itoa(masterREST),
		"--data-dir", m.DataDir(), "--properties-file", props}, c.opts.MasterArgs...)
	if c.opts.MasterPrefix != nil {
		args = append(c.opts.MasterPrefix(m.index), args...)
	}
	m.proc, err = c.start(m.Name(), m.Host, map[string]string{"GORACE": "halt_on_error=1"}, args)
	return err
}

func (m *Master) startSpark() error {
	c := m.cluster
	opts := map[string]string{
		"spark.deploy.recoveryMode":      "FILESYSTEM",
		"spark.deploy.recoveryDirectory": m.DataDir(),
	}
	for k, v := range c.opts.Conf {
		opts[k] = v
	}
	env := map[string]string{"SPARK_HOME": c.opts.Spark.Home, "SPARK_MASTER_OPTS": javaOptions(opts)}
	var err error
	m.proc, err = c.start(m.Name(), m.Host, env, []string{filepath.Join(c.opts.Spark.Home, "bin", "spark-class"),
		"org.apache.spark.deploy.master.Master", "--host", m.Host,
		"--port", strconv.Itoa(masterPort), "--webui-port", strconv.Itoa(masterWebUI)})
	return err
}

// Kill ends the master with SIGKILL and waits until it is gone.
func (m *Master) Kill() {
	m.cluster.tb.Helper()
	m.signal(syscall.SIGKILL)
	if _, err := m.proc.Wait(startTimeout); err != nil {
		m.cluster.tb.Fatalf("%v", err)
	}
}

// Stop ends the master with SIGTERM and returns its exit code.
func (m *Master) Stop() int {
	m.cluster.tb.Helper()
	m.signal(syscall.SIGTERM)
	code, err := m.proc.Wait(startTimeout)
	if err != nil {
		m.cluster.tb.Fatalf("after SIGTERM: %v", err)
	}
	return code
}

// Pause stops the process where it is (SIGSTOP).
func (m *Master) Pause() { m.cluster.tb.Helper(); m.signal(syscall.SIGSTOP) }

// Resume lets a paused master go on (SIGCONT).
func (m *Master) Resume() { m.cluster.tb.Helper(); m.signal(syscall.SIGCONT) }

func (m *Master) signal(sig syscall.Signal) {
	m.cluster.tb.Helper()
	if m.proc == nil {
		m.cluster.tb.Fatalf("%s was never started", m.Name())
	}
	if err := m.proc.Signal(sig); err != nil {
		m.cluster.tb.Fatalf("signal %v: %v", sig, err)
	}
}

// leads reports whether this master says that it leads. It may be called from
// any goroutine.
func (m *Master) leads() error {
	if m.cluster.opts.Kind == KindRaft {
		return m.GetOK("/leader")
	}
	state, err := m.JSON()
	if err != nil {
		return err
	}
	if state.Status != "ALIVE" {
		return fmt.Errorf("%s is %s", m.Name(), state.Status)
	}
	return nil
}

// StartMasters starts every master and waits for the leader.
func (c *Cluster) StartMasters() *Master {
	c.tb.Helper()
	for _, m := range c.masters {
		m.Start()
	}
	return c.WaitLeader()
}

// Leaders lists the masters that say at this moment that they lead. A paused
// master counts as not answering.
func (c *Cluster) Leaders() []*Master {
	var leaders []*Master
	for _, m := range c.masters {
		if m.Running() && m.leads() == nil {
			leaders = append(leaders, m)
		}
	}
	return leaders
}

// WaitLeader waits until exactly one master other than the given ones leads.
func (c *Cluster) WaitLeader(except ...*Master) *Master {
	c.tb.Helper()
	var leader *Master
	Eventually(c.tb, startTimeout, "a leader among the masters", func() error {
		var err error
		leader, err = c.findLeader(except)
		return err
	})
	return leader
}

func (c *Cluster) findLeader(except []*Master) (*Master, error) {
	var found []*Master
	var reasons []error
	for _, m := range c.masters {
		if !m.Running() || contains(except, m) {
			continue
		}
		if err := m.leads(); err != nil {
			reasons = append(reasons, err)
			continue
		}
		found = append(found, m)
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no leader: %w", errors.Join(reasons...))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d masters say at once that they lead", len(found))
}

// Standbys returns the running masters other than the leader.
func (c *Cluster) Standbys(leader *Master) []*Master {
	var others []*Master
	for _, m := range c.masters {
		if m != leader && m.Running() {
			others = append(others, m)
		}
	}
	return others
}

func contains(list []*Master, m *Master) bool {
	for _, x := range list {
		if x == m {
			return true
		}
	}
	return false
}

func properties(conf map[string]string) string {
	var b strings.Builder
	for _, k := range sortedKeys(conf) {
		fmt.Fprintf(&b, "%s %s\n", k, conf[k])
	}
	return b.String()
}

func javaOptions(conf map[string]string) string {
	var opts []string
	for _, k := range sortedKeys(conf) {
		opts = append(opts, "-D"+k+"="+conf[k])
	}
	return strings.Join(opts, " ")
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
