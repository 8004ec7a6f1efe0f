package workerui

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"raftmaster/transport/webui"
)

// Options are the settings of a Server. WorkDir and Log are required.
type Options struct {
	// Host is the address to bind, "" for all. Port is the first port tried (SPARK_WORKER_WEBUI_PORT, 8081 by default), 0 for
	// any free one; when it is in use the next MaxRetries ones are tried (spark.port.maxRetries).
	Host       string
	Port       int
	MaxRetries int
	// WorkDir holds the directories of executors (<app>/<executor>) and drivers (<driver>).
	WorkDir string
	// LogFiles gives the worker's own log files by type (stderr, stdout, out), as webui.ProcessLogFiles does; nil: none.
	LogFiles func() map[string]string
	// CompressedLogLengths is how many lengths of compressed files are remembered
	// (spark.worker.ui.compressedLogFileLengthCacheSize); 0 means 100.
	CompressedLogLengths int
	// Version is that of this program.
	Version string
	// Metrics is gathered by /metrics, beside what this package tells of the View, of HTTP, of Go and of the process (none
	// of which it may hold itself). May be nil.
	Metrics prometheus.Gatherer
	// ReverseProxy: the master forwards to applications (spark.ui.reverseProxy), so links to them lead there;
	// ReverseProxyURL is where a proxy in front of the master is found (spark.ui.reverseProxyUrl), "" without one.
	ReverseProxy    bool
	ReverseProxyURL string
	// AllowFramingFrom, XXSSProtection and ContentSecurityPolicy are Spark's settings of the same names.
	AllowFramingFrom      string
	XXSSProtection        string
	ContentSecurityPolicy bool
	Log                   hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Server is the web UI of one worker.
type Server struct {
	ln      net.Listener
	handler *Handler
	log     hclog.Logger
	running *webui.Server
}

// NewServer binds the port, so that Port is known before the worker registers. The backend is not asked before Serve.
// A Server that was made must be closed.
func NewServer(opts Options, backend Backend) (*Server, error) {
	if opts.Log == nil || opts.WorkDir == "" || backend == nil {
		return nil, errors.New("workerui: a work directory, a logger and a backend are required")
	}
	ln, err := webui.Listen(context.Background(), "WorkerUI", opts.Host, opts.Port, opts.MaxRetries)
	if err != nil {
		return nil, err
	}
	return &Server{ln: ln, handler: NewHandler(opts, backend), log: opts.Log}, nil
}

// Serve begins to answer and returns at once. It must be called once at most, and not after Close.
func (s *Server) Serve() { s.running = webui.Start(s.ln, s.handler, s.log) }

// Addr is the address in use, with the port that was really taken.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Port is the TCP port in use: what the worker registers with, and what log URLs name.
func (s *Server) Port() int {
	if a, ok := s.ln.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// Close stops accepting, ends downloads and waits for running requests until ctx ends; what is left then is closed, and
// the error is ctx's.
func (s *Server) Close(ctx context.Context) error {
	if s.running == nil {
		return s.ln.Close()
	}
	return s.running.Shutdown(ctx)
}
