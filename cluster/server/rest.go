package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"raftmaster/cluster/config"
	"raftmaster/cluster/master"
	"raftmaster/fsm"
	"raftmaster/transport/rest"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/webui"
)

// listenREST binds the port of the REST gateway; nil when it is off.
func (s *Server) listenREST() (net.Listener, error) {
	if !s.cfg.RESTEnabled {
		return nil, nil
	}
	ln, err := webui.Listen(s.ctx, "REST server", s.cfg.RESTHost, s.cfg.RESTPort, s.cfg.PortMaxRetries)
	if err != nil {
		return nil, err
	}
	s.restURL = scheme(s.cfg.RESTTLS.On()) + config.Address{Host: s.restHost(), Port: ln.Addr().(*net.TCPAddr).Port}.String()
	return ln, nil
}

// restHost is the name by which clients reach the gateway: the one it listens on where that was set to something else
// than the master's own and can be dialled, else the name by which this master is known.
func (s *Server) restHost() string {
	ip := net.ParseIP(strings.Trim(s.cfg.RESTHost, "[]"))
	if s.cfg.RESTHost == s.cfg.Host || (ip != nil && ip.IsUnspecified()) {
		return s.cfg.AdvertiseHost
	}
	return s.cfg.RESTHost
}

// startREST serves the gateway on ln.
func (s *Server) startREST(ln net.Listener) error {
	allowed := make([]*regexp.Regexp, 0, len(s.cfg.REST.AllowedAppResources))
	for _, text := range s.cfg.REST.AllowedAppResources {
		p, err := regexp.Compile(text)
		if err != nil {
			return errors.Join(fmt.Errorf("spark.master.rest.allowedAppResourcePatterns: %w", err), ln.Close())
		}
		allowed = append(allowed, p)
	}
	answers := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "raftmaster", Name: "rest_requests_total",
		Help: "Answers of the REST submission gateway, by call and HTTP status."}, []string{"call", "status"})
	if err := s.registry.Register(answers); err != nil {
		return errors.Join(err, ln.Close())
	}
	log := s.log.Named("rest")
	s.rest = webui.StartTLS(ln, s.guard.REST(), rest.NewHandler(rest.Options{
		Backend: &restBackend{s}, Log: log, SparkVersion: s.cfg.REST.SparkVersion, ClusterURL: s.cfg.ClusterURL(),
		MaxBodyBytes: s.cfg.REST.MaxBodyBytes, AllowedAppResources: allowed, PlaceholderEnv: s.placeholder,
		Observe: func(call string, status int) { answers.WithLabelValues(call, strconv.Itoa(status)).Inc() },
	}), log)
	s.log.Info(fmt.Sprintf("Started REST server for submitting applications on %s with port %d", s.cfg.RESTHost, s.rest.Port()))
	return nil
}

// placeholder gives away the variables that an operator has named, and no other.
func (s *Server) placeholder(name string) (string, bool) {
	if !slices.Contains(s.cfg.REST.PlaceholderEnv, name) {
		return "", false
	}
	return os.LookupEnv(name)
}

// httpHint is where a web client finds what it looked for on the cluster port.
func (s *Server) httpHint() string {
	if s.restURL == "" {
		return s.webURL
	}
	return s.webURL + ", the REST server is at " + s.restURL
}

// RESTURL is where this master's REST gateway is, "" when it is off.
func (s *Server) RESTURL() string { return s.restURL }

const (
	// leaderWait is how long a request waits where nobody leads: an election, or a leader whose lease lapsed for a moment,
	// is over sooner, and a client that is turned away by all masters gives up. It must be below webShutdownTimeout.
	leaderWait = 1500 * time.Millisecond
	leaderPoll = 20 * time.Millisecond
)

// whoeverLeads calls the leader service, again while no master leads that this one knows of. *NotLeaderError says that
// nothing was done, so that even a submission may be repeated.
func whoeverLeads[T any](ctx context.Context, b *restBackend, call func() (T, error)) (T, error) {
	return retried(ctx, b.s.ctx.Done(), b.notAlive, call)
}

// retried is whoeverLeads for any master. refuse describes it as one that does not lead; stopped ends the waiting.
func retried[T any](ctx context.Context, stopped <-chan struct{}, refuse func() *rest.NotAliveError, call func() (T, error)) (T, error) {
	for end := time.Now().Add(leaderWait); ; {
		v, err := call()
		var standby *master.NotLeaderError
		if !errors.As(err, &standby) {
			return v, err
		}
		refusal := refuse()
		if refusal.Leader != "" || time.Now().After(end) {
			return v, refusal
		}
		select {
		case <-time.After(leaderPoll):
		case <-ctx.Done():
			return v, refusal
		case <-stopped:
			return v, refusal
		}
	}
}

