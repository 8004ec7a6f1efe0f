package submit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// masterEndpoint is the name of a master's endpoint (deploy/master/Master.scala, ENDPOINT_NAME).
const masterEndpoint = "Master"

// nobodysDriver is asked about to learn who leads: an id that no master gives.
const nobodysDriver = "driver-00000000000000-0000"

// rpcClient is the client of the RPC gateway.
type rpcClient struct {
	cfg     Config
	family  sparkmsg.Family
	masters []frame.Address
	// reserved keeps the port of the advertised address from others: masters know a client by its address. Nobody
	// connects there.
	reserved net.Listener
	ep       *sparkrpc.Endpoint
}

// NewRPC gives a client of the RPC gateway. Config.SparkVersion must be that of Spark's master, or the release of the
// workers where raftmaster leads. The caller must Close it.
func NewRPC(cfg Config) (Client, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	c := &rpcClient{cfg: cfg}
	var ok bool
	if c.family, ok = sparkmsg.FamilyForRelease(cfg.SparkVersion); !ok {
		return nil, invalid("Spark release "+strconv.Quote(clip(cfg.SparkVersion)), "give one from 3.2 to 4.3, such as 4.3.0")
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *rpcClient) open() error {
	for _, m := range c.cfg.Masters {
		host, port, err := net.SplitHostPort(m)
		n, numErr := strconv.ParseUint(port, 10, 16)
		if err != nil || numErr != nil {
			return invalid("master "+strconv.Quote(clip(m)), "it is not HOST:PORT")
		}
		c.masters = append(c.masters, frame.Address{Host: host, Port: int32(n)})
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("submit: reserve a port: %w", err)
	}
	c.reserved = ln
	host, err := Outgoing(c.cfg.Masters[0])
	if err != nil {
		host = "127.0.0.1" // the name of that master cannot be resolved: another one may be reached
	}
	self := frame.Address{Host: host, Port: int32(ln.Addr().(*net.TCPAddr).Port)}
	c.ep = sparkrpc.New(sparkrpc.Config{
		Self:   self,
		Exists: func(name string) bool { return name == "client" || name == sparkrpc.VerifierEndpoint },
		Log:    c.cfg.Log.Named("rpc"),
		// A dial that fails is told at once: the round over all masters is what is repeated.
		Limits: sparkrpc.Limits{GiveUp: time.Nanosecond, Dial: min(c.cfg.AskTimeout, 5*time.Second)},
	}, silent{})
	return nil
}

// Outgoing is the address of this machine on the way to HOST:PORT. No packet is sent for it.
func Outgoing(address string) (string, error) {
	c, err := net.Dial("udp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP.String(), nil
}

// silent is the Handler of a process that nobody has anything to tell.
type silent struct{}

func (silent) OneWay(*sparkrpc.Conn, sparkrpc.Inbound) {}
func (silent) Ask(_ *sparkrpc.Conn, _ sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	reply(nil, errors.New("unsupported message"))
}
func (silent) Closed(*sparkrpc.Conn, frame.Address, bool) {}

// Close implements Client.
func (c *rpcClient) Close() {
	c.ep.Close()
	if err := c.reserved.Close(); err != nil {
		c.cfg.Log.Debug("close of the reserved port failed", "error", err)
	}
}

// Submit implements Client. Each submission is made by a client of its own, as each process of deploy.Client makes one:
// raftmaster knows a client by its address, and takes what one submits again around an election for the same driver.
func (c *rpcClient) Submit(ctx context.Context, job Job) (Submission, error) {
	one := &rpcClient{cfg: c.cfg, family: c.family}
	if err := one.open(); err != nil {
		return Submission{}, err
	}
	defer one.Close()
	return one.submit(ctx, job)
}

// submit looks for the leader first, so that the submission goes to one master only.
func (c *rpcClient) submit(ctx context.Context, job Job) (Submission, error) {
	if job.Submitted.IsZero() {
		job.Submitted = time.Now()
	}
	desc, err := job.Description(sparkURL(c.cfg.Masters))
	if err != nil {
		return Submission{}, err
	}
	if err := desc.Bind(c.family); err != nil {
		return Submission{}, tooLarge(err)
	}
	if _, err := desc.MarshalPayload(); err != nil {
		return Submission{}, tooLarge(err)
	}
	msg := &sparkmsg.RequestSubmitDriver{DriverDescription: desc}
	return toLeader(ctx, c, func(ctx context.Context, m frame.Address) (Submission, error) {
		answer, err := askOne[*sparkmsg.SubmitDriverResponse](ctx, c, m, msg)
		var unsent *unsentError
		var wrong *GatewayError
		switch {
		case err == nil:
		case errors.As(err, &unsent):
			return Submission{}, &notAliveError{text: err.Error()}
		case errors.As(err, &wrong), errors.Is(err, ErrUnsupported):
			return Submission{}, err
		default:
			return Submission{}, &UnknownError{Master: m.String(), Look: job.look(job.Submitted), Cause: err}
		}
		if text, is := standby(answer.Message); is {
			return Submission{}, &notAliveError{text: text}
		}
		if !answer.Success || answer.DriverID == nil {
			return Submission{}, &RefusedError{Master: m.String(), Message: answer.Message}
		}
		return Submission{ID: *answer.DriverID, Message: answer.Message, Master: m.String()}, nil
	})
}

// tooLarge is what a description that cannot be encoded is for the submitter.
func tooLarge(err error) error {
	var large *sparkmsg.PayloadTooLargeError
	if errors.As(err, &large) {
		return invalid("the job", "%v: shorten its arguments, properties and environment, or let the driver read them from a file", err)
	}
	return invalid("the job", "%v", err)
}

// Status implements Client: every master is asked, and the leader's answer counts.
func (c *rpcClient) Status(ctx context.Context, id string) (Status, error) {
	if err := checkID(id); err != nil {
		return Status{}, err
	}
	return untilLeader(ctx, &c.cfg, func(ctx context.Context) (Status, []Answer, error) {
		answer, m, answers, err := c.statusRound(ctx, id)
		if err != nil || answer == nil {
			return Status{}, answers, err
		}
		return rpcStatus(id, m, answer), nil, nil
	})
}

func rpcStatus(id string, m frame.Address, a *sparkmsg.DriverStatusResponse) Status {
	s := Status{ID: id, Found: a.Found, Master: m.String()}
	if a.State != nil {
		s.State = a.State.String()
	}
	if a.WorkerID != nil {
		s.WorkerID = *a.WorkerID
	}
	if a.WorkerHostPort != nil {
		s.WorkerAddress = *a.WorkerHostPort
	}
	if a.Exception != nil {
		s.Message = a.Exception.Error()
	}
	return s
}

// Kill implements Client.
func (c *rpcClient) Kill(ctx context.Context, id string) (Kill, error) {
	if err := checkID(id); err != nil {
		return Kill{}, err
	}
	return toLeader(ctx, c, func(ctx context.Context, m frame.Address) (Kill, error) {
		a, err := askOne[*sparkmsg.KillDriverResponse](ctx, c, m, &sparkmsg.RequestKillDriver{DriverID: id})
		if err != nil {
			return Kill{}, again(err)
		}
		if text, is := standby(a.Message); is {
			return Kill{}, &notAliveError{text: text}
		}
		return Kill{ID: id, Accepted: a.Success, Message: a.Message, Master: m.String()}, nil
	})
}

// KillAll implements Client.
func (c *rpcClient) KillAll(ctx context.Context) (Kill, error) {
	if c.spark3() {
		return Kill{}, ErrUnsupported
	}
	return toLeader(ctx, c, func(ctx context.Context, m frame.Address) (Kill, error) {
		a, err := askOne[*sparkmsg.KillAllDriversResponse](ctx, c, m, &sparkmsg.RequestKillAllDrivers{})
		if err != nil {
			return Kill{}, again(err)
		}
		if text, is := standby(a.Message); is {
			return Kill{}, &notAliveError{text: text}
		}
		return Kill{Accepted: a.Success, Message: a.Message, Master: m.String()}, nil
	})
}

// Clear implements Client. It goes to the leader only: Spark's standbys accept it too, and clear nothing of the leader's.
func (c *rpcClient) Clear(ctx context.Context) error {
	if c.spark3() {
		return ErrUnsupported
	}
	_, err := toLeader(ctx, c, func(ctx context.Context, m frame.Address) (struct{}, error) {
		a, err := askOne[*sparkmsg.Boolean](ctx, c, m, &sparkmsg.RequestClearCompletedDriversAndApps{})
		if err == nil && !a.Value {
			err = &RefusedError{Master: m.String(), Message: "the master answered false"}
		}
		return struct{}{}, again(err)
	})
	return err
}

func (c *rpcClient) spark3() bool { return c.family <= sparkmsg.FamilyB }

// again makes of an answer that was lost one of a master that does not lead: what may be repeated is.
func again(err error) error {
	var wrong *GatewayError
	var refused *RefusedError
	if err == nil || errors.As(err, &wrong) || errors.As(err, &refused) || errors.Is(err, context.Canceled) {
		return err
	}
	return &notAliveError{text: err.Error()}
}

// toLeader looks for the leader and has it asked; when it turns out not to lead, from the start.
func toLeader[T any](ctx context.Context, c *rpcClient, ask func(context.Context, frame.Address) (T, error)) (T, error) {
	return untilLeader(ctx, &c.cfg, func(ctx context.Context) (T, []Answer, error) {
		var none T
		answer, leader, answers, err := c.statusRound(ctx, nobodysDriver)
		if err != nil || answer == nil {
			return none, answers, err
		}
		done, err := ask(ctx, leader)
		var moved *notAliveError
		if errors.As(err, &moved) {
			return none, []Answer{{Master: leader.String(), Text: moved.text, Standby: true}}, nil
		}
		return done, nil, err
	})
}

// statusRound asks every master about a driver and returns the leader's answer, or none and what each of them said. It is
// an error when none of them understands the question.
func (c *rpcClient) statusRound(ctx context.Context, id string) (*sparkmsg.DriverStatusResponse, frame.Address, []Answer, error) {
	type outcome struct {
		place  int
		answer *sparkmsg.DriverStatusResponse
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := make(chan outcome, len(c.masters))
	for i, m := range c.masters {
		go func() {
			a, err := c.askStatus(ctx, m, id)
			out <- outcome{i, a, err}
		}()
	}
	answers := make([]Answer, len(c.masters))
	var wrong error
	lost := 0
	for range c.masters {
		o := <-out
		m := c.masters[o.place]
		a := Answer{Master: m.String()}
		var gateway *GatewayError
		switch {
		case errors.As(o.err, &gateway):
			wrong, a.Text = o.err, gateway.Text
			lost++
		case o.err != nil:
			a.Text = o.err.Error()
			lost++
		default:
			text, is := "", false
			if o.answer.Exception != nil {
				text, is = standby(o.answer.Exception.Message)
			}
			if o.answer.Found || !is {
				return o.answer, m, nil, nil
			}
			a.Text, a.Standby = text, true
		}
		answers[o.place] = a
	}
	if wrong == nil || lost < len(c.masters) {
		wrong = nil
	}
	return nil, frame.Address{}, answers, wrong
}

// suspicious is how long a master may be silent before it is looked at whether it is one: a web server waits for the rest
// of what it takes for a request.
const suspicious = 2 * time.Second

// askStatus is askOne for the question by which the leader is found.
func (c *rpcClient) askStatus(ctx context.Context, m frame.Address, id string) (*sparkmsg.DriverStatusResponse, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var looked sync.WaitGroup
	defer looked.Wait()
	looked.Add(1)
	timer := time.AfterFunc(min(suspicious, c.cfg.AskTimeout/2), func() {
		if what := diagnose(ctx, m.String()); what != "" {
			cancel(&GatewayError{Master: m.String(), Text: what})
		}
		looked.Done()
	})
	a, err := askOne[*sparkmsg.DriverStatusResponse](ctx, c, m, &sparkmsg.RequestDriverStatus{DriverID: id})
	if timer.Stop() {
		looked.Done()
	} else if err == nil {
		cancel(nil)
	}
	var wrong *GatewayError
	if err != nil && errors.As(context.Cause(ctx), &wrong) {
		return nil, wrong
	}
	return a, err
}

// askOne asks one master. The error is an *unsentError when nothing was sent, a *GatewayError when that master does not
// understand, the context's, or one of sparkrpc.
func askOne[M sparkmsg.Message](ctx context.Context, c *rpcClient, m frame.Address, msg sparkmsg.Message) (M, error) {
	type outcome struct {
		answer sparkmsg.Message
		err    error
	}
	var none M
	if err := ctx.Err(); err != nil {
		return none, &unsentError{err}
	}
	out := make(chan outcome, 1)
	c.ep.Ask(m, masterEndpoint, c.family, msg, c.cfg.AskTimeout, func(a sparkmsg.Message, err error) { out <- outcome{a, err} })
	select {
	case o := <-out:
		if o.err != nil {
			return none, c.askError(ctx, m, o.err)
		}
		answer, ok := o.answer.(M)
		if !ok {
			return none, fmt.Errorf("%s was answered with %T", msg.MessageName(), o.answer)
		}
		return answer, nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (c *rpcClient) askError(ctx context.Context, m frame.Address, err error) error {
	var remote *sparkrpc.RemoteError
	switch {
	case errors.As(err, &remote):
		if misread(remote.Text) {
			return &GatewayError{Master: m.String(), Text: "that master is of another Spark release than " + c.cfg.SparkVersion +
				", and could not read the request; give its release"}
		}
		return errors.New(firstLine(remote.Text))
	case errors.Is(err, sparkrpc.ErrDropped):
		return &unsentError{errors.New("cannot be reached" + dialReason(err))}
	case errors.Is(err, sparkrpc.ErrConnClosed):
		if what := diagnose(ctx, m.String()); what != "" {
			return &GatewayError{Master: m.String(), Text: what}
		}
		return errors.New("the connection was closed before the answer")
	case errors.Is(err, sparkrpc.ErrTimeout):
		return fmt.Errorf("no answer within %v", c.cfg.AskTimeout)
	}
	return err
}

// dialReason is why a master cannot be reached, as far as a dial told it.
func dialReason(err error) string {
	var dial *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return ": " + dns.Error()
	case errors.As(err, &dial):
		return ": " + dial.Err.Error()
	}
	return ""
}

// misread recognises the failure of a JVM that cannot read an object, which it has not seen then.
func misread(text string) bool {
	for _, s := range []string{"InvalidClassException", "ClassNotFoundException", "StreamCorruptedException", "NoSuchFieldError", "ClassCastException"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return clip(s)
}

func checkID(id string) error {
	if id == "" || len(id) > 256 || strings.ContainsAny(id, "/?#%\x00 \n") {
		return invalid("driver id "+strconv.Quote(clip(id)), "an id looks like driver-20260102030405-0001")
	}
	return nil
}
