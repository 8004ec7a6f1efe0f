package webui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// Limits of the HTTP side. A caller that exceeds one is answered or closed; nothing is buffered beyond them.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	// idleTimeout follows Spark's UI, which closes idle connections after 8 s (spec: UI servers).
	idleTimeout = 8 * time.Second
	// writeTimeout bounds a small answer, from the end of the request's head; the longest to compute is /metrics (10 s).
	writeTimeout   = 20 * time.Second
	maxHeaderBytes = 16 << 10
	// maxConns and maxConnsPerIP bound the open connections, loopback included; one beyond is closed at once.
	maxConns      = 1024
	maxConnsPerIP = 256
	// maxBodyBytes bounds the body of a POST; the largest legitimate one is a few dozen bytes.
	maxBodyBytes = 16 << 10
	// followMaximum ends a followed event stream, so that dead readers are found; clients ask again with ?after=.
	followMaximum = 10 * time.Minute
	// followKeepAlive is how often a blank line proves to both ends of a followed stream that the other lives.
	followKeepAlive = 10 * time.Second
	// followWriteTimeout is the time of a reader of a stream for one batch of events.
	followWriteTimeout = 60 * time.Second
	// maxFollowers bounds the streams open at once.
	maxFollowers = 64
	// maxEventsPerAnswer bounds one answer of /v1/events.
	maxEventsPerAnswer = 1000
	// transferTimeout bounds one leadership transfer asked for over HTTP.
	transferTimeout = 30 * time.Second
)

// Options are the parts that a Handler shows and uses. State, Events and Log are required.
type Options struct {
	State  State
	Events Events
	// Leadership and Operations may be nil; what they do is then answered with 501.
	Leadership Leadership
	Operations Operations
	// Drills makes faults on purpose; nil (the rule) leaves /v1/drill out.
	Drills Drills
	// LogLevels serves /v1/log-level, Debug the parts of /v1/debug; without them (nil) those are answered with 404.
	LogLevels LogLevels
	Debug     []DebugPart
	// Snapshots saves and restores the state; nil is answered with 501.
	Snapshots Snapshots
	// Details may be nil; the pages and calls about one thing are then answered with 404.
	Details Details
	// Metrics is gathered by /metrics; nil leaves the route out.
	Metrics prometheus.Gatherer
	// Tokens are needed to change something, and perhaps to read; nil: loopback callers only change something.
	Tokens Tokens
	// Token is a single one that may do everything, for programs that need no Tokens.
	Token string
	// Operated, when set, is told of what operators did or tried to do; it must not block.
	Operated func(Action)
	// Title replaces the page title (spark.master.ui.title).
	Title string
	// AllowFramingFrom, XXSSProtection and ContentSecurityPolicy are Spark's settings of the same names.
	AllowFramingFrom      string
	XXSSProtection        string
	ContentSecurityPolicy bool
	// KillEnabled mounts the kill forms (spark.ui.killEnabled).
	KillEnabled bool
	// DecommissionEnabled mounts POST /workers/kill/ (spark.decommission.enabled), for the callers of DecommissionAllow
	// (spark.master.ui.decommission.allow.mode): LOCAL, which "" means too, DENY or ALLOW.
	DecommissionEnabled bool
	DecommissionAllow   string
	// ReverseProxy forwards /proxy/<id>/ to the pages of workers and applications (spark.ui.reverseProxy); ReverseProxyURL
	// is where a proxy in front of this master is found (spark.ui.reverseProxyUrl), "" without one.
	ReverseProxy    bool
	ReverseProxyURL string
	// HistoryServerURL is linked from completed applications (spark.master.ui.historyServerUrl); "" without one.
	HistoryServerURL string
	// Environment is what /environment/ shows, already redacted; nil shows the process's own facts only.
	Environment func() []EnvironmentSection
	// LogFiles gives the files that /log/ may show by type (stderr, stdout, out); types without a file are left out.
	LogFiles func() map[string]string
	Log      hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Server is a running HTTP server with its listener.
type Server struct {
	http *http.Server
	ln   net.Listener
	// stop ends followed streams before Shutdown waits for connections to become idle.
	stop context.CancelFunc
	done chan struct{}
}

// Listen binds host:port, and the next ports up to maxRetries more when one is in use, as Spark's UI does
// (Utils.startServiceOnPort: numbers wrap inside 1024-65535). Port 0 takes any free one. service names the purpose in the error.
func Listen(ctx context.Context, service, host string, port, maxRetries int) (net.Listener, error) {
	var lc net.ListenConfig
	for offset := 0; ; offset++ {
		try := port
		if port != 0 {
			try = walkPort(port, offset)
		}
		ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(try)))
		if err == nil {
			return ln, nil
		}
		if !isAddrInUse(err) {
			return nil, fmt.Errorf("%s: cannot listen: %w (the address of web UIs is SPARK_LOCAL_IP, that of the REST server spark.master.rest.host)",
				service, err)
		}
		if port == 0 || offset >= maxRetries {
			return nil, fmt.Errorf("%s: no free port for host %s from %d on after %d retries (spark.port.maxRetries): %w",
				service, host, port, offset, err)
		}
	}
}

// Start serves handler on ln until Shutdown, within the limits on connections; a handler with a method ConnectionRefused
// counts those that are closed at once. It takes ownership of ln.
func Start(ln net.Listener, handler http.Handler, log hclog.Logger) *Server {
	return start(limited(ln, handler), newHTTPServer(handler, log), log)
}

// limited bounds the connections of a listener.
func limited(ln net.Listener, handler http.Handler) *limitListener {
	out := newLimitListener(ln, maxConns, maxConnsPerIP)
	if h, ok := handler.(interface{ ConnectionRefused() }); ok {
		out.refused = h.ConnectionRefused
	}
	return out
}

func newHTTPServer(handler http.Handler, log hclog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true}),
	}
}

func start(ln net.Listener, server *http.Server, log hclog.Logger) *Server {
	ctx, stop := context.WithCancel(context.Background())
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	s := &Server{http: server, ln: ln, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("web UI stopped serving", "address", ln.Addr().String(), "error", err)
		}
	}()
	return s
}

// Addr is the address in use, with the port that was really taken.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Port is the TCP port in use.
func (s *Server) Port() int {
	if a, ok := s.ln.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// Shutdown stops accepting, ends followed streams, and waits for running requests until ctx ends; what is left then is
// closed. It returns ctx's error in that case.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.http.Shutdown(ctx)
	if err != nil {
		if cerr := s.http.Close(); cerr != nil {
			err = errors.Join(err, cerr)
		}
	}
	<-s.done
	return err
}
