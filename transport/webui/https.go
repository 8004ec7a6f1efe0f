package webui

import (
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// StartTLS is Start over TLS; a nil config means plain HTTP. config must offer http/1.1 alone: the limits of this port are
// made for one request at a time on each connection. A caller who speaks plain HTTP is told so in one line.
func StartTLS(ln net.Listener, config *tls.Config, handler http.Handler, logger hclog.Logger) *Server {
	if config == nil {
		return Start(ln, handler, logger)
	}
	server := newHTTPServer(handler, logger)
	server.ErrorLog = log.New(&handshakeLog{log: logger, plain: server.ErrorLog}, "", 0)
	return start(tls.NewListener(limited(ln, handler), config), server, logger)
}

// handshakeNoise is how often failed handshakes make a line: scanners and probes fail all day.
const handshakeNoise = time.Minute

// handshakeLog takes what net/http logs, and bounds the lines about failed handshakes.
type handshakeLog struct {
	log   hclog.Logger
	plain *log.Logger

	mu     sync.Mutex
	told   time.Time
	failed int
}

// Write implements io.Writer for a log.Logger, which gives one line at a time.
func (l *handshakeLog) Write(line []byte) (int, error) {
	what, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "http: TLS handshake error from ")
	if !ok {
		l.plain.Print(string(line))
		return len(line), nil
	}
	l.mu.Lock()
	l.failed++
	n, tell := l.failed, l.told.IsZero() || time.Since(l.told) >= handshakeNoise
	if tell {
		l.failed, l.told = 0, time.Now()
	}
	l.mu.Unlock()
	if tell {
		l.log.Warn("TLS handshake failed", "from", what, "failed_since_the_last_line", n)
	} else {
		l.log.Debug("TLS handshake failed", "from", what)
	}
	return len(line), nil
}
