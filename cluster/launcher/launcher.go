package launcher

import (
	"errors"
	"raftmaster/transport/sparkmsg"
	"regexp"
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
	// Argv is the argument vector; Argv[0] is the absolute path of java.
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

// Executor assembles the process of an executor. An error says why it cannot be started, in words for the master and
// the application: the executor is FAILED with it.
func (w *Worker) Executor(s ExecutorSpec) (Command, error) {
	return Command{}, errors.New("not built yet")
}

// Driver assembles the process of a driver. Call it again for each relaunch.
func (w *Worker) Driver(s DriverSpec) (Command, error) { return Command{}, errors.New("not built yet") }

// CheckJava says what is wrong with the Java that processes without a JAVA_HOME of their own get: a worker warns of it at
// its start. The same error comes from Executor and Driver.
func (w *Worker) CheckJava() error { return errors.New("not built yet") }

// StartError explains why starting cmd failed with err, in words for the master: java, the directory, or the size.
func StartError(cmd Command, err error) error { return err }
