package sparktest

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
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
	JVM           bool              // a Java program from a jar instead of Python
	Conf          map[string]string // further spark.* settings
}

// App is an application under remote control, started with Spark's own
// spark-submit in client mode: in Python, or in Java where JVM was asked for.
type App struct {
	*Process
	*Session // nil before WaitScript

	cluster *Cluster
	control *Control
}

// StartApp starts an application and does not wait for its registration.
func (c *Cluster) StartApp(opts AppOptions) *App {
	c.tb.Helper()
	n := len(c.apps) + 1
	if opts.Name == "" {
		opts.Name = fmt.Sprintf("app%d", n)
	}
	if opts.Spark.Home == "" {
		opts.Spark = c.opts.Spark
	}
	a := &App{cluster: c, control: c.NewControl(opts.Name)}
	var before, what []string
	if opts.JVM {
		jar, err := ControlJar(opts.Spark)
		if err != nil {
			c.tb.Fatalf("%v", err)
		}
		before, what = []string{"--class", controlClass}, []string{jar}
	} else {
		script := filepath.Join(c.dir, "app.py")
		if err := os.WriteFile(script, appScript, 0o644); err != nil {
			c.tb.Fatalf("application script: %v", err)
		}
		what = []string{script}
	}
	var err error
	a.Process, err = c.submit(opts, c.host(firstApp+n-1), before, append(what, a.control.Address(), a.control.Ledger())...)
	if err != nil {
		c.tb.Fatalf("start %s: %v", opts.Name, err)
	}
	c.apps = append(c.apps, a)
	return a
}

// submit runs spark-submit in client mode; before are flags for spark-submit,
// what is the application and its arguments.
func (c *Cluster) submit(opts AppOptions, host string, before []string, what ...string) (*Process, error) {
	if opts.Master == "" {
		opts.Master = c.URL()
	}
	conf := c.appConf(opts)
	conf["spark.driver.host"] = host
	args := []string{filepath.Join(opts.Spark.Home, "bin", "spark-submit"), "--master", opts.Master}
	for _, k := range sortedKeys(conf) {
		args = append(args, "--conf", k+"="+conf[k])
	}
	args = append(append(args, before...), what...)
	env := map[string]string{"SPARK_HOME": opts.Spark.Home, "PYSPARK_PYTHON": opts.Spark.Python}
	return c.start(opts.Name, host, env, append(politely, args...))
}

// appConf is the configuration of an application, in client or cluster mode.
func (c *Cluster) appConf(opts AppOptions) map[string]string {
	conf := map[string]string{
		"spark.app.name":                 opts.Name,
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
	return conf
}

// WaitScript waits until the program runs, and makes it create its SparkContext
// and so register: WaitRegistered waits for that.
func (a *App) WaitScript() {
	a.cluster.tb.Helper()
	a.Session = a.control.Next(startTimeout)
	a.order(map[string]any{"cmd": "start"})
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

// Finish stops the application in order and waits for a clean exit.
func (a *App) Finish() {
	a.cluster.tb.Helper()
	a.FinishProgram()
	code, err := a.Wait(startTimeout)
	if err != nil || code != 0 {
		a.cluster.tb.Fatalf("%s ended with exit code %d (%v)", a.Name, code, err)
	}
}
