package sparktest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Gateway is a way to submit a driver.
type Gateway string

const (
	// GatewayREST is spark-submit --deploy-mode cluster with spark.master.rest.enabled.
	GatewayREST Gateway = "rest"
	// GatewayRPC is spark-submit --deploy-mode cluster without it.
	GatewayRPC Gateway = "rpc"
	// GatewayFallback is spark-submit with spark.master.rest.enabled, given the
	// cluster ports: it finds that no REST gateway is there, and takes the other.
	GatewayFallback Gateway = "fallback"
	// GatewayClient is spark-class org.apache.spark.deploy.Client launch.
	GatewayClient Gateway = "client"
	// GatewayPost is a request of the harness's own to the leader's REST gateway:
	// the quick one, for tests about something else.
	GatewayPost Gateway = "post"
)

// restConf turns the REST gateway of the masters on.
func restConf(more ...string) map[string]string {
	conf := map[string]string{"spark.master.rest.enabled": "true"}
	for i := 0; i+1 < len(more); i += 2 {
		conf[more[i]] = more[i+1]
	}
	return conf
}

// DriverOptions describe a cluster-mode driver: testdata/ControlApp.java.
type DriverOptions struct {
	AppOptions             // of its application; Master is the list that the submitting client is given
	Gateway        Gateway // default GatewayPost
	DriverCores    int     // default 1
	Memory         string  // default 512m: enough for a SparkContext
	Supervise      bool
	Jar            string // default: ControlJar
	SubmissionHost string // address of the submitting client; default: one of its own
}

// Driver is a submitted driver.
type Driver struct {
	*Control
	ID string // as the submitting client was told

	Client *Process // the submitting client; nil for GatewayPost
	Exit   int      // its exit code
}

// moduleOptions let a SparkContext start on Java 17 where no launcher adds them:
// through the RPC gateway, and through the REST gateway of Spark 3.5.
const moduleOptions = "--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.lang.invoke=ALL-UNNAMED " +
	"--add-opens=java.base/java.net=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED " +
	"--add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.util.concurrent=ALL-UNNAMED " +
	"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/sun.security.action=ALL-UNNAMED"

var submittedPattern = regexp.MustCompile(`(?:successfully submitted as|Submission successfully created as|"submissionId" : ")\s*"?(driver-[0-9]{14}-[0-9]{4,})`)

// SubmitDriver submits a driver and waits for the submitting client to end. It
// fails the test unless the driver has an id; the client's exit code is for the
// test to judge.
func (c *Cluster) SubmitDriver(opts DriverOptions) *Driver {
	c.tb.Helper()
	d, err := c.TrySubmitDriver(opts)
	if err != nil {
		c.tb.Fatalf("%v", err)
	}
	return d
}

// TrySubmitDriver is SubmitDriver for a submission that may fail: the Driver then
// has no id.
func (c *Cluster) TrySubmitDriver(opts DriverOptions) (*Driver, error) {
	c.tb.Helper()
	c.drivers++
	opts = c.driverDefaults(opts)
	jar := opts.Jar
	if jar == "" {
		path, err := ControlJar(opts.Spark)
		if err != nil {
			return nil, err
		}
		jar = "file://" + path
	}
	d := &Driver{Control: c.NewControl(opts.Name)}
	if opts.Gateway == GatewayPost {
		return d, c.postDriver(d, opts, jar)
	}
	args := c.submitArguments(opts, jar, d.Control)
	before, err := c.driverIDs()
	if err != nil {
		return d, err
	}
	d.Client, d.Exit, err = c.Tool("submit-"+opts.Name, opts.Spark, opts.SubmissionHost, args...)
	if err != nil {
		return d, err
	}
	if opts.Gateway == GatewayClient {
		d.ID, err = c.newDriver(before)
	} else if match := submittedPattern.FindStringSubmatch(d.Client.Log()); match != nil {
		d.ID = match[1]
	}
	if err != nil || d.ID == "" {
		return d, fmt.Errorf("%s was not submitted, exit code %d:\n%s", opts.Name, d.Exit, lastLines(d.Client.Log(), 20))
	}
	return d, nil
}

// driverIDs lists the drivers that the leader knows.
func (c *Cluster) driverIDs() (map[string]bool, error) {
	s, err := c.State()
	ids := map[string]bool{}
	for _, d := range append(s.ActiveDrivers, s.CompletedDrivers...) {
		ids[d.ID] = true
	}
	return ids, err
}

// newDriver returns the id of the one driver that was not there before, "" if there
// is none: deploy.Client prints no id at its default level of logging.
func (c *Cluster) newDriver(before map[string]bool) (string, error) {
	now, err := c.driverIDs()
	if err != nil {
		return "", err
	}
	found := ""
	for id := range now {
		if before[id] {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("both %s and %s are new", found, id)
		}
		found = id
	}
	return found, nil
}

func (c *Cluster) driverDefaults(opts DriverOptions) DriverOptions {
	if opts.Spark.Home == "" {
		opts.Spark = c.opts.Spark
	}
	if opts.Name == "" {
		opts.Name = fmt.Sprintf("driver%d", c.drivers)
	}
	if opts.Gateway == "" {
		opts.Gateway = GatewayPost
	}
	if opts.DriverCores == 0 {
		opts.DriverCores = 1
	}
	if opts.Memory == "" {
		opts.Memory = "512m"
	}
	if opts.Master == "" {
		opts.Master = c.URL()
		if opts.Gateway == GatewayREST || opts.Gateway == GatewayPost {
			opts.Master = RESTURLOf(c.masters...)
		}
	}
	if opts.SubmissionHost == "" {
		opts.SubmissionHost = c.host(firstClient + c.drivers%50)
	}
	return opts
}

