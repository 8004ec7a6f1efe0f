package submit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// maxAnswer bounds an answer of a REST gateway. The longest are stack traces.
const maxAnswer = 1 << 20

// restBase is the path of every request (deploy/rest/RestSubmissionServer.scala).
const restBase = "/v1/submissions/"

// restClient is the client of the REST gateway.
type restClient struct {
	cfg  Config
	http *http.Client
}

// NewREST gives a client of the REST gateway.
func NewREST(cfg Config) (Client, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	if cfg.Scheme != "http" && cfg.Scheme != "https" {
		return nil, invalid("scheme "+cfg.Scheme, "it must be http or https")
	}
	for _, m := range cfg.Masters {
		if u, err := url.Parse(cfg.Scheme + "://" + m); err != nil || u.Host != m {
			return nil, invalid("master "+clip(m), "it is not HOST:PORT")
		}
	}
	transport := &http.Transport{
		Proxy:       nil,
		DialContext: (&net.Dialer{Timeout: min(cfg.AskTimeout, 5*time.Second)}).DialContext,
		// No connection is used twice: a request on one that the server is about to close would have to be repeated.
		DisableKeepAlives: true, TLSHandshakeTimeout: cfg.AskTimeout, TLSClientConfig: cfg.TLS.Clone(), MaxResponseHeaderBytes: 64 << 10,
	}
	return &restClient{cfg: cfg, http: &http.Client{Transport: transport, Timeout: cfg.AskTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// Close implements Client.
func (c *restClient) Close() { c.http.CloseIdleConnections() }

// restAnswer is every answer of the protocol (deploy/rest/SubmitRestProtocolResponse.scala).
type restAnswer struct {
	Action         string `json:"action"`
	Message        string `json:"message"`
	Version        string `json:"serverSparkVersion"`
	ID             string `json:"submissionId"`
	Success        bool   `json:"success"`
	DriverState    string `json:"driverState"`
	WorkerID       string `json:"workerId"`
	WorkerHostPort string `json:"workerHostPort"`
	Highest        string `json:"highestProtocolVersion"`
}

// httpError is an answer that is none of the protocol, or an error response.
type httpError struct {
	status int
	// protocol: it was an ErrorResponse.
	protocol bool
	text     string
}

func (e *httpError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("HTTP status %d", e.status)
	}
	return fmt.Sprintf("HTTP status %d: %s", e.status, e.text)
}

// call asks one master once. The error is an *unsentError when no connection was made, an *httpError for an answer that
// is no success, or that of the connection.
func (c *restClient) call(ctx context.Context, method, master, path string, body any) (restAnswer, error) {
	var answer restAnswer
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return answer, &unsentError{err}
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.cfg.Scheme+"://"+master+restBase+path, reader)
	if err != nil {
		return answer, &unsentError{err}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json;charset=utf-8")
	resp, err := c.http.Do(req)
	if err != nil {
		return answer, plainError(err, c.cfg.AskTimeout)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return answer, plainError(err, c.cfg.AskTimeout)
	}
	jsonErr := json.Unmarshal(data, &answer)
	switch {
	case len(data) > maxAnswer || jsonErr != nil || answer.Action == "":
		text := ""
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			text = firstLine(string(data))
		}
		return answer, &httpError{status: resp.StatusCode, text: text}
	case resp.StatusCode != http.StatusOK || answer.Action == "ErrorResponse":
		text := clip(strings.TrimSpace(answer.Message))
		if answer.Highest != "" {
			text += " (the server speaks protocol " + clip(answer.Highest) + ")"
		}
		return answer, &httpError{status: resp.StatusCode, protocol: true, text: text}
	}
	return answer, nil
}

// plainError takes the request's own words out of an error, and tells whether anything was sent.
func plainError(err error, patience time.Duration) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op *net.OpError
	dial := errors.As(err, &op) && op.Op == "dial"
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	if errors.As(err, &timeout) && timeout.Timeout() && !dial {
		return fmt.Errorf("no answer within %v", patience)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the connection was closed before the answer")
	}
	if dial {
		return &unsentError{err}
	}
	return err
}

// statusRound asks every master about a driver, all at once, and gives the leader's answer, or what each of them said.
func (c *restClient) statusRound(ctx context.Context, id string) (*restAnswer, string, []Answer, error) {
	type outcome struct {
		answer restAnswer
		err    error
	}
	outs := make([]outcome, len(c.cfg.Masters))
	var wg sync.WaitGroup
	for i, m := range c.cfg.Masters {
		wg.Go(func() {
			outs[i].answer, outs[i].err = c.call(ctx, http.MethodGet, m, "status/"+url.PathEscape(id), nil)
		})
	}
	wg.Wait()
	answers := make([]Answer, len(outs))
	var wrong error
	lost := 0
	for i, o := range outs {
		m := c.cfg.Masters[i]
		answers[i].Master = m
		var bad *httpError
		switch {
		case errors.As(o.err, &bad) && bad.status != http.StatusServiceUnavailable:
			g := &GatewayError{Master: m, Text: notREST(bad)}
			wrong, answers[i].Text = g, g.Text
			lost++
		case o.err != nil:
			answers[i].Text = o.err.Error()
			lost++
		default:
			text, is := standby(o.answer.Message)
			if o.answer.Success || !is {
				return &outs[i].answer, m, nil, nil
			}
			answers[i].Text, answers[i].Standby = text, true
		}
	}
	if lost < len(outs) {
		wrong = nil
	}
	return nil, "", answers, wrong
}

