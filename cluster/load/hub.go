package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// hub is what all peers share: the listener, the codec, the counters.
type hub struct {
	cfg     Config
	codec   *codec
	yes, no []byte // Boolean answers
	ln      net.Listener
	port    int32
	wg      sync.WaitGroup // listener, connections, background heartbeats, retries
	ctx     context.Context
	cancel  context.CancelFunc

	scout   *peer
	workers []*worker
	apps    []*application // those of PhaseApps, then the one of PhaseBurst
	byHost  map[[4]byte]*peer
	execs   sync.Map // application id -> *execTable

	leaving atomic.Bool
	paused  atomic.Bool // background heartbeats

	reports atomic.Pointer[series] // of state changes, while they are measured

	heartbeats, launches, running, ended, drivers atomic.Int64

	mu     sync.Mutex
	errs   map[string]int
	leader frame.Address
	conns  map[*conn]struct{}
	gone   bool // leave has closed them

	scouting sync.Mutex // one question for the leader at a time
}

// role is what a peer plays.
type role interface {
	// message handles a one-way message. The content is valid during the call only.
	message(c *conn, name string, content []byte) error
	// lostMaster is called when the peer's present connection has ended by itself.
	lostMaster()
}

// peer is one address of the generator.
type peer struct {
	h        *hub
	addr     frame.Address
	endpoint string
	role     role

	current atomic.Pointer[conn]
	master  atomic.Pointer[frame.Address] // of the last master reference; the one dialled before the first
}

func newHub(ctx context.Context, cfg Config, fam sparkmsg.Family) (*hub, error) {
	h := &hub{cfg: cfg, errs: map[string]int{}, byHost: map[[4]byte]*peer{}, conns: map[*conn]struct{}{}}
	var err error
	if h.codec, err = newCodec(fam); err != nil {
		return nil, err
	}
	for _, b := range []struct {
		to    *[]byte
		value bool
	}{{&h.yes, true}, {&h.no, false}} {
		if *b.to, err = sparkmsg.Encode(&sparkmsg.Boolean{Value: b.value}, fam); err != nil {
			return nil, err
		}
	}
	if err := h.listen(); err != nil {
		return nil, err
	}
	h.ctx, h.cancel = context.WithCancel(ctx)
	h.makePeers()
	h.wg.Go(h.accept)
	return h, nil
}

// listen opens the one listener of all addresses. It is bound to every address of the machine because the kernel has no
// narrower way to take a whole /16; connections to other addresses are closed at once.
func (h *hub) listen() error {
	ports := []int{h.cfg.Port}
	if h.cfg.Port == 0 {
		ports = nil
		// Another port each time: a master may still be asking about the peers of the last run.
		for i, start := 0, rand.IntN(12000); i < 200; i++ {
			ports = append(ports, 20000+(start+7*i)%12000)
		}
	}
	var err error
	for _, p := range ports {
		if h.ln, err = net.Listen("tcp4", net.JoinHostPort("0.0.0.0", strconv.Itoa(p))); err == nil {
			h.port = int32(p)
			return nil
		}
	}
	return fmt.Errorf("load: no port to listen on: %w", err)
}

func (h *hub) makePeers() {
	host := func(net, i int) string { return fmt.Sprintf("127.%d.%d.%d", net, 1+i/250, 1+i%250) }
	stamp := time.Now().Format("20060102150405.000") // where Spark writes the time of start, to the second
	stamp = strings.Replace(stamp, ".", "", 1)
	h.scout = h.newPeer(fmt.Sprintf("127.%d.0.1", h.cfg.Net), "client", nobodyRole{})
	for i := range h.cfg.Workers {
		w := &worker{}
		w.peer = h.newPeer(host(h.cfg.Net, i), "Worker", w)
		w.id = fmt.Sprintf("worker-%s-%s-%d", stamp, w.addr.Host, w.addr.Port)
		h.workers = append(h.workers, w)
	}
	for i := range h.cfg.Apps + 1 {
		a := &application{name: fmt.Sprintf("load-%04d", i)}
		a.peer = h.newPeer(host(h.cfg.Net+1, i), "AppClient", a)
		h.apps = append(h.apps, a)
	}
}

