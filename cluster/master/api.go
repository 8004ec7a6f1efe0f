package master

import (
	"context"
	"errors"
	"fmt"

	"raftmaster/transport/sparkmsg"
)

// This file is what other front ends (the REST gateway, the web UI, the admin API) ask of the leader. Every method may be
// called from any goroutine, and answers only what is committed. A master that does not lead answers *NotLeaderError.

// ErrUnknownOutcome says that this master stopped leading, or stopped altogether, while a request was on its way into the
// log: it may take effect or not. The next leader knows.
var ErrUnknownOutcome = errors.New("this master stopped leading before the request was committed; it may still take effect")

// NotLeaderError is the answer of a master that does not lead.
type NotLeaderError struct {
	// State is what Spark calls the state of this master: STANDBY.
	State string
	// Leader is the master URL of the leader, "spark://host:port"; "" when this master knows of none.
	Leader string
}

// Error implements error. It begins with the words by which Spark's clients recognise a master that does not lead
// (Utils.BACKUP_STANDALONE_MASTER_PREFIX).
func (e *NotLeaderError) Error() string {
	return "Current state is not alive: " + e.State + "." + e.whoLeads()
}

// Refuse says it as Spark's master does, and then who leads (G-74). can is what only a leader can do: "accept driver
// submissions", "kill drivers", "request driver status".
func (e *NotLeaderError) Refuse(can string) string {
	return fmt.Sprintf("Current state is not alive: %s. Can only %s in ALIVE state.%s", e.State, can, e.whoLeads())
}

func (e *NotLeaderError) whoLeads() string {
	if e.Leader == "" {
		return ""
	}
	return " The leader is " + e.Leader + "."
}

// DriverSubmission answers SubmitDriver.
type DriverSubmission struct {
	ID      string // "" when refused
	Message string // Spark's words
	Success bool
	// Full: it was refused because too many drivers wait, and may be accepted later.
	Full bool
}

// DriverKill answers KillDriver and KillAllDrivers. ID is that of the request; "" for all.
type DriverKill struct {
	ID      string
	Message string // Spark's words
	Success bool
}

// DriverStatus answers DriverStatus. Without Found the rest is empty.
type DriverStatus struct {
	Found          bool
	ID             string
	State          sparkmsg.DriverState
	WorkerID       string // "" while it was never placed
	WorkerHostPort string // likewise; kept after the end (B-141)
	// Exception is what its worker reported, nil for none. Graph is set only if this leader got the report itself.
	Exception *sparkmsg.Exception
	// Successor is the id under which a RELAUNCHING driver goes on.
	Successor string
	// Reason says why the master itself ended it, such as the loss of its worker; "" if it did not.
	Reason string
}

// answered is the outcome of a request.
type answered[T any] struct {
	value T
	err   error
}

// call runs a request on the Core's goroutine and waits for its outcome, which may take a commit.
func call[T any](ctx context.Context, s *Service, start func(c *Core, done func(T, error))) (T, error) {
	out := make(chan answered[T], 1)
	s.Post(func() {
		start(s.core, func(value T, err error) {
			if errors.Is(err, errNotLeader) {
				err = ErrUnknownOutcome // proposed by a leader that is none any more
			}
			out <- answered[T]{value, err}
		})
		s.core.flush()
	})
	var none T
	select {
	case a := <-out:
		return a.value, a.err
	case <-s.ended:
		select { // answered by the very end
		case a := <-out:
			return a.value, a.err
		default:
			return none, ErrUnknownOutcome
		}
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// SubmitDriver queues a driver (B-134). families are those of the workers that may run it, release its Spark release as
// far as known ("" if not). The description is bound to one of these families if it is not bound yet; it must not be
// used by the caller afterwards. A description that can never be accepted is no error: Success is false, and Message says
// why.
func (s *Service) SubmitDriver(ctx context.Context, desc *sparkmsg.DriverDescription, families sparkmsg.FamilySet,
	release string) (DriverSubmission, error) {
	return call(ctx, s, func(c *Core, done func(DriverSubmission, error)) {
		c.SubmitDriver(DriverRequest{Desc: desc, Families: families, Release: release}, done)
	})
}

// KillDriver asks for the end of a waiting or running driver (B-135). Any id of a chain of relaunches will do.
func (s *Service) KillDriver(ctx context.Context, id string) (DriverKill, error) {
	return call(ctx, s, func(c *Core, done func(DriverKill, error)) { c.KillDriver(id, done) })
}

// KillAllDrivers asks for the end of every unfinished driver (B-136).
func (s *Service) KillAllDrivers(ctx context.Context) (DriverKill, error) {
	return call(ctx, s, func(c *Core, done func(DriverKill, error)) { c.KillAllDrivers(done) })
}

// DriverStatus tells how an unfinished or remembered driver is (B-141).
func (s *Service) DriverStatus(ctx context.Context, id string) (DriverStatus, error) {
	return call(ctx, s, func(c *Core, done func(DriverStatus, error)) { done(c.DriverStatus(id)) })
}

// ClearCompleted forgets the completed drivers and applications (B-142).
func (s *Service) ClearCompleted(ctx context.Context) error {
	_, err := call(ctx, s, func(c *Core, done func(struct{}, error)) {
		c.ClearCompleted(func(err error) { done(struct{}{}, err) })
	})
	return err
}

// KillApplication ends an application as KILLED, as the kill link of Spark's page does (B-112); its driver is told. found
// is false when no unfinished application has the id.
func (s *Service) KillApplication(ctx context.Context, id string) (found bool, err error) {
	return call(ctx, s, func(c *Core, done func(bool, error)) { c.KillApplication(id, done) })
}

// DecommissionHosts decommissions the live workers on these hosts, compared without case (B-065). n counts those that
// match, decommissioned ones included. *DecommissionOffError unless spark.decommission.enabled.
func (s *Service) DecommissionHosts(ctx context.Context, hosts []string) (n int, err error) {
	return call(ctx, s, func(c *Core, done func(int, error)) { c.DecommissionHosts(hosts, done) })
}

// DecommissionWorkers does the same for live workers by id.
func (s *Service) DecommissionWorkers(ctx context.Context, ids []string) (n int, err error) {
	return call(ctx, s, func(c *Core, done func(int, error)) { c.DecommissionWorkers(ids, done) })
}

// DrainWorkers marks live workers, or takes the mark away: a drained worker gets no new work, and what runs there goes on.
// idleOnly marks only those that run nothing. n counts the workers whose mark is as asked for.
func (s *Service) DrainWorkers(ctx context.Context, ids []string, on, idleOnly bool) (n int, err error) {
	return call(ctx, s, func(c *Core, done func(int, error)) { c.DrainWorkers(ids, on, idleOnly, done) })
}

// UnmarkIncompatible lets work go again to a worker where it never came up: executors of one application, or with appID ""
// those of all, and drivers too. n counts what was forgotten.
func (s *Service) UnmarkIncompatible(ctx context.Context, workerID, appID string) (n int, err error) {
	return call(ctx, s, func(c *Core, done func(int, error)) { c.UnmarkIncompatible(workerID, appID, done) })
}

// Ready tells whether this master leads and can serve at this moment (B-143, G-73). It never waits.
func (s *Service) Ready() bool {
	ready := s.ready.Load()
	return ready != nil && (*ready)()
}
