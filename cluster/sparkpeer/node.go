package sparkpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// Common is what Worker and App have in common. A zero field means its default.
type Common struct {
	Host     string          // own address; 127.0.0.1
	Port     int             // 0: any free port
	Masters  []frame.Address // as in the master URL
	Family   sparkmsg.Family // FamilyB
	Log      hclog.Logger    // none
	Events   int             // events to keep; 4096, negative: none, counts only
	Plain    bool            // no switches for misbehaviour on the connections: less memory
	Resolve  time.Duration   // time-out of CheckExistence("Master"); 120 s as in Spark
	DialTime time.Duration   // time-out of a dial; 5 s
}

func (c *Common) setDefaults() {
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if c.Family == sparkmsg.FamilyUnknown {
		c.Family = sparkmsg.FamilyB
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Events == 0 {
		c.Events = 4096
	}
	orDefault(&c.Resolve, 120*time.Second)
	orDefault(&c.DialTime, 5*time.Second)
}

func orDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// node is a process with a server: its listener, its connections, its timers.
type node struct {
	cfg    Common
	addr   frame.Address
	ln     net.Listener
	ep     *sparkrpc.Endpoint
	events *EventLog
	faults faults

	wg     sync.WaitGroup // listener, timers, exit
	mu     sync.Mutex
	closed bool
}

// open starts listening. handler gets what arrives for the one endpoint of this process.
func (n *node) open(cfg Common, endpoint string, handler sparkrpc.Handler) error {
	n.cfg = cfg
	n.events = newEventLog(max(0, cfg.Events))
	ln, err := net.Listen("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
	if err != nil {
		return fmt.Errorf("sparkpeer: %w", err)
	}
	n.ln = ln
	n.addr = frame.Address{Host: cfg.Host, Port: int32(ln.Addr().(*net.TCPAddr).Port)}
	rpc := sparkrpc.Config{
		Self: n.addr,
		Exists: func(name string) bool {
			return name == endpoint || name == sparkrpc.VerifierEndpoint
		},
		Log: cfg.Log.Named("rpc"),
		// Spark's outbox gives up at the first failed dial (rpc/netty/Outbox.scala).
		Limits: sparkrpc.Limits{GiveUp: time.Nanosecond, Dial: cfg.DialTime},
		Dial:   n.dial,
	}
	if !cfg.Plain {
		rpc.Wrap = n.faults.wrap
	}
	n.ep = sparkrpc.New(rpc, handler)
	n.wg.Go(n.accept)
	return nil
}

// dial connects from the own address, so that loopback peers look like different hosts.
func (n *node) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{}
	if ip := net.ParseIP(n.cfg.Host); ip != nil && ip.IsLoopback() {
		d.LocalAddr = &net.TCPAddr{IP: ip}
	}
	return d.DialContext(ctx, network, addr)
}

func (n *node) accept() {
	for {
		nc, err := n.ln.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				n.cfg.Log.Error("accept failed", "error", err)
			}
			return
		}
		n.wg.Go(func() { n.ep.ServeConn(nc) })
	}
}

// after runs f after d unless the node is closed by then.
func (n *node) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { n.run(f) })
}

// run runs f on the present goroutine, with Close waiting for it; not at all once the node is closed.
func (n *node) run(f func()) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return
	}
	n.wg.Add(1)
	n.mu.Unlock()
	defer n.wg.Done()
	f()
}

// shut closes the listener and all connections without a word, as a killed process does, and waits.
func (n *node) shut() {
	n.mu.Lock()
	first := !n.closed
	n.closed = true
	n.mu.Unlock()
	if first {
		if err := n.ln.Close(); err != nil {
			n.cfg.Log.Debug("close of the listener failed", "error", err)
		}
	}
	n.ep.Close()
	n.wg.Wait()
}

func (n *node) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// did notes an own deed.
func (n *node) did(kind string, peer frame.Address, note string) {
	n.events.add(Event{Kind: kind, From: peer, Note: note})
}

// ref is the reference to an endpoint of this process.
func (n *node) ref(name string) sparkmsg.EndpointRef {
	addr := n.addr
	return sparkmsg.EndpointRef{Name: name, Address: &addr}
}

// resolve does what RpcEnv.setupEndpointRef does: it asks whether the endpoint Master exists, then calls found.
func (n *node) resolve(master frame.Address, found func()) {
	n.ep.Ask(master, sparkrpc.VerifierEndpoint, n.cfg.Family, &sparkmsg.CheckExistence{Name: "Master"}, n.cfg.Resolve,
		func(answer sparkmsg.Message, err error) {
			if b, ok := answer.(*sparkmsg.Boolean); err == nil && ok && b.Value {
				found()
				return
			}
			n.cfg.Log.Debug("master not found", "master", master, "error", err)
		})
}

// Address returns the listening address.
func (n *node) Address() frame.Address { return n.addr }

// Log returns the event log.
func (n *node) Log() *EventLog { return n.events }

// Faults returns the switches for misbehaviour. They have no effect on a Plain peer.
func (n *node) Faults() *Faults { return &n.faults.Faults }

// Stats returns the counters of the transport.
func (n *node) Stats() sparkrpc.Stats { return n.ep.Stats() }

// CutConnection closes all connections with one master, as a broken network does; the listener stays.
func (n *node) CutConnection(master frame.Address) { n.ep.CloseConn(master, "cut") }

// errUnsupported refuses an ask that these endpoints do not know (B-002).
var errUnsupported = errors.New("unsupported message")
