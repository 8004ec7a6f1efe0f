package sparkrpc

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// Heartbeats that are recognised by their bytes reach the Handler as decoded ones do: in order with what is between
// them, each with its own worker id, and whole when they come in pieces or many at once.
func TestHeartbeatsThatComeAgainAreWhatTheySay(t *testing.T) {
	s := serve(t, nil)
	var mu sync.Mutex
	var got []string
	s.rec.onSend = func(_ *Conn, in Inbound) {
		mu.Lock()
		defer mu.Unlock()
		switch m := in.Msg.(type) {
		case *sparkmsg.Heartbeat:
			got = append(got, fmt.Sprint(m.WorkerID, " ", in.Families, " ", in.Endpoint, " ", *in.Sender))
		default:
			got = append(got, m.MessageName())
		}
	}
	p := dialScript(t, s.addr, workerAddr)
	p.fam = sparkmsg.FamilyB
	beat := func(id string) []byte {
		return p.request(frame.OneWayMessage, 0, "Master", mustEncode(t, heartbeat(id, workerAddr), p.fam))
	}
	other := p.request(frame.OneWayMessage, 0, "Master", mustEncode(t, &sparkmsg.UnregisterApplication{AppID: "x"}, p.fam))
	one, two := beat("worker-1"), beat("worker-2")
	var want []string
	send := func(b []byte, names ...string) {
		p.write(b)
		want = append(want, names...)
	}
	said := func(id string) string { return fmt.Sprint(id, " B Master ", workerAddr) }
	send(one, said("worker-1"))
	send(one, said("worker-1"))
	send(two, said("worker-2"))
	send(one, said("worker-1"))
	send(slices.Concat(one, one, other, one, two, two), said("worker-1"), said("worker-1"), "UnregisterApplication", said("worker-1"), said("worker-2"), said("worker-2"))
	send(two[:len(two)-1])
	send(slices.Concat(two[len(two)-1:], one[:7]), said("worker-2"))
	send(one[7:], said("worker-1"))
	p.ask(1, VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
	p.mustNext() // everything before it was handled
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// A frame that differs from the last heartbeat in one byte is decoded anew: here its class is not known.
func TestAFrameThatIsAlmostTheLastHeartbeatIsDecoded(t *testing.T) {
	s := serve(t, nil)
	p := dialScript(t, s.addr, workerAddr)
	p.fam = sparkmsg.FamilyB
	one := p.request(frame.OneWayMessage, 0, "Master", mustEncode(t, heartbeat("worker-1", workerAddr), p.fam))
	p.write(one)
	p.write(one)
	for _, at := range []int{len(one) - 1, len(one) / 2, 90} {
		bad := slices.Clone(one)
		bad[at] ^= 0x40
		p.write(bad)
	}
	p.ask(1, VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
	p.mustNext()
	var refused uint64
	for _, n := range s.Stats().DecodeErrors {
		refused += n
	}
	if refused == 0 {
		t.Errorf("no damaged frame was refused: %+v", s.Stats())
	}
}

// A shortcut takes the same heartbeat again, alone, until it declines; what else comes, and what is decoded anew, reaches the
// Handler in order.
func TestAShortcutTakesHeartbeatsThatComeAgain(t *testing.T) {
	s := serve(t, nil)
	var mu sync.Mutex
	var handled []string
	var noted int
	willing := true
	note := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if willing {
			noted++
		}
		return willing
	}
	s.rec.onSend = func(c *Conn, in Inbound) {
		mu.Lock()
		defer mu.Unlock()
		m := in.Msg.(*sparkmsg.Heartbeat)
		handled = append(handled, m.WorkerID)
		if m.WorkerID == "worker-1" {
			c.OnRepeat(m, note)
		}
	}
	p := dialScript(t, s.addr, workerAddr)
	p.fam = sparkmsg.FamilyB
	id := int64(0)
	send := func(worker string) {
		t.Helper()
		before := s.Stats().FramesIn
		p.write(p.request(frame.OneWayMessage, 0, "Master", mustEncode(t, heartbeat(worker, workerAddr), p.fam)))
		for s.Stats().FramesIn == before {
			time.Sleep(time.Millisecond) // so that each comes alone
		}
		id++
		p.ask(id, VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
		p.mustNext()
	}
	expect := func(wantNoted int, want ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if noted != wantNoted || !slices.Equal(handled, want) {
			t.Fatalf("noted %d, want %d; handled %q, want %q", noted, wantNoted, handled, want)
		}
	}
	send("worker-1")
	expect(0, "worker-1")
	send("worker-1")
	send("worker-1")
	expect(2, "worker-1")
	send("worker-2") // no shortcut is for it
	send("worker-2")
	expect(2, "worker-1", "worker-2", "worker-2")
	send("worker-1")
	send("worker-1")
	expect(3, "worker-1", "worker-2", "worker-2", "worker-1")
	mu.Lock()
	willing = false
	mu.Unlock()
	send("worker-1")
	expect(3, "worker-1", "worker-2", "worker-2", "worker-1", "worker-1")
}

// A peer's last heartbeat and the end of its connection may arrive together, as one event.
func TestAConnectionThatEndsRightBehindAHeartbeatIsNoticed(t *testing.T) {
	s := serve(t, nil)
	s.rec.onSend = func(c *Conn, in Inbound) { c.OnRepeat(in.Msg, func() bool { return true }) }
	const peers = 200
	for n := range peers {
		p := dialScript(t, s.addr, workerAddr)
		p.fam = sparkmsg.FamilyB
		beat := p.request(frame.OneWayMessage, 0, "Master", mustEncode(t, heartbeat("worker-1", workerAddr), p.fam))
		p.write(beat)
		p.ask(1, VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
		p.mustNext()
		p.write(beat)
		closeQuietly(p.nc)
		for end := time.Now().Add(20 * time.Second); len(s.rec.closed()) <= n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the end of connection %d is not noticed", n)
			}
		}
	}
}
