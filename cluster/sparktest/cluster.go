package sparktest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"
	"syscall"
)

// Ports of a cluster: every process has its own loopback address, so that the
// usual numbers do. All lie below the ephemeral range of Linux (32768).
const (
	masterPort   = 7077
	masterWebUI  = 8080
	masterREST   = 6066
	workerPort   = 7078
	workerWebUI  = 8081
	maxMasters   = 9
	firstWorker  = 10  // last byte of the address of the first worker
	firstApp     = 120 // and of the first application's driver
	firstClient  = 180 // and of the programs that submit drivers and ask about them
	harnessHost  = 250 // and of the harness itself
	logTailLines = 40
)

// Options describe a cluster.
type Options struct {
	Kind    MasterKind
	Masters int // 0: three, or one of Spark's own
	// Spark is the release of Spark's own master (KindSpark), and of workers and
	// applications that name no other.
	Spark Spark
	// Workers is the kind of workers that name no other; "" is Spark's own.
	Workers WorkerKind
	// Conf holds spark.* settings of the masters.
	Conf map[string]string
	// MasterArgs are further flags of raftmaster server.
	MasterArgs []string
	// Subnet replaces the loopback /24, for example "10.99.1."; the caller has set
	// up its addresses and owns it.
	Subnet string
	// MasterPrefix is put before the command of the master with that index, for
	// example "ip netns exec NAME"; it must become the master by exec.
	MasterPrefix func(index int) []string
}

// Cluster is a set of masters, workers and applications on one loopback /24.
type Cluster struct {
	tb       TB
	opts     Options
	dir      string
	subnet   string // "127.a.b."
	mark     string // value of markEnv in all its processes
	masters  []*Master
	workers  []*Worker
	apps     []*App
	drivers  int // submitted so far
	controls []*Control
	procs    []*Process
	release  func() // gives the subnet back
	closed   bool
}

var clusterCount atomic.Int64

// NewCluster prepares a cluster; it starts nothing yet. Close runs as a cleanup
// of tb.
func NewCluster(tb TB, opts Options) *Cluster {
	tb.Helper()
	if opts.Masters == 0 {
		opts.Masters = 3
		if opts.Kind == KindSpark {
			opts.Masters = 1 // without ZooKeeper there is no second one
		}
	}
	if opts.Masters > maxMasters || opts.Kind == KindSpark && opts.Masters != 1 {
		tb.Fatalf("a cluster of %d masters of kind %s is not supported", opts.Masters, opts.Kind)
	}
	c := &Cluster{tb: tb, opts: opts}
	var err error
	if opts.Subnet != "" {
		c.subnet, c.release = opts.Subnet, func() {}
	} else if c.subnet, c.release, err = takeSubnet(); err != nil {
		tb.Fatalf("loopback subnet: %v", err)
	}
	tb.Cleanup(c.Close)
	// Spark takes a comma in the path of a jar for the end of it.
	name := strings.NewReplacer("/", "-", " ", "-", ",", "-").Replace(tb.Name())
	if c.dir, err = os.MkdirTemp("", "sparktest-"+name+"-"); err != nil {
		tb.Fatalf("directory of the cluster: %v", err)
	}
	for _, sub := range []string{"conf", "log", "work", "events", "tmp", "data"} {
		if err := os.Mkdir(filepath.Join(c.dir, sub), 0o755); err != nil {
			tb.Fatalf("directory of the cluster: %v", err)
		}
	}
	c.mark = fmt.Sprintf("%d-%d-%s", os.Getpid(), clusterCount.Add(1), filepath.Base(c.dir))
	for i := range opts.Masters {
		c.masters = append(c.masters, &Master{cluster: c, index: i, Host: c.host(i + 1)})
	}
	return c
}

// takeSubnet locks a /24 that nobody else's cluster uses and whose master ports
// are free.
func takeSubnet() (subnet string, release func(), err error) {
	cache, err := CacheDir()
	if err != nil {
		return "", nil, err
	}
	dir := filepath.Join(cache, "subnets")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	start := os.Getpid() * 7
	for i := range 20_000 {
		n := (start + i) % 20_000
		a, b := 30+n/200, 10+n%200
		unlock, err := tryLockFile(filepath.Join(dir, fmt.Sprintf("127.%d.%d.lock", a, b)))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		subnet := fmt.Sprintf("127.%d.%d.", a, b)
		ln, err := net.Listen("tcp", subnet+"1:"+fmt.Sprint(masterPort))
		if err != nil { // somebody listens on every address
			unlock()
			continue
		}
		if err := ln.Close(); err != nil {
			unlock()
			return "", nil, err
		}
		return subnet, unlock, nil
	}
	return "", nil, fmt.Errorf("no 127.a.b.0/24 with a free port %d", masterPort)
}

