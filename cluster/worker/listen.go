package worker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// listen binds the RPC port. Port 0 takes any free one; a port in use is followed by the next ones, as in Spark
// (util/Utils.scala, startServiceOnPort). What another port does not help ends it at once. Errors say what does help.
func listen(host string, port, retries int) (net.Listener, error) {
	for offset := 0; ; offset++ {
		next := port
		if port != 0 && offset > 0 {
			next = (port+offset-1024)%(65536-1024) + 1024
		}
		ln, err := net.Listen("tcp", net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(next)))
		if err == nil {
			return ln, nil
		}
		if port == 0 || offset >= retries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("%w (%s)", err, listenHint(err, port, offset))
		}
	}
}

// listenHint says what helps against a failed listen after offset further ports.
func listenHint(err error, port, offset int) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "this machine cannot resolve its own host: correct --host or SPARK_LOCAL_HOSTNAME, or make the name known here"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "the host is no address of this machine: correct --host or SPARK_LOCAL_IP"
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("tried from %d on, with %d retries (spark.port.maxRetries): give another --port, or none for any free one", port, offset)
	case errors.Is(err, os.ErrPermission):
		return "this user may not listen there: ports below 1024 are privileged; give another --port"
	}
	return "--host and --port choose another address"
}