// notREST says what an answer that is none of the protocol means.
func notREST(e *httpError) string {
	if e.protocol {
		return e.Error()
	}
	return e.Error() + "; this is no REST submission gateway: its port is 6066 by default, another one than the web UI's and the cluster port, and it must be enabled (spark.master.rest.enabled)"
}

// withLeader looks for the leader and has it asked, until one does not say that it is a standby.
func withLeader[T any](ctx context.Context, c *restClient, ask func(ctx context.Context, master, version string) (T, error)) (T, error) {
	return untilLeader(ctx, &c.cfg, func(ctx context.Context) (T, []Answer, error) {
		var none T
		found, leader, answers, err := c.statusRound(ctx, nobodysDriver)
		if err != nil || found == nil {
			return none, answers, err
		}
		done, err := ask(ctx, leader, found.Version)
		var moved *notAliveError
		if errors.As(err, &moved) {
			return none, []Answer{{Master: leader, Text: moved.text, Standby: true}}, nil
		}
		return done, nil, err
	})
}

// Submit implements Client.
func (c *restClient) Submit(ctx context.Context, job Job) (Submission, error) {
	if job.Submitted.IsZero() {
		job.Submitted = time.Now()
	}
	if err := job.Validate(); err != nil {
		return Submission{}, err
	}
	return withLeader(ctx, c, func(ctx context.Context, m, version string) (Submission, error) {
		if c.cfg.SparkVersion != "" {
			version = c.cfg.SparkVersion
		}
		req, err := job.request(sparkURL(c.cfg.Masters), version)
		if err != nil {
			return Submission{}, err
		}
		a, err := c.call(ctx, http.MethodPost, m, "create", req)
		if err != nil {
			return Submission{}, submitError(m, &job, err)
		}
		if text, is := standby(a.Message); is && !a.Success {
			return Submission{}, &notAliveError{text: text}
		}
		if !a.Success || a.ID == "" {
			return Submission{}, &RefusedError{Master: m, Message: a.Message}
		}
		return Submission{ID: a.ID, Message: a.Message, Master: m, ServerVersion: a.Version}, nil
	})
}

// submitError tells what a failed request to create means for the driver. Only an answer of the protocol proves that there
// is none: a proxy's, or a page of a server that failed, does not.
func submitError(master string, job *Job, err error) error {
	var unsent *unsentError
	var bad *httpError
	switch {
	case errors.As(err, &unsent):
		return &notAliveError{text: err.Error()}
	case errors.As(err, &bad) && bad.status >= 400 && bad.status < 500:
		return &RefusedError{Master: master, Message: bad.Error()}
	}
	return &UnknownError{Master: master, Look: job.look(job.Submitted), Cause: err}
}

// Status implements Client.
func (c *restClient) Status(ctx context.Context, id string) (Status, error) {
	if err := checkID(id); err != nil {
		return Status{}, err
	}
	return untilLeader(ctx, &c.cfg, func(ctx context.Context) (Status, []Answer, error) {
		a, m, answers, err := c.statusRound(ctx, id)
		if err != nil || a == nil {
			return Status{}, answers, err
		}
		s := Status{ID: id, Found: a.Success, State: a.DriverState, WorkerID: a.WorkerID, WorkerAddress: a.WorkerHostPort, Master: m}
		s.Message = strings.TrimPrefix(a.Message, exceptionPrefix)
		return s, nil, nil
	})
}

// Kill implements Client.
func (c *restClient) Kill(ctx context.Context, id string) (Kill, error) {
	if err := checkID(id); err != nil {
		return Kill{}, err
	}
	return c.kill(ctx, "kill/"+url.PathEscape(id), id)
}

// KillAll implements Client.
func (c *restClient) KillAll(ctx context.Context) (Kill, error) { return c.kill(ctx, "killall", "") }

func (c *restClient) kill(ctx context.Context, path, id string) (Kill, error) {
	return withLeader(ctx, c, func(ctx context.Context, m, _ string) (Kill, error) {
		a, err := c.repeatable(ctx, m, path)
		if err != nil {
			return Kill{}, err
		}
		return Kill{ID: id, Accepted: a.Success, Message: a.Message, Master: m}, nil
	})
}

// Clear implements Client.
func (c *restClient) Clear(ctx context.Context) error {
	_, err := withLeader(ctx, c, func(ctx context.Context, m, _ string) (struct{}, error) {
		a, err := c.repeatable(ctx, m, "clear")
		if err == nil && !a.Success {
			err = &RefusedError{Master: m, Message: a.Message}
		}
		return struct{}{}, err
	})
	return err
}

// repeatable posts what may be asked twice: a lost answer is asked for again.
func (c *restClient) repeatable(ctx context.Context, m, path string) (restAnswer, error) {
	a, err := c.call(ctx, http.MethodPost, m, path, nil)
	var bad *httpError
	switch {
	case err == nil:
		if text, is := standby(a.Message); is && !a.Success {
			return a, &notAliveError{text: text}
		}
		return a, nil
	case errors.As(err, &bad) && bad.protocol && bad.status == http.StatusBadRequest && strings.HasPrefix(bad.text, "Missing an action"):
		return a, ErrUnsupported
	case errors.As(err, &bad) && bad.status < 500:
		return a, &RefusedError{Master: m, Message: bad.Error()}
	}
	return a, &notAliveError{text: err.Error()}
}