// driverConf is the configuration that a driver is submitted with.
func (c *Cluster) driverConf(opts DriverOptions) map[string]string {
	conf := c.appConf(opts.AppOptions)
	conf["spark.driver.cores"] = strconv.Itoa(opts.DriverCores)
	conf["spark.driver.memory"] = opts.Memory
	conf["spark.driver.supervise"] = strconv.FormatBool(opts.Supervise)
	conf["spark.driver.extraJavaOptions"] = moduleOptions
	return conf
}

func (c *Cluster) submitArguments(opts DriverOptions, jar string, control *Control) []string {
	program := []string{jar, control.Address(), control.Ledger()}
	if opts.Gateway == GatewayClient {
		args := []string{filepath.Join(opts.Spark.Home, "bin", "spark-class"), "org.apache.spark.deploy.Client",
			"-c", strconv.Itoa(opts.DriverCores), "-m", opts.Memory}
		if opts.Supervise {
			args = append(args, "-s")
		}
		return append(args, "launch", opts.Master, program[0], controlClass, program[1], program[2])
	}
	conf := c.driverConf(opts)
	delete(conf, "spark.driver.supervise") // the flag says it
	conf["spark.master.rest.enabled"] = strconv.FormatBool(opts.Gateway != GatewayRPC)
	args := []string{filepath.Join(opts.Spark.Home, "bin", "spark-submit"), "--master", opts.Master,
		"--deploy-mode", "cluster", "--class", controlClass}
	if opts.Supervise {
		args = append(args, "--supervise")
	}
	for _, k := range sortedKeys(conf) {
		args = append(args, "--conf", k+"="+conf[k])
	}
	return append(args, program...)
}

// createRequest is the body of POST /create for a driver.
func (c *Cluster) createRequest(opts DriverOptions, jar string, control *Control) map[string]any {
	properties := c.driverConf(opts)
	properties["spark.master"] = opts.Master
	properties["spark.submit.deployMode"] = "cluster"
	properties["spark.jars"] = jar
	return map[string]any{
		"action":               "CreateSubmissionRequest",
		"appArgs":              []string{control.Address(), control.Ledger()},
		"appResource":          jar,
		"clientSparkVersion":   opts.Spark.Release,
		"environmentVariables": map[string]string{"SPARK_ENV_LOADED": "1"},
		"mainClass":            controlClass,
		"sparkProperties":      properties,
	}
}

func (c *Cluster) postDriver(d *Driver, opts DriverOptions, jar string) error {
	leader, err := c.findLeader(nil)
	if err != nil {
		return err
	}
	code, s, err := leader.REST(http.MethodPost, "/create", c.createRequest(opts, jar, d.Control))
	if err != nil {
		return err
	}
	if code != http.StatusOK || !s.Success || s.ID == "" {
		return fmt.Errorf("%s was not submitted: %d %+v", opts.Name, code, s)
	}
	d.ID = s.ID
	return nil
}

// NextRun waits for the next run of the driver and checks that it is the one of
// the id: "" stands for the id that it was submitted under.
func (d *Driver) NextRun(id string) *Session {
	d.cluster.tb.Helper()
	if id == "" {
		id = d.ID
	}
	s := d.Next(startTimeout)
	if s.Dir != id {
		d.cluster.tb.Fatalf("%s runs as %s, want %s", d.label, s.Dir, id)
	}
	return s
}

// Tool runs one of Spark's command line programs to its end, and returns its exit
// code.
func (c *Cluster) Tool(name string, spark Spark, host string, args ...string) (*Process, int, error) {
	c.tb.Helper()
	if spark.Home == "" {
		spark = c.opts.Spark
	}
	p, err := c.start(name, host, map[string]string{"SPARK_HOME": spark.Home}, append(politely, args...))
	if err != nil {
		return nil, 0, err
	}
	code, err := p.Wait(startTimeout)
	return p, code, err
}

// SparkSubmitAsk runs spark-submit --status or --kill, which always use REST.
func (c *Cluster) SparkSubmitAsk(spark Spark, master, flag, id string) (*Process, int) {
	c.tb.Helper()
	if spark.Home == "" {
		spark = c.opts.Spark
	}
	p, code, err := c.Tool("ask"+flag, spark, c.host(firstClient), filepath.Join(spark.Home, "bin", "spark-submit"), "--master", master, flag, id)
	if err != nil {
		c.tb.Fatalf("spark-submit %s: %v", flag, err)
	}
	return p, code
}

// ClientKill runs spark-class org.apache.spark.deploy.Client kill.
func (c *Cluster) ClientKill(spark Spark, master, id string) (*Process, int) {
	c.tb.Helper()
	if spark.Home == "" {
		spark = c.opts.Spark
	}
	p, code, err := c.Tool("client-kill", spark, c.host(firstClient), filepath.Join(spark.Home, "bin", "spark-class"),
		"org.apache.spark.deploy.Client", "kill", master, id)
	if err != nil {
		c.tb.Fatalf("deploy.Client kill: %v", err)
	}
	return p, code
}

// WorkerOf returns the worker at host:port.
func (c *Cluster) WorkerOf(hostPort string) *Worker {
	c.tb.Helper()
	for _, w := range c.workers {
		if w.Running() && strings.HasPrefix(hostPort, w.Host+":") {
			return w
		}
	}
	c.tb.Fatalf("no running worker at %q", hostPort)
	return nil
}
