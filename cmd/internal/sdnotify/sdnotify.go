package sdnotify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Variables of the protocol.
const (
	socketVariable   = "NOTIFY_SOCKET"
	watchdogVariable = "WATCHDOG_USEC"
	pidVariable      = "WATCHDOG_PID"
)

const (
	writeTimeout = time.Second
	// statusInterval is how often the status line is renewed, at most.
	statusInterval = 2 * time.Second
)

// Notifier tells a service manager about this process. A nil Notifier says nothing.
type Notifier struct {
	socket   string
	watchdog time.Duration // 0: none is wanted
}

// Take reads the variables of the protocol and takes them out of the environment: children are not this service. It gives
// nil when there is no service manager, and an error when a variable makes no sense.
func Take(pid int, lookup func(string) (string, bool), unset func(string) error) (*Notifier, error) {
	socket, _ := lookup(socketVariable)
	usec, watched := lookup(watchdogVariable)
	forPid, has := lookup(pidVariable)
	if err := errors.Join(unset(socketVariable), unset(watchdogVariable), unset(pidVariable)); err != nil {
		return nil, err
	}
	if socket == "" {
		return nil, nil
	}
	if socket[0] != '/' && socket[0] != '@' {
		return nil, fmt.Errorf("%s=%q: neither a path nor an abstract name", socketVariable, socket)
	}
	n := &Notifier{socket: socket}
	if !watched || has && forPid != strconv.Itoa(pid) {
		return n, nil
	}
	us, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || us <= 0 || us > int64(24*time.Hour/time.Microsecond) {
		return nil, fmt.Errorf("%s=%q: no number of microseconds", watchdogVariable, usec)
	}
	n.watchdog = time.Duration(us) * time.Microsecond
	return n, nil
}

// send writes one datagram. Go takes a leading @ for an abstract name, as the protocol does.
func (n *Notifier) send(text string) error {
	if n == nil {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	err = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		_, err = c.Write([]byte(text))
	}
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// Service is what a process says of itself.
type Service struct {
	// Check returns nil when the process's loops have answered. It must return when ctx ends.
	Check func(ctx context.Context) error
	// Status is one line on what the process does, perhaps as of the last Check. It must not wait for anything.
	Status func() string
	Log    hclog.Logger
}

// Run says READY, and from then on what the status is and, where a watchdog is wanted, that the process is alive: after each
// check that has passed, three times in the watchdog's interval. It says STOPPING when ctx ends, and returns.
func (n *Notifier) Run(ctx context.Context, s Service) {
	if n == nil {
		return
	}
	first, cancel := context.WithTimeout(ctx, statusInterval)
	if err := s.Check(first); err != nil && ctx.Err() == nil {
		s.Log.Warn("this process does not answer itself yet", "error", err)
	}
	cancel()
	last := s.Status()
	n.tell(s, "READY=1\nSTATUS="+line(last)+"\nMAINPID="+strconv.Itoa(os.Getpid()))
	defer n.tell(s, "STOPPING=1\nSTATUS=stopping")
	interval := statusInterval
	if n.watchdog > 0 {
		interval = min(interval, n.watchdog/3)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		n.ping(ctx, s)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := s.Status(); now != last {
			last = now
			n.tell(s, "STATUS="+line(now))
		}
	}
}

func (n *Notifier) ping(ctx context.Context, s Service) {
	timeout := n.watchdog
	if timeout == 0 {
		timeout = statusInterval
	}
	check, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch err := s.Check(check); {
	case ctx.Err() != nil || n.watchdog == 0:
	case err != nil:
		s.Log.Error("this process does not answer itself; the service manager is not told that it is alive", "error", err, "watchdog", n.watchdog)
	default:
		n.tell(s, "WATCHDOG=1")
	}
}

func (n *Notifier) tell(s Service, text string) {
	if err := n.send(text); err != nil {
		s.Log.Warn("the service manager is not told", "error", err)
	}
}

// line keeps a text on one line: a line break would begin another assignment.
func line(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c < ' ' || c == 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}
