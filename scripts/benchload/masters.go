package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"raftmaster/cluster/load"
	"raftmaster/cluster/sparktest"
	"raftmaster/transport/frame"
)

// The ports, all below Linux's ephemeral range.
const (
	masterPort = 20771
	restPort   = 20760
	webPort    = 20780 // and the next three
	zooPort    = 21810

	startTimeout = 2 * time.Minute
)

// cluster is a set of running masters.
type cluster struct {
	masters []frame.Address
	nodes   []*node
	leader  *proc
}

// node is one raftmaster server; it can be started again.
type node struct {
	host string
	web  string
	args []string
	proc *proc
}

func free(host string, port int) bool {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

// startOurs starts three raftmaster servers.
func startOurs(ctx context.Context, b *bed) (*cluster, error) {
	bin, err := sparktest.Binaries()
	if err != nil {
		return nil, err
	}
	c := &cluster{}
	var list []string
	for i := 1; i <= 3; i++ {
		a := frame.Address{Host: b.net + strconv.Itoa(i), Port: masterPort}
		c.masters = append(c.masters, a)
		list = append(list, a.String())
	}
	conf := filepath.Join(b.dir, "raftmaster.conf")
	if err := os.WriteFile(conf, nil, 0o644); err != nil {
		return nil, err
	}
	for i, a := range c.masters {
		n := &node{host: a.Host, web: "http://" + net.JoinHostPort(a.Host, strconv.Itoa(webPort+i))}
		n.args = []string{bin.Raftmaster, "server", "--cluster", "spark://" + strings.Join(list, ","), "--host", a.Host,
			"--port", strconv.Itoa(masterPort), "--webui-port", strconv.Itoa(webPort + i), "--rest-port", strconv.Itoa(restPort),
			"--data-dir", filepath.Join(b.dir, fmt.Sprintf("master%d", i+1)), "--properties-file", conf}
		if n.proc, err = b.start(fmt.Sprintf("master%d", i+1), nil, n.args...); err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	return c, c.await(ctx)
}

// await waits for the leader.
func (c *cluster) await(ctx context.Context) error {
	leader, err := load.FindLeader(ctx, load.Config{Masters: c.masters, Timeout: startTimeout, Net: scoutNet, Phases: []load.Phase{load.PhaseWorkers}})
	if err != nil {
		return err
	}
	for _, n := range c.nodes {
		if strings.HasPrefix(leader, n.host+":") {
			c.leader = n.proc
		}
	}
	return nil
}

// others are the processes of the masters that follow.
func (c *cluster) others() []int {
	var pids []int
	for _, n := range c.nodes {
		if n.proc != c.leader {
			pids = append(pids, n.proc.pid())
		}
	}
	return pids
}

// scoutNet is the second octet of the address that looks for leaders.
const scoutNet = 94

// startSpark starts a ZooKeeper server and Spark's master, both from Spark's own
// jars and at their defaults.
func startSpark(ctx context.Context, b *bed, spark sparktest.Spark) (*cluster, error) {
	java, err := sparktest.JavaHome()
	if err != nil {
		return nil, err
	}
	host, zoo := b.net+"1", b.net+"9"
	files := map[string]string{
		"zoo.cfg": fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=%s\nadmin.enableServer=false\n",
			filepath.Join(b.dir, "zookeeper"), zooPort, zoo),
		"conf/spark-defaults.conf": fmt.Sprintf("spark.deploy.recoveryMode ZOOKEEPER\nspark.deploy.zookeeper.url %s:%d\nspark.master.rest.enabled false\n", zoo, zooPort),
	}
	for _, dir := range []string{"zookeeper", "conf"} {
		if err := os.Mkdir(filepath.Join(b.dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	env := map[string]string{"JAVA_HOME": java, "SPARK_HOME": spark.Home, "SPARK_CONF_DIR": filepath.Join(b.dir, "conf"),
		"SPARK_LOCAL_IP": host, "SPARK_LOCAL_HOSTNAME": host}
	if _, err := b.start("zookeeper", env, filepath.Join(java, "bin", "java"), "-Xmx512m", "-cp", filepath.Join(spark.Home, "jars", "*"),
		"org.apache.zookeeper.server.ZooKeeperServerMain", filepath.Join(b.dir, "zoo.cfg")); err != nil {
		return nil, err
	}
	if err := awaitPort(ctx, zoo, zooPort); err != nil {
		return nil, fmt.Errorf("ZooKeeper: %w", err)
	}
	c := &cluster{masters: []frame.Address{{Host: host, Port: masterPort}}}
	if c.leader, err = b.start("spark-master", env, filepath.Join(spark.Home, "bin", "spark-class"), "org.apache.spark.deploy.master.Master",
		"--host", host, "--port", strconv.Itoa(masterPort), "--webui-port", strconv.Itoa(webPort)); err != nil {
		return nil, err
	}
	return c, c.await(ctx)
}

func awaitPort(ctx context.Context, host string, port int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

var web = &http.Client{Timeout: 10 * time.Second}

func get(url string) (string, error) {
	response, err := web.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(body), err
}