// restBackend answers the REST gateway from the leader service.
type restBackend struct{ s *Server }

// Submit implements rest.Backend.
func (b *restBackend) Submit(ctx context.Context, sub rest.Submission) (rest.Submitted, error) {
	families, release := releaseOf(b.s.node.View(), sub.ClientSparkVersion)
	d, err := whoeverLeads(ctx, b, func() (master.DriverSubmission, error) {
		return b.s.svc.SubmitDriver(ctx, sub.Description, families, release)
	})
	if err != nil {
		return rest.Submitted{}, err
	}
	return settled(d)
}

// settled is the answer to a submission that was judged. What can never be accepted is a malformed request, as with Spark;
// a queue that is full now is no fault of the client's.
func settled(d master.DriverSubmission) (rest.Submitted, error) {
	if !d.Success && !d.Full {
		return rest.Submitted{}, &rest.InvalidError{Reason: d.Message}
	}
	return rest.Submitted{ID: d.ID, Success: d.Success, Message: d.Message}, nil
}

// releaseOf decides which workers may run a driver. What the client says of itself counts where a live worker of that
// release is known. Otherwise any worker will do, as with Spark's own master: many clients say whatever was in the example
// that they were copied from.
func releaseOf(view fsm.View, clientVersion string) (sparkmsg.FamilySet, string) {
	fam, ok := sparkmsg.FamilyForRelease(clientVersion)
	if !ok {
		return sparkmsg.AllFamilies, ""
	}
	found := false
	view.Workers(func(w *fsm.Worker) bool {
		found = w.State == fsm.WorkerAlive && sparkmsg.FamilySet(w.Families).Has(fam) && master.SameLine(clientVersion, w.Release)
		return !found
	})
	if !found {
		return sparkmsg.AllFamilies, ""
	}
	return sparkmsg.SetOf(fam), clientVersion
}

// Kill implements rest.Backend.
func (b *restBackend) Kill(ctx context.Context, id string) (rest.Killed, error) {
	k, err := whoeverLeads(ctx, b, func() (master.DriverKill, error) { return b.s.svc.KillDriver(ctx, id) })
	return rest.Killed{Success: k.Success, Message: k.Message}, err
}

// KillAll implements rest.Backend.
func (b *restBackend) KillAll(ctx context.Context) (rest.Killed, error) {
	k, err := whoeverLeads(ctx, b, func() (master.DriverKill, error) { return b.s.svc.KillAllDrivers(ctx) })
	return rest.Killed{Success: k.Success, Message: k.Message}, err
}

// Status implements rest.Backend.
func (b *restBackend) Status(ctx context.Context, id string) (rest.DriverStatus, error) {
	d, err := whoeverLeads(ctx, b, func() (master.DriverStatus, error) { return b.s.svc.DriverStatus(ctx, id) })
	if err != nil || !d.Found {
		return rest.DriverStatus{}, err
	}
	out := rest.DriverStatus{Found: true, State: d.State.String(), WorkerID: d.WorkerID, WorkerHostPort: d.WorkerHostPort}
	if d.Exception != nil {
		out.Exception = d.Exception.Error()
	}
	out.Note = statusNote(d)
	return out, nil
}

// statusNote says what Spark keeps to itself: why the master ended a driver, and where a relaunched one goes on (S10).
func statusNote(d master.DriverStatus) string {
	var parts []string
	if d.Reason != "" {
		parts = append(parts, "Ended by the master: "+d.Reason+".")
	}
	if d.Successor != "" {
		parts = append(parts, "Relaunched as "+d.Successor+".")
	}
	return strings.Join(parts, " ")
}

// Clear implements rest.Backend.
func (b *restBackend) Clear(ctx context.Context) error {
	_, err := whoeverLeads(ctx, b, func() (struct{}, error) { return struct{}{}, b.s.svc.ClearCompleted(ctx) })
	return err
}

// Ready implements rest.Backend. A probe does not wait.
func (b *restBackend) Ready(context.Context) error {
	if b.s.svc.Ready() {
		return nil
	}
	return b.notAlive()
}

// notAlive names the leader and its gateway, as far as this master knows (G-74).
func (b *restBackend) notAlive() *rest.NotAliveError {
	e := &rest.NotAliveError{State: webui.StateStandby}
	st := b.s.backend.Brief()
	if st.Leader == nil || st.Leader.NodeID == st.NodeID {
		return e // none, or this one, which is about to take over or to step down
	}
	e.Leader = "The leader is spark://" + st.Leader.Address + "."
	for _, p := range st.Quorum.Peers {
		if p.NodeID == st.Leader.NodeID && p.RESTURL != "" {
			e.Leader = "The leader is spark://" + st.Leader.Address + ", its REST server is " + p.RESTURL + "."
		}
	}
	return e
}
