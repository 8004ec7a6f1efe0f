package server

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"raftmaster/cluster/config"
)

const (
	// resolveEvery is how often the names of the cluster list are looked up again.
	resolveEvery = time.Minute
	// resolveTimeout bounds one look-up.
	resolveTimeout = 5 * time.Second
)

// preferred knows the IP addresses of the cluster list: when strangers crowd the cluster port, those are spared.
type preferred struct {
	hosts []string
	ips   atomic.Pointer[map[netip.Addr]bool]
}

func newPreferred(list []config.Address) *preferred {
	p := &preferred{}
	for _, a := range list {
		p.hosts = append(p.hosts, a.Host)
	}
	return p
}

// has is asked in the accept loop: it only looks at what is known.
func (p *preferred) has(ip netip.Addr) bool {
	known := p.ips.Load()
	return known != nil && (*known)[ip.Unmap().WithZone("")]
}

// run keeps the addresses up to date until the context ends. A name that cannot be resolved keeps nobody out: its master
// is then treated as everybody else.
func (p *preferred) run(ctx context.Context) {
	tick := time.NewTicker(resolveEvery)
	defer tick.Stop()
	for {
		p.resolve(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *preferred) resolve(ctx context.Context) {
	found := map[netip.Addr]bool{}
	for _, host := range p.hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			found[ip.Unmap().WithZone("")] = true
			continue
		}
		lookup, cancel := context.WithTimeout(ctx, resolveTimeout)
		ips, err := net.DefaultResolver.LookupNetIP(lookup, "ip", host)
		cancel()
		if err != nil {
			continue
		}
		for _, ip := range ips {
			found[ip.Unmap().WithZone("")] = true
		}
	}
	p.ips.Store(&found)
}