func (h *hub) newPeer(host, endpoint string, r role) *peer {
	p := &peer{h: h, addr: frame.Address{Host: host, Port: h.port}, endpoint: endpoint, role: r}
	h.byHost[[4]byte(net.ParseIP(host).To4())] = p
	return p
}

// nobodyRole is for a peer to which nobody sends anything.
type nobodyRole struct{}

func (nobodyRole) message(*conn, string, []byte) error { return nil }
func (nobodyRole) lostMaster()                         {}

// failed counts an error by kind.
func (h *hub) failed(kind string) { h.failedTimes(kind, 1) }

func (h *hub) failedTimes(kind string, n int) {
	if n == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs[kind] += n
}

// open notes a connection, so that leave finds it.
func (h *hub) open(c *conn) {
	h.mu.Lock()
	h.conns[c] = struct{}{}
	gone := h.gone
	h.mu.Unlock()
	if gone {
		c.close()
	}
}

func (h *hub) shut(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

func (h *hub) accept() {
	for {
		nc, err := h.ln.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				h.failed("accept")
				h.cfg.Log.Error("accept failed", "error", err)
			}
			return
		}
		local, ok := nc.LocalAddr().(*net.TCPAddr)
		var p *peer
		if ok {
			if ip := local.IP.To4(); ip != nil {
				p = h.byHost[[4]byte(ip)]
			}
		}
		if p == nil || h.leaving.Load() {
			_ = nc.Close() // a stranger
			continue
		}
		h.wg.Go(func() { p.serve(nc) })
	}
}

// serve handles a connection that somebody opened to the peer: a master, or whoever reads the web page, which has the
// same port here.
func (p *peer) serve(nc net.Conn) {
	first := &resumed{Conn: nc}
	c := newConn(p, first)
	p.h.open(c) // from now on leave closes it
	defer p.h.shut(c)
	b, err := first.peek()
	switch {
	case err != nil:
		c.close()
	case b == 'G':
		p.servePage(first)
	default:
		c.read()
	}
}

// servePage answers the question for the release as a worker's page and as a driver's REST API do.
func (p *peer) servePage(nc net.Conn) {
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return
	}
	buf := make([]byte, 2048)
	n := 0
	for n < len(buf) && !bytes.Contains(buf[:n], []byte("\r\n\r\n")) {
		m, err := nc.Read(buf[n:])
		if n += m; err != nil {
			return
		}
	}
	kind, body := "text/html", `<html><body><span class="version">`+p.h.cfg.Release+`</span></body></html>`
	if p.endpoint == "AppClient" {
		kind, body = "application/json", `{"spark":"`+p.h.cfg.Release+`"}`
	}
	// The asker that is gone has lost interest.
	_, _ = fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", kind, len(body), body)
}

// resumed is a connection whose first byte can be looked at.
type resumed struct {
	net.Conn
	first []byte
}

const firstByteTimeout = 10 * time.Second

func (r *resumed) peek() (byte, error) {
	b := make([]byte, 1)
	if err := r.SetReadDeadline(time.Now().Add(firstByteTimeout)); err != nil {
		return 0, err
	}
	if _, err := r.Conn.Read(b); err != nil {
		return 0, err
	}
	r.first = b
	return b[0], r.SetReadDeadline(time.Time{})
}

