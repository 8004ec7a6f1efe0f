package node

import (
	"errors"
	"sync"
	"testing"

	"raftmaster/transport/raftnet"
)

// slow marks a test that is left out under -short: it waits for many time-outs, or brings about what seldom happens.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test waits for many time-outs")
	}
}

// network is what lies between the nodes of a test: who is cut off from whom, by address.
type network struct {
	mu    sync.Mutex
	cut   map[string]bool
	hooks map[string]func(kind string) error     // incoming, by address
	out   map[string]func(to, kind string) error // outgoing, by address; to is a node id
	ids   map[string]string                      // node id -> address
}

var errCut = errors.New("cut off by the test")

// isolate cuts addresses off from all others; none heals everything.
func (w *network) isolate(addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(map[string]bool)
	for _, a := range addrs {
		w.cut[a] = true
	}
}

func (w *network) onDeliver(addr string, f func(kind string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hooks[addr] = f
}

func (w *network) onSendTo(addr string, f func(to, kind string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out[addr] = f
}

func (w *network) check(from, to string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if from != to && (w.cut[from] || w.cut[to]) {
		return errCut
	}
	return nil
}

func (w *network) faults() raftnet.Faults {
	return raftnet.Faults{
		Dial: w.check,
		RPC: func(from, to, kind string) error {
			w.mu.Lock()
			a, b := w.ids[from], w.ids[to]
			f := w.out[a]
			w.mu.Unlock()
			if err := w.check(a, b); err != nil {
				return err
			}
			if f != nil {
				return f(to, kind)
			}
			return nil
		},
		Deliver: func(to, kind string) error {
			w.mu.Lock()
			f := w.hooks[to]
			w.mu.Unlock()
			if f == nil {
				return nil
			}
			return f(kind)
		},
	}
}
