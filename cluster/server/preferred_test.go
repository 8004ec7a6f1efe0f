package server

import (
	"net/netip"
	"testing"

	"raftmaster/cluster/config"
)

func TestPreferredKnowsTheAddressesOfTheList(t *testing.T) {
	p := newPreferred([]config.Address{{Host: "127.5.5.1", Port: 7077}, {Host: "::1", Port: 7077}, {Host: "localhost", Port: 7077},
		{Host: "no-such-host.invalid", Port: 7077}})
	if p.has(netip.MustParseAddr("127.5.5.1")) {
		t.Error("an address is known before it was looked up")
	}
	p.resolve(t.Context())
	for _, ip := range []string{"127.5.5.1", "::ffff:127.5.5.1", "::1", "127.0.0.1"} {
		if !p.has(netip.MustParseAddr(ip)) {
			t.Errorf("%s is not known", ip)
		}
	}
	if p.has(netip.MustParseAddr("127.5.5.2")) {
		t.Error("a stranger is known")
	}
}
