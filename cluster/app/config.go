package app

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/sparkmsg"
)

// Config describes an application. Masters, Host, and one of Release and Family are required; a zero field otherwise
// means its default.
type Config struct {
	// Masters are host:port of every master, or master URLs ("spark://h1:p1,h2:p2").
	Masters []string
	// Release is the Spark release of the executors, such as "3.5.9". It gives Family and the Java options.
	Release string
	// Family of the executors' release; taken from Release if that is set.
	Family sparkmsg.Family

	// Host is the advertised address: masters and executors must be able to reach it.
	Host string
	// Port to listen on; 0: any free one. Not used with Listener.
	Port int
	// Bind is the address to listen on; Host if empty. Not used with Listener.
	Bind string
	// Listener is taken over and closed by the App. Its port is the advertised one.
	Listener net.Listener

	Name string // shown by the master; "raftmaster-app"
	// UIURL is the web UI that the master shows; none. raftmaster asks UIURL/api/v1/version for the release of the executors.
	UIURL string
	User  string // shown by the master and SPARK_USER of executors; "raftmaster"

	CoresPerExecutor int32 // 1; -1: all cores that a worker has free
	MemoryMB         int32 // of one executor, MiB; 512
	// MaxCores is spark.cores.max; 0: no limit.
	MaxCores int32
	// InitialExecutors limits how many executors the master grants before the first RequestExecutors; nil: no limit.
	InitialExecutors *int32
	// JavaOpts of executors, after those that Release needs on Java 17.
	JavaOpts []string
	// Environment of executors, beside SPARK_USER.
	Environment []sparkmsg.EnvVar
	// Properties that executors get, beside spark.driver.host and spark.driver.port. Not to be set: keys that make them
	// fetch files (spark.app.initial.jar.urls and alike), which this driver does not serve.
	Properties []sparkmsg.Property

	// Describe replaces the description built from the fields above. Its command must start executors that find this
	// driver, so it is a function of the driver's URL.
	Describe func(driverURL string) *sparkmsg.ApplicationDescription

	// Events gets what happens, in order, on one goroutine of the App. At most EventQueue events wait for a slow
	// callback; then the oldest are left out and counted in the next Event.Lost. Nil: none.
	Events     func(Event)
	EventQueue int // 1024

	Timers Timers
	Limits Limits
	Log    hclog.Logger // none
	// Dial opens connections to masters; nil means net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Wrap puts a layer on every new connection, such as authentication; nil means none.
	Wrap func(net.Conn) (net.Conn, error)
}

// Timers are the time limits of an App. A zero field means its default, which is Spark's where Spark has one.
type Timers struct {
	RegisterEvery time.Duration // between attempts to register with all masters; 20 s
	RegisterTries int           // attempts; 3
	Ask           time.Duration // one ask to a master or an executor; 120 s
	AskRetry      time.Duration // pause before an ask that failed with its connection is tried again; 500 ms
	// ExitWait is how long an executor whose connection ended may wait for its exit status; 5 s
	// (spark.standalone.executorRemoveDelayOnDisconnection).
	ExitWait time.Duration
	// Silence is how long a registered executor may send no heartbeat before it counts as lost; 120 s
	// (spark.network.timeout).
	Silence time.Duration
	Leave   time.Duration // the whole of Stop; 30 s. A context with an earlier deadline ends it earlier.
}

// Limits bound what executors may cost. A zero field means its default.
type Limits struct {
	Executors   int // records of executors that have not ended; 10 000
	Ended       int // records of executors that have ended, the latest; 1000
	Connections int // accepted connections; 32 768
}