func (c *Cluster) host(last int) string { return fmt.Sprintf("%s%d", c.subnet, last) }

// ClientHost is an address for a client of the harness's own; numbers from 0 to 49 give different ones.
func (c *Cluster) ClientHost(number int) string { return c.host(firstClient + number) }

// Dir is the directory that holds everything of the cluster.
func (c *Cluster) Dir() string { return c.dir }

// Masters returns the masters in the order of the cluster's list.
func (c *Cluster) Masters() []*Master { return c.masters }

// Workers returns every worker started so far.
func (c *Cluster) Workers() []*Worker { return c.workers }

// URL is spark://a:p,b:p,c:p of all masters.
func (c *Cluster) URL() string { return URLOf(c.masters...) }

// URLOf is the master URL that lists the given masters in this order.
func URLOf(masters ...*Master) string {
	list := make([]string, len(masters))
	for i, m := range masters {
		list[i] = m.Address()
	}
	return "spark://" + strings.Join(list, ",")
}

// environment is what every process of the cluster starts with. The caller's own
// SPARK_*, HADOOP_* and JAVA options do not leak into it.
func (c *Cluster) environment(host string, extra map[string]string) ([]string, error) {
	java, err := JavaHome()
	if err != nil {
		return nil, err
	}
	env := map[string]string{
		markEnv:                   c.mark,
		"PATH":                    os.Getenv("PATH"),
		"HOME":                    os.Getenv("HOME"),
		"LANG":                    "C.UTF-8",
		"TMPDIR":                  filepath.Join(c.dir, "tmp"),
		"JAVA_HOME":               java,
		"SPARK_CONF_DIR":          filepath.Join(c.dir, "conf"),
		"SPARK_LOCAL_DIRS":        filepath.Join(c.dir, "tmp"),
		"SPARK_LOCAL_IP":          host,
		"SPARK_LOCAL_HOSTNAME":    host,
		"SPARK_DAEMON_MEMORY":     "256m",
		"PYTHONDONTWRITEBYTECODE": "1",
	}
	if QuickJVMs {
		env["JAVA_TOOL_OPTIONS"] = quickJVMs
	}
	for k, v := range extra {
		env[k] = v
	}
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	sort.Strings(list)
	return list, nil
}

// politely goes before the commands of workers and applications, whose JVMs share
// a few cores with the masters here and, starting, would keep them from running
// for longer than their time-outs. Masters have machines of their own elsewhere.
var politely = []string{"nice", "-n", "5"}[:3:3]

// start runs a process of the cluster; name is made unique for its log.
func (c *Cluster) start(name, host string, env map[string]string, args []string) (*Process, error) {
	environ, err := c.environment(host, env)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(c.dir, "log", name+".log")
	for n := 2; ; n++ {
		if _, err := os.Stat(log); isMissing(err) {
			break
		}
		log = filepath.Join(c.dir, "log", fmt.Sprintf("%s.%d.log", name, n))
	}
	p, err := startProcess(processSpec{name: name, log: log, dir: c.dir, env: environ, args: args})
	if err != nil {
		return nil, err
	}
	c.procs = append(c.procs, p)
	return p, nil
}

// Close ends every process of the cluster. When the test has failed it keeps the
// directory and prints the tails of the logs, else it removes the directory.
func (c *Cluster) Close() {
	if c.closed {
		return
	}
	c.closed = true
	for _, ctl := range c.controls {
		ctl.close()
	}
	for _, p := range c.procs {
		p.kill()
	}
	reapMarked(c.mark)
	c.release()
	if c.dir == "" {
		return
	}
	if c.tb.Failed() {
		c.printTails()
		return
	}
	if err := os.RemoveAll(c.dir); err != nil {
		c.tb.Logf("directory of the cluster is left behind: %v", err)
	}
}

func (c *Cluster) printTails() {
	logs, err := filepath.Glob(filepath.Join(c.dir, "log", "*.log"))
	if err != nil {
		c.tb.Logf("logs: %v", err)
	}
	for _, pattern := range [][]string{{"work", "*", "*", "*", "stderr"}, {"work", "*", "driver-*", "stderr"}} {
		more, err := filepath.Glob(filepath.Join(append([]string{c.dir}, pattern...)...))
		if err != nil {
			c.tb.Logf("logs of executors and drivers: %v", err)
		}
		logs = append(logs, more...)
	}
	for _, path := range logs {
		data, err := os.ReadFile(path)
		if err != nil {
			c.tb.Logf("%s: %v", path, err)
			continue
		}
		c.tb.Logf("----- %s, last lines:\n%s", path, lastLines(string(data), logTailLines))
	}
	c.tb.Logf("everything of this cluster is kept in %s", c.dir)
}
