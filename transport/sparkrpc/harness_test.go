package sparkrpc

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

const patience = 20 * time.Second // for what must happen, on a slow machine

var masterAddr = frame.Address{Host: "127.0.0.1", Port: 21000}

// recorder is a Handler that keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	oneWay []Inbound
	conns  []*Conn
	asks   []Inbound
	ends   []end
	onAsk  func(*Conn, Inbound, func(sparkmsg.Message, error))
	onSend func(*Conn, Inbound)
}

type end struct {
	id   uint64
	peer frame.Address
	last bool
}

func (r *recorder) OneWay(c *Conn, in Inbound) {
	r.mu.Lock()
	r.oneWay = append(r.oneWay, in)
	r.conns = append(r.conns, c)
	f := r.onSend
	r.mu.Unlock()
	if f != nil {
		f(c, in)
	}
}

func (r *recorder) Ask(c *Conn, in Inbound, reply func(sparkmsg.Message, error)) {
	r.mu.Lock()
	r.asks = append(r.asks, in)
	f := r.onAsk
	r.mu.Unlock()
	if f != nil {
		f(c, in, reply)
		return
	}
	reply(&sparkmsg.Boolean{Value: true}, nil)
}

func (r *recorder) Closed(c *Conn, peer frame.Address, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, end{c.ID(), peer, last})
}

func (r *recorder) received() []Inbound {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Inbound(nil), r.oneWay...)
}

func (r *recorder) closed() []end {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]end(nil), r.ends...)
}

// server is an Endpoint behind a loopback listener.
type server struct {
	*Endpoint
	rec  *recorder
	addr string
}

// serve starts an Endpoint named Master. tune may change its configuration.
func serve(t testing.TB, tune func(*Config)) *server {
	t.Helper()
	s := &server{rec: &recorder{}}
	cfg := Config{
		Self:   masterAddr,
		Exists: func(name string) bool { return name == "Master" || name == VerifierEndpoint },
		Log:    hclog.NewNullLogger(),
	}
	if tune != nil {
		tune(&cfg)
	}
	s.Endpoint = New(cfg, s.rec)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.ServeConn(nc) })
		}
	})
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
		wg.Wait()
	})
	return s
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// script is a scripted peer: raw frames over TCP, written without the code under test.
type script struct {
	t    testing.TB
	nc   net.Conn
	in   *frame.Reader
	self frame.Address
	fam  sparkmsg.Family
}

func dialScript(t testing.TB, addr string, self frame.Address) *script {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newScript(t, nc, self)
}

func newScript(t testing.TB, nc net.Conn, self frame.Address) *script {
	t.Cleanup(func() { closeQuietly(nc) })
	s := &script{t: t, nc: nc, in: frame.NewReader(bufio.NewReader(nc)), self: self, fam: sparkmsg.FamilyB}
	s.in.SetMaxFrame(frame.RegisteredMax)
	return s
}

func mustEncode(t testing.TB, msg sparkmsg.Message, fam sparkmsg.Family) []byte {
	t.Helper()
	b, err := sparkmsg.Encode(msg, fam)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// request builds the bytes of a request frame.
func (s *script) request(typ frame.Type, id int64, endpoint string, content []byte) []byte {
	self := s.self
	body := frame.AppendRequest(nil, frame.Request{Sender: &self, Receiver: &masterAddr, Endpoint: endpoint, Content: content})
	return frame.Append(nil, frame.Frame{Type: typ, RequestID: id, Body: body})
}

func (s *script) write(b []byte) {
	s.t.Helper()
	if _, err := s.nc.Write(b); err != nil {
		s.t.Fatalf("write: %v", err)
	}
}

func (s *script) send(endpoint string, msg sparkmsg.Message) {
	s.t.Helper()
	s.write(s.request(frame.OneWayMessage, 0, endpoint, mustEncode(s.t, msg, s.fam)))
}

func (s *script) ask(id int64, endpoint string, msg sparkmsg.Message) {
	s.t.Helper()
	s.write(s.request(frame.RPCRequest, id, endpoint, mustEncode(s.t, msg, s.fam)))
}

func (s *script) next() (frame.Frame, error) {
	if err := s.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return frame.Frame{}, err
	}
	return s.in.Next()
}

func (s *script) mustNext() frame.Frame {
	s.t.Helper()
	f, err := s.next()
	if err != nil {
		s.t.Fatalf("read: %v", err)
	}
	return f
}

// nextMessage returns the next request frame and its message.
func (s *script) nextMessage() (frame.Frame, frame.Request, sparkmsg.Message) {
	s.t.Helper()
	f := s.mustNext()
	req, err := frame.ParseRequest(f.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	dec, err := sparkmsg.Decode(req.Content)
	if err != nil {
		s.t.Fatal(err)
	}
	return f, req, dec.Msg
}

// answer replies to an ask.
func (s *script) answer(id int64, value bool) {
	s.t.Helper()
	s.write(frame.Append(nil, frame.Frame{Type: frame.RPCResponse, RequestID: id, Body: mustEncode(s.t, &sparkmsg.Boolean{Value: value}, s.fam)}))
}

// register makes the server know this connection by the script's address.
func (s *script) register(srv *server) {
	s.t.Helper()
	s.ask(1, VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
	if f := s.mustNext(); f.Type != frame.RPCResponse {
		s.t.Fatalf("got %v", f.Type)
	}
	if !srv.Attached(s.self) {
		s.t.Fatal("not attached after a frame with a sender")
	}
}

// closedByServer waits until the server has closed the connection.
func (s *script) closedByServer() {
	s.t.Helper()
	for {
		_, err := s.next()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			s.t.Fatal("server did not close the connection")
		}
		if err != nil {
			return
		}
	}
}

func heartbeat(id string, self frame.Address) *sparkmsg.Heartbeat {
	return &sparkmsg.Heartbeat{WorkerID: id, Worker: sparkmsg.EndpointRef{Name: "Worker", Address: &self}}
}
