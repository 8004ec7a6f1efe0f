package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"
	"time"

	"raftmaster/cluster/config"
	"raftmaster/transport/webui"
)

// maxAnswerBytes bounds an answer: 100,000 executors are about 40 MB.
const maxAnswerBytes = 256 << 20

// client calls the masters' admin API.
type client struct {
	endpoints []string
	timeout   time.Duration
	token     string
	http      *http.Client
	wants     *wants
	tls       *tls.Config
}

// newClient makes a client; secure says how https:// is spoken, nil as usual.
func newClient(endpoints []string, timeout time.Duration, token string, secure *tls.Config) *client {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: min(timeout, 2*time.Second)}).DialContext,
		TLSHandshakeTimeout: timeout,
		// An upload waits for as long to hear that it is wanted.
		ExpectContinueTimeout: time.Second,
		DisableKeepAlives:     true,
		TLSClientConfig:       secure,
	}
	return &client{endpoints: endpoints, timeout: timeout, token: token, wants: &wants{}, tls: secure,
		http: &http.Client{Transport: transport, CheckRedirect: sameHostOnly}}
}

// sameHostOnly keeps the token from travelling to another host.
func sameHostOnly(req *http.Request, via []*http.Request) error {
	if len(via) > 3 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errors.New("refusing to follow a redirect to " + req.URL.Host)
	}
	return nil
}

// parseEndpoints reads a comma-separated list of URLs; a scheme that is left out is the one given.
func parseEndpoints(list, scheme string) ([]string, error) {
	var out []string
	for _, e := range strings.Split(list, ",") {
		e = strings.TrimRight(strings.TrimSpace(e), "/")
		if e == "" {
			continue
		}
		if strings.HasPrefix(e, "spark://") {
			return nil, coded(exitUsage, "endpoint %q: give the web UI address of a master (http://host:8080), not its cluster port", e)
		}
		if !strings.Contains(e, "://") {
			e = scheme + e
		}
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, coded(exitUsage, "endpoint %q is no URL such as http://host:8080", e)
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		return nil, coded(exitUsage, "no endpoint given: use --endpoints http://host:8080,... or RAFTCTL_ENDPOINTS")
	}
	return out, nil
}

// readToken takes the token from a file, else from RAFTCTL_TOKEN; never from the command line, which others can read.
func readToken(file string, lookup func(string) (string, bool)) (string, error) {
	if file == "" {
		v, _ := lookup("RAFTCTL_TOKEN")
		return strings.TrimSpace(v), nil
	}
	token, err := config.ReadTokenFile(file)
	if err != nil {
		return "", &codedError{exitUsage, err}
	}
	return token, nil
}

// apiError is a failed call that was answered.
type apiError struct {
	status int
	// path is that of the call.
	path string
	body webui.Error
}

func (e *apiError) Error() string { return e.body.Message }

// get fetches path from one endpoint into v.
func (c *client) get(ctx context.Context, endpoint, path string, v any) error {
	return c.call(ctx, http.MethodGet, endpoint, path, nil, v)
}

func (c *client) call(ctx context.Context, method, endpoint, path string, body, v any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, endpoint+path, reader)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	return errors.Join(decode(resp, path, v), resp.Body.Close())
}

func decode(resp *http.Response, path string, v any) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return err
	}
	if len(data) > maxAnswerBytes {
		return fmt.Errorf("the answer is larger than %d bytes", maxAnswerBytes)
	}
	if resp.StatusCode != http.StatusOK {
		e := &apiError{status: resp.StatusCode, path: path}
		if json.Unmarshal(data, &e.body) != nil || e.body.Message == "" {
			e.body.Message = "HTTP status " + resp.Status
			if strings.Contains(string(data[:min(len(data), 200)]), wantsHTTPS) {
				e.body.Message = wantsHTTPS
			}
		}
		return e
	}
	if err := json.Unmarshal(data, v); err != nil {
		return errors.New("this is no raftmaster, or one of another release: its answer cannot be read")
	}
	return nil
}

// answer is what one endpoint said.
type answer[T any] struct {
	endpoint string
	value    T
	err      error
}

// askAll asks every endpoint at once; the answers are in the order of the endpoints.
func askAll[T any](ctx context.Context, c *client, path string) []answer[T] {
	out := make([]answer[T], len(c.endpoints))
	var wg sync.WaitGroup
	for i, e := range c.endpoints {
		wg.Add(1)
		go func() {
			defer wg.Done()
			out[i].endpoint = e
			out[i].err = c.get(ctx, e, path, &out[i].value)
		}()
	}
	wg.Wait()
	return out
}

// survey is the state of every master that could be asked.
type survey struct {
	answers []answer[webui.Status]
	// tokenGiven: a token was presented to those who wanted one.
	tokenGiven bool
}

func (c *client) survey(ctx context.Context) survey {
	return survey{answers: askAll[webui.Status](ctx, c, "/v1/status"), tokenGiven: c.token != ""}
}

// answered lists those that did answer.
func (s survey) answered() []answer[webui.Status] {
	var out []answer[webui.Status]
	for _, a := range s.answers {
		if a.err == nil {
			out = append(out, a)
		}
	}
	return out
}

