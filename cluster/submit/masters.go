package submit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// defaultPorts are those of a list that names none.
var defaultPorts = map[Gateway]int{GatewayRPC: 7077, GatewayREST: 6066}

// maxMasters bounds a list; Raft clusters have three or five.
const maxMasters = 64

// ParseMasters reads a list of masters for a gateway: spark://HOST:PORT,HOST:PORT, for REST also
// http://HOST:PORT,http://HOST:PORT or https://. The scheme is http or https, of REST. The error is an *InvalidError.
func ParseMasters(g Gateway, list string) (scheme string, masters []string, err error) {
	scheme = "http"
	for i, part := range strings.Split(list, ",") {
		part = strings.TrimRight(strings.TrimSpace(part), "/")
		if part == "" {
			continue
		}
		if s, rest, ok := strings.Cut(part, "://"); ok {
			switch {
			case s == "spark":
			case (s == "http" || s == "https") && g == GatewayREST:
				if i > 0 && s != scheme {
					return "", nil, invalid("masters "+strconv.Quote(clip(list)), "http and https are mixed")
				}
				scheme = s
			case s == "http" || s == "https":
				return "", nil, invalid("masters "+strconv.Quote(clip(list)), "the RPC gateway is the cluster port, spark://HOST:7077; for %s:// use the REST gateway", s)
			default:
				return "", nil, invalid("masters "+strconv.Quote(clip(list)), "%s:// is no Standalone master; give spark://HOST:PORT", clip(s))
			}
			part, _, _ = strings.Cut(rest, "/")
		}
		m, ok := hostPort(part, defaultPorts[g])
		if !ok {
			return "", nil, invalid("masters "+strconv.Quote(clip(list)), "%q is not HOST:PORT", clip(part))
		}
		masters = append(masters, m)
	}
	if len(masters) == 0 || len(masters) > maxMasters {
		return "", nil, invalid("masters "+strconv.Quote(clip(list)), "give 1 to %d masters as spark://HOST:PORT,HOST:PORT", maxMasters)
	}
	return scheme, masters, nil
}

// hostPort completes HOST or HOST:PORT. An IPv6 address stands in brackets.
func hostPort(s string, port int) (string, bool) {
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		host, p = strings.Trim(s, "[]"), strconv.Itoa(port)
		if strings.Contains(host, ":") && !strings.HasPrefix(s, "[") {
			return "", false
		}
	}
	n, err := strconv.Atoi(p)
	if err != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(host, " /@?#") {
		return "", false
	}
	return net.JoinHostPort(host, strconv.Itoa(n)), true
}

// sparkURL is the list as Spark writes it.
func sparkURL(masters []string) string { return "spark://" + strings.Join(masters, ",") }

// notAlivePrefix begins the answer of a master that does not lead (Utils.BACKUP_STANDALONE_MASTER_PREFIX).
const notAlivePrefix = "Current state is not alive"

// exceptionPrefix stands before the exception of a status over REST (deploy/rest/StandaloneRestServer.scala).
const exceptionPrefix = "Exception from the cluster:\n"

// standby recognises a standby's answer in the message of any response, and shortens it to its first line.
func standby(message string) (string, bool) {
	first, _, _ := strings.Cut(strings.TrimPrefix(message, exceptionPrefix), "\n")
	first = strings.TrimPrefix(first, "java.lang.Exception: ")
	return first, strings.HasPrefix(first, notAlivePrefix)
}

// notAliveError is a standby's answer: it has done nothing.
type notAliveError struct{ text string }

func (e *notAliveError) Error() string { return e.text }

// unsentError is a failure before the first byte of a request was sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// untilLeader calls round until it finds who leads. A round asks every master; what it returns when none leads are their
// answers, and nothing else is a reason for another round: an error ends the search, whatever it is.
func untilLeader[T any](ctx context.Context, cfg *Config, round func(context.Context) (T, []Answer, error)) (T, error) {
	deadline := time.Now().Add(cfg.Patience)
	for {
		found, answers, err := round(ctx)
		if err != nil || answers == nil {
			return found, err
		}
		if cause := ctx.Err(); cause != nil {
			return found, errors.Join(cause, &NoLeaderError{Answers: answers})
		}
		// Where nobody is a master nobody will lead.
		if !anyStandby(answers) && len(answers) > 0 && time.Now().After(deadline.Add(-cfg.Patience*2/3)) || time.Now().After(deadline) {
			return found, &NoLeaderError{Answers: answers}
		}
		select {
		case <-ctx.Done():
		case <-time.After(leaderPause):
		}
	}
}

func anyStandby(answers []Answer) bool {
	for _, a := range answers {
		if a.Standby {
			return true
		}
	}
	return false
}

// diagnose says what answers at an address that did not speak Spark's RPC; "" when that cannot be told.
func diagnose(ctx context.Context, address string) string {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return ""
	}
	if _, err := c.Write([]byte("GET /json/ HTTP/1.0\r\nHost: " + address + "\r\n\r\n")); err != nil {
		return ""
	}
	head, err := io.ReadAll(io.LimitReader(c, 1<<10))
	if err != nil && len(head) == 0 || !bytes.HasPrefix(head, []byte("HTTP/")) {
		return ""
	}
	// The cluster port of raftmaster explains itself in plain text to whoever speaks HTTP there.
	if bytes.HasPrefix(head, []byte("HTTP/1.1 400 ")) && bytes.Contains(head, []byte("text/plain")) {
		return ""
	}
	return speaksHTTP + ": this is a web UI or REST port; the RPC gateway is the cluster port, 7077 by default"
}

const speaksHTTP = "it speaks HTTP"
