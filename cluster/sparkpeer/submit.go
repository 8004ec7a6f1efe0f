package sparkpeer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// ErrNoLeader says that every master that answered is a standby, as Spark's client recognises it.
var ErrNoLeader = errors.New("sparkpeer: no master leads")

// notAlivePrefix is Utils.BACKUP_STANDALONE_MASTER_PREFIX.
const notAlivePrefix = "Current state is not alive"

// SubmitConfig describes a submission client. A zero field means its default.
type SubmitConfig struct {
	Common
	AskTimeout time.Duration // spark.rpc.askTimeout of deploy.Client; 10 s
}

// SubmitClient plays Spark's submission client (deploy.Client): it asks every master and takes the leader's answer. Its
// methods may be called from any goroutine. The real one first needs a connection to every master; this one does without
// those that cannot be reached.
type SubmitClient struct {
	node
	cfg SubmitConfig
}

// NewSubmitClient starts a client, which listens as the real one does. The caller must Close it.
func NewSubmitClient(cfg SubmitConfig) (*SubmitClient, error) {
	cfg.Common.setDefaults()
	orDefault(&cfg.AskTimeout, 10*time.Second)
	c := &SubmitClient{cfg: cfg}
	if err := c.open(cfg.Common, "client", c); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the client and waits for its goroutines.
func (c *SubmitClient) Close() { c.shut() }

// DriverJob gives the description of a driver as deploy.Client makes it.
func DriverJob(mainClass string, cores, memoryMB int32, supervise bool, masters ...frame.Address) *sparkmsg.DriverDescription {
	names := make([]string, len(masters))
	for i, m := range masters {
		names[i] = m.String()
	}
	return &sparkmsg.DriverDescription{JarURL: "file:/jobs/job.jar", Mem: memoryMB, Cores: cores, Supervise: supervise,
		Command: sparkmsg.Command{
			MainClass:   "org.apache.spark.deploy.worker.DriverWrapper",
			Arguments:   []string{"{{WORKER_URL}}", "{{USER_JAR}}", mainClass},
			Environment: []sparkmsg.EnvVar{{Name: "SPARK_USER", Value: "spark"}},
			JavaOpts:    []string{"-Dspark.master=spark://" + strings.Join(names, ","), "-Dspark.submit.deployMode=cluster"},
		}}
}

// Submit submits a driver; a description without a graph is bound to the client's family first. A refusal is an answer
// without Success.
func (c *SubmitClient) Submit(ctx context.Context, desc *sparkmsg.DriverDescription) (*sparkmsg.SubmitDriverResponse, error) {
	if desc.Graph == nil {
		if err := desc.Bind(c.node.cfg.Family); err != nil {
			return nil, fmt.Errorf("sparkpeer: driver description: %w", err)
		}
	}
	return askAll(ctx, c, &sparkmsg.RequestSubmitDriver{DriverDescription: desc}, func(m *sparkmsg.SubmitDriverResponse) string { return m.Message })
}

// Kill asks for the end of a driver.
func (c *SubmitClient) Kill(ctx context.Context, id string) (*sparkmsg.KillDriverResponse, error) {
	return askAll(ctx, c, &sparkmsg.RequestKillDriver{DriverID: id}, func(m *sparkmsg.KillDriverResponse) string { return m.Message })
}

// KillAll asks for the end of all drivers (families C to E).
func (c *SubmitClient) KillAll(ctx context.Context) (*sparkmsg.KillAllDriversResponse, error) {
	return askAll(ctx, c, &sparkmsg.RequestKillAllDrivers{}, func(m *sparkmsg.KillAllDriversResponse) string { return m.Message })
}

// Status asks how a driver is.
func (c *SubmitClient) Status(ctx context.Context, id string) (*sparkmsg.DriverStatusResponse, error) {
	return askAll(ctx, c, &sparkmsg.RequestDriverStatus{DriverID: id}, func(m *sparkmsg.DriverStatusResponse) string {
		if m.Found || m.Exception == nil {
			return ""
		}
		return m.Exception.Message
	})
}

// askAll asks every master at once, and returns the first answer that is not a standby's.
func askAll[M sparkmsg.Message](ctx context.Context, c *SubmitClient, msg sparkmsg.Message, text func(M) string) (M, error) {
	type outcome struct {
		answer sparkmsg.Message
		err    error
	}
	out := make(chan outcome, len(c.cfg.Masters))
	for _, m := range c.cfg.Masters {
		c.ep.Ask(m, "Master", c.node.cfg.Family, msg, c.cfg.AskTimeout, func(answer sparkmsg.Message, err error) { out <- outcome{answer, err} })
	}
	var none M
	failures := []error{ErrNoLeader}
	for range c.cfg.Masters {
		select {
		case o := <-out:
			answer, ok := o.answer.(M)
			switch {
			case o.err != nil:
				failures = append(failures, o.err)
			case !ok:
				failures = append(failures, fmt.Errorf("sparkpeer: %s was answered with %T", msg.MessageName(), o.answer))
			case !strings.HasPrefix(text(answer), notAlivePrefix):
				return answer, nil
			}
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
	return none, errors.Join(failures...)
}

// WaitDriver asks until a driver has a state that is accepted, and returns the last answer.
func (c *SubmitClient) WaitDriver(ctx context.Context, id string, accept func(*sparkmsg.DriverStatusResponse) bool) (*sparkmsg.DriverStatusResponse, error) {
	const pause = 10 * time.Millisecond
	var last error
	for {
		s, err := c.Status(ctx, id)
		if err == nil && accept(s) {
			return s, nil
		}
		last = err
		select {
		case <-ctx.Done():
			return s, errors.Join(ctx.Err(), last)
		case <-time.After(pause):
		}
	}
}

// OneWay implements sparkrpc.Handler: nobody sends a client anything.
func (c *SubmitClient) OneWay(*sparkrpc.Conn, sparkrpc.Inbound) {}

// Ask implements sparkrpc.Handler.
func (c *SubmitClient) Ask(_ *sparkrpc.Conn, _ sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	reply(nil, errUnsupported)
}

// Closed implements sparkrpc.Handler.
func (c *SubmitClient) Closed(*sparkrpc.Conn, frame.Address, bool) {}
