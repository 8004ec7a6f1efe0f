package sparkrpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"raftmaster/transport/frame"
)

// errSelfConnect is a dial that met itself: on a free local port the kernel may connect a socket to itself.
var errSelfConnect = errors.New("sparkrpc: connected to itself, nobody listens there")

// dialQueue holds the peers to dial. First dials go before retries, and retries may take half of the slots only, so
// that peers that never answer do not hold up the others for long. Guarded by Endpoint.mu.
type dialQueue struct {
	fresh, retry     []*peer
	running, retries int // dials under way; of them, retries
}

// dialLocked asks for a connection to a peer.
func (e *Endpoint) dialLocked(p *peer) {
	if p.dialing || e.closed {
		return
	}
	p.dialing, p.since, p.fails, p.absent = true, time.Now(), 0, true
	e.dials.fresh = append(e.dials.fresh, p)
	e.startDialsLocked()
}

func (e *Endpoint) startDialsLocked() {
	d := &e.dials
	for d.running < e.limits.MaxDials {
		var p *peer
		retry := false
		switch {
		case len(d.fresh) > 0:
			p, d.fresh = d.fresh[0], d.fresh[1:]
		case len(d.retry) > 0 && d.retries < max(1, e.limits.MaxDials/2):
			p, d.retry = d.retry[0], d.retry[1:]
			retry = true
		default:
			return
		}
		if p.q.len() == 0 || p.live() != nil {
			p.dialing = false
			e.kickLocked(p)
			e.reapLocked(p)
			continue
		}
		if !e.spawnLocked(func() { e.dialPeer(p, retry) }) {
			return
		}
		d.running++
		if retry {
			d.retries++
		}
	}
}

// dialPeer makes one attempt to connect to a peer.
func (e *Endpoint) dialPeer(p *peer, retry bool) {
	e.stats.dials.Add(1)
	ctx, cancel := context.WithTimeout(e.ctx, e.limits.Dial)
	nc, err := e.connect(ctx, p.addr)
	cancel()
	e.mu.Lock()
	e.dials.running--
	if retry {
		e.dials.retries--
	}
	var gaveUp int
	switch {
	case err != nil:
		gaveUp = e.dialFailedLocked(p, err)
	default:
		p.dialing = false
		if p.live() == nil && !e.closed {
			c := e.newConnLocked(nc, remoteHost(nc))
			c.SetTrusted() // a peer is dialled because it has registered
			e.attachLocked(c, p)
			e.wg.Add(1)
			go e.run(c)
			e.countConn(1)
			nc = nil
		}
	}
	e.kickLocked(p)
	e.reapLocked(p)
	e.startDialsLocked()
	e.mu.Unlock()
	if nc != nil {
		if err := nc.Close(); err != nil {
			e.cfg.Log.Debug("close of a surplus connection failed", "peer", p.addr, "error", err)
		}
	}
	if err != nil {
		e.stats.dialFailures.Add(1)
		e.logDial(p.addr, gaveUp, err)
	}
}

// dialFailedLocked arranges the next attempt, or gives up. It returns how many messages were dropped.
func (e *Endpoint) dialFailedLocked(p *peer, err error) (dropped int) {
	now := time.Now()
	if p.since.IsZero() {
		p.since, p.absent = now, true
	}
	p.absent = p.absent && refused(err)
	patience := e.limits.GiveUp
	if p.absent {
		patience = min(patience, e.limits.GiveUpAbsent)
	}
	if now.Sub(p.since) >= patience {
		p.dialing = false
		dropped = p.q.len()
		e.finishLaterLocked(e.dropLocked(p, "unreachable"), fmt.Errorf("%w: the peer cannot be reached: %w", ErrDropped, err))
		return dropped
	}
	pause := min(e.limits.DialMin<<min(p.fails, 16), e.limits.DialMax)
	pause = pause/2 + rand.N(pause/2+1)
	p.fails++
	time.AfterFunc(pause, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.closed {
			return
		}
		e.dials.retry = append(e.dials.retry, p)
		e.startDialsLocked()
	})
	return 0
}

func (e *Endpoint) logDial(addr frame.Address, dropped int, err error) {
	if dropped > 0 {
		if e.lines.allow(addr.String(), "unreachable") {
			e.cfg.Log.Warn("peer cannot be reached: dropped its outbox", "peer", addr, "messages", dropped, "error", err)
		}
		return
	}
	if e.lines.allow(addr.String(), "dial") {
		e.cfg.Log.Debug("dial failed", "peer", addr, "error", err)
	}
}

// connect dials an advertised address. Names are resolved anew each time.
func (e *Endpoint) connect(ctx context.Context, addr frame.Address) (net.Conn, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(addr.Host, "["), "]") // Spark keeps the brackets of IPv6 hosts
	nc, err := e.cfg.Dial(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(addr.Port))))
	if err != nil {
		return nil, err
	}
	local, remote := nc.LocalAddr(), nc.RemoteAddr()
	if local != nil && remote != nil && local.String() == remote.String() && local.Network() == "tcp" {
		return nil, errors.Join(errSelfConnect, nc.Close())
	}
	return nc, nil
}

// refused reports whether a failed dial says that nobody listens there.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errSelfConnect)
}

// underlyingTCP finds the TCP connection under layers, for socket options.
func underlyingTCP(nc net.Conn) *net.TCPConn {
	for range 8 {
		if tcp, ok := plainTCP(nc); ok {
			return tcp
		}
		layered, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = layered.NetConn()
	}
	return nil
}
