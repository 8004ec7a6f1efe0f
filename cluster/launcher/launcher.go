package launcher

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"raftmaster/transport/sparkmsg"
)

// Worker is what the assembly needs to know of the worker. Fill it once, then only read it.
type Worker struct {
	Home *Home
	// Env is the worker's environment, as Environment gives it: every process inherits it.
	Env []string
	// ID is the worker's id; Host and Port are those of its RPC endpoint.
	ID   string
	Host string
	Port int
	// PublicAddress and WebUIPort make the URLs of executors' logs; WebUIURL (http://host:port) those of drivers' logs.
	PublicAddress string
	WebUIPort     int
	WebUIURL      string
	// ReverseProxy and ReverseProxyURL are spark.ui.reverseProxy and spark.ui.reverseProxyUrl.
	ReverseProxy    bool
	ReverseProxyURL string
	// Redaction tells which -D options are shown without their value in log headers; nil: Spark's default.
	Redaction *regexp.Regexp
	// Properties are the spark.* properties of the worker. spark.ssl.* of them go to processes that ask for node-local TLS
	// settings; spark.authenticate and spark.ssl.rpc.* decide what is handed on by environment variables.
	Properties map[string]string
}

// Command is a process to start.
type Command struct {
	// Argv is the argument vector; Argv[0] is the path of java, absolute unless JAVA_HOME is not.
	Argv []string
	// Env is the complete environment, NAME=value, each name once.
	Env []string
	// Dir is the working directory.
	Dir string
	// LogHeader is written to stderr's file before the process starts: the command without secrets, newlines included.
	LogHeader string
}

// ExecutorSpec is one LaunchExecutor.
type ExecutorSpec struct {
	AppID             string
	ExecutorID        int32
	Cores, MemoryMB   int32
	ResourceProfileID int32
	Command           sparkmsg.Command
	// Dir is the executor's directory, which becomes its working directory.
	Dir string
	// LocalDirs are the application's directories on this worker (SPARK_EXECUTOR_DIRS).
	LocalDirs []string
	// ResourcesFile is the absolute path of WriteResourcesFile, "" for none.
	ResourcesFile string
}

// DriverSpec is one LaunchDriver.
type DriverSpec struct {
	DriverID string
	MemoryMB int32
	Command  sparkmsg.Command
	// UserJar is the absolute path of the driver's jar, or of Dir when it has none.
	UserJar string
	// Dir is the driver's directory, which becomes its working directory.
	Dir string
	// ResourcesFile is the absolute path of WriteResourcesFile, "" for none.
	ResourcesFile string
}

// Placeholders of commands. Those of arguments stand for a whole argument; {{APP_ID}} and {{EXECUTOR_ID}} are replaced
// anywhere in an executor's java options (ExecutorRunner.substituteVariables, Utils.substituteAppNExecIds).
const (
	placeholderWorkerURL = "{{WORKER_URL}}"
	placeholderExecutor  = "{{EXECUTOR_ID}}"
	placeholderHostname  = "{{HOSTNAME}}"
	placeholderCores     = "{{CORES}}"
	placeholderApp       = "{{APP_ID}}"
	placeholderProfile   = "{{RESOURCE_PROFILE_ID}}"
	placeholderUserJar   = "{{USER_JAR}}"
)

// rpcURL is the address of the worker's endpoint, as its processes are told.
func (w *Worker) rpcURL() string { return fmt.Sprintf("spark://Worker@%s:%d", w.Host, w.Port) }

// Executor assembles the process of an executor. An error says why it cannot be started, in words for the master and
// the application: the executor is FAILED with it.
func (w *Worker) Executor(s ExecutorSpec) (Command, error) {
	c, err := w.nodeLocalTLS(s.Command)
	if err != nil {
		return Command{}, err
	}
	id := strconv.Itoa(int(s.ExecutorID))
	options := make([]string, len(c.JavaOpts))
	for i, o := range c.JavaOpts {
		options[i] = strings.ReplaceAll(strings.ReplaceAll(o, placeholderApp, s.AppID), placeholderExecutor, id)
	}
	c.JavaOpts = options
	if s.ResourcesFile != "" {
		c.Arguments = append(append([]string(nil), c.Arguments...), "--resourcesFile", s.ResourcesFile)
	}
	substitute := map[string]string{placeholderWorkerURL: w.rpcURL(), placeholderExecutor: id, placeholderHostname: w.Host,
		placeholderCores: strconv.Itoa(int(s.Cores)), placeholderApp: s.AppID}
	if w.Home.substitutesProfile() {
		substitute[placeholderProfile] = strconv.Itoa(int(s.ResourceProfileID))
	}
	out, err := w.assemble(c, s.MemoryMB, substitute)
	if err != nil {
		return Command{}, err
	}
	logs := fmt.Sprintf("/logPage/?appId=%s&executorId=%s&logType=", s.AppID, id)
	if w.ReverseProxy {
		logs = w.proxyBase() + "/proxy/" + w.ID + logs
	} else {
		logs = fmt.Sprintf("http://%s:%d%s", w.PublicAddress, w.WebUIPort, logs)
	}
	out.env.set("SPARK_EXECUTOR_DIRS", strings.Join(s.LocalDirs, ":"))
	// Spark's scripts would otherwise take the Scala of the machine for code that runs scala in the executor.
	out.env.set("SPARK_LAUNCH_WITH_SCALA", "0")
	out.env.set("SPARK_LOG_URL_STDERR", logs+"stderr")
	out.env.set("SPARK_LOG_URL_STDOUT", logs+"stdout")
	return w.finish(out, s.Dir, "Spark Executor Command")
}

// Driver assembles the process of a driver. Call it again for each relaunch.
func (w *Worker) Driver(s DriverSpec) (Command, error) {
	c, err := w.nodeLocalTLS(s.Command)
	if err != nil {
		return Command{}, err
	}
	if s.ResourcesFile != "" {
		c.JavaOpts = append(append([]string(nil), c.JavaOpts...), "-Dspark.driver.resourcesFile="+s.ResourcesFile)
	}
	out, err := w.assemble(c, s.MemoryMB, map[string]string{placeholderWorkerURL: w.rpcURL(), placeholderUserJar: s.UserJar})
	if err != nil {
		return Command{}, err
	}
	base := w.WebUIURL
	if w.ReverseProxy {
		base = w.proxyBase() + "/proxy/" + s.DriverID // sic: the driver's id (DriverRunner, UIUtils.makeHref)
	}
	logs := base + "/logPage/?driverId=" + s.DriverID + "&logType="
	out.env.set("SPARK_DRIVER_LOG_URL_STDOUT", logs+"stdout")
	out.env.set("SPARK_DRIVER_LOG_URL_STDERR", logs+"stderr")
	return w.finish(out, s.Dir, "Launch Command")
}

// proxyBase is what stands before /proxy/ in URLs through a reverse proxy.
func (w *Worker) proxyBase() string { return strings.TrimSuffix(w.ReverseProxyURL, "/") }

// finish checks what the system would not take and adds the log header. java is looked at last: whatever else is wrong
// with a command is the application's own fault and said first.
func (w *Worker) finish(a assembly, dir, title string) (Command, error) {
	c := Command{Argv: a.argv, Env: a.env.entries(), Dir: dir}
	if err := checkStrings(c, a.firstArgument); err != nil {
		return Command{}, err
	}
	if err := checkJava(c.Argv[0], a.javaSource); err != nil {
		return Command{}, err
	}
	c.LogHeader = logHeader(title, c.Argv, w.Redaction)
	return c, nil
}
