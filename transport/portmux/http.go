package portmux

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// httpGrace is how long a caller that speaks HTTP may take to send its request and to read the answer.
const httpGrace = time.Second

// maxHTTPRequest bounds what is read of a request before it is answered.
const maxHTTPRequest = 8 << 10

// isHTTPVerb tells whether a request line may begin with that byte: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST,
// PUT, TRACE, in any case.
func isHTTPVerb(b byte) bool {
	switch b | 0x20 {
	case 'c', 'd', 'g', 'h', 'o', 'p', 't':
		return true
	}
	return false
}

// readHead reads the first line of a request, and of a submission, whose sender matters, the whole head.
func readHead(c *conn) ([]byte, error) {
	head := make([]byte, 0, maxHTTPRequest)
	for {
		n, err := c.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		end := []byte("\n")
		if isSubmission(head) {
			end = []byte("\r\n\r\n")
		}
		if err != nil || bytes.Contains(head, end) || len(head) == cap(head) {
			return head, err
		}
	}
}

func isSubmission(head []byte) bool {
	_, path, ok := bytes.Cut(head, []byte(" "))
	return ok && bytes.HasPrefix(path, []byte("/v1/submissions/"))
}

// isSubmissionClient tells Spark's own REST client, which is told nothing: when the connection just ends, it takes the port
// for that of Spark's RPC and submits that way, as with Spark's own master; an answer would be the end of its submission
// (deploy/rest/RestSubmissionClient.scala, deploy/SparkSubmit.scala). Its requests are sent by the JDK.
func isSubmissionClient(head []byte) bool {
	if !isSubmission(head) {
		return false
	}
	for _, line := range bytes.Split(head, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("User-Agent")) && bytes.Contains(value, []byte("Java/")) {
			return true
		}
	}
	return false
}

// answerHTTP tells a web client that it has the wrong port, in one line, and closes.
func (m *Mux) answerHTTP(c *conn) {
	defer func() { _ = c.Close() }()
	hint := ""
	if m.handlers.HTTPHint != nil {
		hint = m.handlers.HTTPHint()
	}
	body := "This is the cluster port of a Spark master (RPC); it speaks no HTTP.\n"
	if hint != "" {
		body = "This is the cluster port of a Spark master (RPC); the web UI is at " + hint + "\n"
	}
	_ = c.SetDeadline(time.Now().Add(httpGrace))
	// Closing with unread input would send a reset, which can overtake the answer; so read what is there first.
	head, err := readHead(c)
	if err != nil || isSubmissionClient(head) {
		return
	}
	_, err = fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	if err != nil {
		return
	}
	if tcp, ok := c.Conn.(interface{ CloseWrite() error }); ok && tcp.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, maxHTTPRequest) // until the client closes, or the deadline
	}
}