func (r *resumed) Read(b []byte) (int, error) {
	if len(r.first) > 0 {
		n := copy(b, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}

// dial opens the peer's connection to a master and asks whether there is one, as every peer of Spark does first. done is
// called once.
func (p *peer) dial(to frame.Address, done func(error)) {
	d := net.Dialer{Timeout: p.h.cfg.Timeout}
	if loopback(to.Host) {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(p.addr.Host)}
	}
	nc, err := d.DialContext(p.h.ctx, "tcp4", to.String())
	if err != nil {
		done(fmt.Errorf("dial: %w", err))
		return
	}
	c := newConn(p, nc)
	p.master.Store(&to)
	p.current.Store(c)
	p.h.open(c)
	p.h.wg.Go(func() {
		c.read()
		p.h.shut(c)
	})
	c.ask(to, "endpoint-verifier", p.h.codec.exist, func(body []byte, err error) {
		if err == nil && !bytes.Equal(body, p.h.yes) {
			err = errAnswer
		}
		done(err)
	})
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// live returns the peer's connection and the address of its master.
func (p *peer) live() (*conn, frame.Address, bool) {
	c, m := p.current.Load(), p.master.Load()
	if c == nil || m == nil {
		return nil, frame.Address{}, false
	}
	return c, *m, true
}

// send sends a one-way message to the peer's master.
func (p *peer) send(content []byte) error {
	c, to, ok := p.live()
	if !ok {
		return errClosed
	}
	return c.send(to, content)
}

// ask asks the peer's master.
func (p *peer) ask(content []byte, done func([]byte, error)) {
	c, to, ok := p.live()
	if !ok {
		done(nil, errClosed)
		return
	}
	c.ask(to, "Master", content, done)
}

func (p *peer) oneWay(c *conn, req frame.Request) error {
	if req.Endpoint != p.endpoint {
		p.h.failed("message to another endpoint")
		return nil
	}
	return p.role.message(c, messageName(req.Content), req.Content)
}

// follow takes a new master reference, which came on c.
func (p *peer) follow(c *conn, ref sparkmsg.EndpointRef) {
	if ref.Address == nil {
		return
	}
	to := *ref.Address
	p.master.Store(&to)
	if old := p.current.Swap(c); old != nil && old != c {
		// Not here: this is c's reader, and old's may be closing c in the same moment.
		p.h.wg.Go(old.close)
	}
	p.h.mu.Lock()
	p.h.leader = to
	p.h.mu.Unlock()
}

func (p *peer) lost(c *conn, err error) {
	if !p.current.CompareAndSwap(c, nil) || p.h.leaving.Load() {
		return
	}
	p.h.failed("connection lost")
	p.h.cfg.Log.Debug("connection lost", "peer", p.addr, "error", err)
	p.role.lostMaster()
}

func (p *peer) ref() sparkmsg.EndpointRef {
	addr := p.addr
	return sparkmsg.EndpointRef{Name: p.endpoint, Address: &addr}
}

// findLeader asks all masters in turn, again and again, until one leads.
func (h *hub) findLeader() (frame.Address, error) {
	deadline := time.Now().Add(h.cfg.Timeout)
	var last error
	for {
		for _, m := range h.cfg.Masters {
			leads, err := h.scoutOnce(m)
			if leads {
				h.mu.Lock()
				h.leader = m
				h.mu.Unlock()
				return m, nil
			}
			last = err
		}
		if time.Now().After(deadline) {
			return frame.Address{}, errors.Join(ErrNoLeader, last)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-h.ctx.Done():
			return frame.Address{}, h.ctx.Err()
		}
	}
}

func (h *hub) scoutOnce(m frame.Address) (bool, error) {
	h.scouting.Lock()
	defer h.scouting.Unlock()
	return h.leads(m)
}

// leads asks one master for a driver that nobody has: a standby says that it is none (Master.scala, RequestDriverStatus).
func (h *hub) leads(m frame.Address) (bool, error) {
	answer := make(chan error, 1)
	h.scout.dial(m, func(err error) { answer <- err })
	defer func() {
		if c := h.scout.current.Swap(nil); c != nil {
			c.close()
		}
	}()
	wait := func() error {
		select {
		case err := <-answer:
			return err
		case <-time.After(5 * time.Second):
			return fmt.Errorf("%s does not answer", m)
		case <-h.ctx.Done():
			return h.ctx.Err()
		}
	}
	if err := wait(); err != nil {
		return false, err
	}
	h.scout.ask(h.codec.nosuch, func(body []byte, err error) {
		if err == nil {
			err = standby(body)
		}
		answer <- err
	})
	err := wait()
	return err == nil, err
}

var errStandby = errors.New("master does not lead")

func standby(body []byte) error {
	d, err := sparkmsg.Decode(body)
	if err != nil {
		return err
	}
	m, ok := d.Msg.(*sparkmsg.DriverStatusResponse)
	if !ok {
		return errAnswer
	}
	if m.Exception != nil && strings.Contains(m.Exception.Message, "Current state is not alive") {
		return errStandby
	}
	return nil
}
