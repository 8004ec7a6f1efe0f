package uibase

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Places bounds what runs at once, in all and for one caller's address, so that nobody takes all of it. A caller who
// holds his share waits in his own queue, and not in everybody's.
type Places struct {
	all   chan struct{}
	perIP int

	mu   sync.Mutex
	byIP map[string]*share
}

// share is the part of one address. It exists while somebody holds or wants a place.
type share struct {
	places chan struct{}
	users  int
}

func NewPlaces(all, perIP int) *Places {
	return &Places{all: make(chan struct{}, all), perIP: perIP, byIP: make(map[string]*share)}
}

// Take gets a place for ip, waiting for up to wait; false when there is none. A place that was taken must be given back.
func (p *Places) Take(ctx context.Context, ip string, wait time.Duration) bool {
	own := p.enter(ip)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	if acquire(ctx, own.places, timer) {
		if acquire(ctx, p.all, timer) {
			return true
		}
		<-own.places
	}
	p.leave(ip, own)
	return false
}

// acquire puts one element into c; a free place is taken even when no time is left.
func acquire(ctx context.Context, c chan struct{}, timer *time.Timer) bool {
	select {
	case c <- struct{}{}:
		return true
	default:
	}
	select {
	case c <- struct{}{}:
		return true
	case <-timer.C:
		timer.Reset(0) // for the next one who asks it
	case <-ctx.Done():
	}
	return false
}

// Give returns a place that Take has given to ip.
func (p *Places) Give(ip string) {
	p.mu.Lock()
	own := p.byIP[ip]
	p.mu.Unlock()
	<-p.all
	<-own.places
	p.leave(ip, own)
}

func (p *Places) enter(ip string) *share {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.byIP[ip]
	if own == nil {
		own = &share{places: make(chan struct{}, p.perIP)}
		p.byIP[ip] = own
	}
	own.users++
	return own
}

func (p *Places) leave(ip string, own *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(p.byIP, ip)
	}
}

// Held is the number of places taken.
func (p *Places) Held() int { return len(p.all) }

// CallerIP is the address of the connection; what a header says of another one is the caller's own claim.
func CallerIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