// leader finds the answer of the leader with a valid lease; after a partition the one of the highest term.
func (s survey) leader() *answer[webui.Status] {
	var best *answer[webui.Status]
	for i := range s.answers {
		a := &s.answers[i]
		if a.err == nil && a.value.State == webui.StateAlive && a.value.LeaseValid && (best == nil || a.value.Term > best.value.Term) {
			best = a
		}
	}
	return best
}

// knownLeader is the leader that the answering masters name, with the highest term; nil when none names any.
func (s survey) knownLeader() *webui.Leader {
	var out *webui.Leader
	term := uint64(0)
	for _, a := range s.answered() {
		if a.value.Leader != nil && (out == nil || a.value.Term > term) {
			out, term = a.value.Leader, a.value.Term
		}
	}
	return out
}

// A leader that everybody names but that does not confirm itself has often been elected a moment ago: it is asked again
// this often before it counts as none.
const (
	confirmTries = 10
	confirmPause = 100 * time.Millisecond
)

// findLeader gives the leader's endpoint: one that was given, else the web URL that the others know it by.
func (c *client) findLeader(ctx context.Context, s survey) (string, error) {
	if l := s.leader(); l != nil {
		return l.endpoint, nil
	}
	known := s.knownLeader()
	for try := 0; known != nil && known.WebURL != "" && try < confirmTries; try++ {
		var st webui.Status
		if err := c.get(ctx, known.WebURL, "/v1/status", &st); err != nil {
			break
		}
		if st.State == webui.StateAlive && st.LeaseValid {
			return known.WebURL, nil
		}
		if st.Leader == nil {
			break
		}
		known = st.Leader
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(confirmPause):
		}
	}
	return "", noLeaderError(s)
}

// best picks the master whose copy of the state to show: the leader, else the one that has applied the most.
func (s survey) best() *answer[webui.Status] {
	if l := s.leader(); l != nil {
		return l
	}
	var best *answer[webui.Status]
	for i := range s.answers {
		a := &s.answers[i]
		if a.err == nil && (best == nil || a.value.AppliedIndex > best.value.AppliedIndex) {
			best = a
		}
	}
	return best
}

// nobodyError says that no endpoint answered.
func nobodyError(s survey) error {
	code, lines := exitTimeout, []string{"none of the masters answered:"}
	for _, a := range s.answers {
		if !isTimeout(a.err) {
			code = exitError
		}
		lines = append(lines, "  "+a.endpoint+": "+shortError(a.err))
	}
	lines = append(lines, "next: "+s.nextStep())
	return coded(code, "%s", strings.Join(lines, "\n"))
}

// nextStep says what may help when nobody answered as wanted.
func (s survey) nextStep() string {
	for _, a := range s.answers {
		if h := tlsHint(a.err); h != "" {
			return h
		}
		var refused *apiError
		if errors.As(a.err, &refused) && refused.body.Code == webui.CodeUnauthorized {
			return tokenHint(true, s.tokenGiven)
		}
	}
	return "check that raftmaster server runs there, and that --endpoints names the web UI ports (curl " + s.answers[0].endpoint + "/healthz)"
}

// noLeaderError names the voters, who answered and who did not, and what to try next.
func noLeaderError(s survey) error {
	up := s.answered()
	if len(up) == 0 {
		return nobodyError(s)
	}
	lines := []string{"the cluster has no leader"}
	voters := map[string]bool{}
	needed, members := 0, 0
	var strangers []webui.Status
	for _, a := range up {
		if isStranger(a.value) {
			strangers = append(strangers, a.value)
		} else {
			members++
		}
		needed = max(needed, a.value.Quorum.Needed)
		for _, p := range a.value.Quorum.Peers {
			if p.Voter {
				voters[p.Address] = true
			}
		}
	}
	lines = append(lines, "  voters:     "+orNone(sortedKeys(voters)))
	var yes, no []string
	for _, a := range s.answers {
		if a.err == nil {
			yes = append(yes, fmt.Sprintf("%s (%s, term %d)", a.value.Address, a.value.Role, a.value.Term))
		} else {
			no = append(no, a.endpoint+" ("+shortError(a.err)+")")
		}
	}
	lines = append(lines, "  answered:   "+orNone(yes), "  no answer:  "+orNone(no))
	for _, st := range strangers {
		lines = append(lines, fmt.Sprintf("  no member:  %s (node %s): it was removed, or never added, and is no voter", clean(st.Address), clean(st.NodeID)))
	}
	switch {
	case len(voters) == 0:
		lines = append(lines, "next: the cluster has not been formed; start every master of the list with the same --cluster")
	case members == 0:
		lines = append(lines, fmt.Sprintf("next: ask the members: give the web UI of one of the voters as --endpoints. To take %s in again: raftctl peers add %s@%s there; else stop it",
			clean(strangers[0].Address), clean(strangers[0].NodeID), clean(strangers[0].Address)))
	case members < needed:
		lines = append(lines, fmt.Sprintf("next: %d of %d voters answered and %d are needed; start the missing ones, or add their --endpoints", members, len(voters), needed))
	default:
		lines = append(lines, "next: a majority is up, so an election should end within seconds; watch it with: raftctl events --follow")
	}
	return coded(exitNoLeader, "%s", strings.Join(lines, "\n"))
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &t) && t.Timeout())
}

// shortError leaves out what the line says already: the method and the URL.
func shortError(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if isTimeout(err) {
		return "time-out"
	}
	return err.Error()
}

func sortedKeys(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
