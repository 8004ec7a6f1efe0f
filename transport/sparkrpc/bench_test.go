package sparkrpc

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// BenchmarkHeartbeat is the path of one heartbeat from the socket to the Handler. The design point is 10,000 workers at
// one heartbeat in 15 s: 667 a second.
func BenchmarkHeartbeat(b *testing.B) {
	s := serve(b, nil)
	var got atomic.Int64
	s.rec.onSend = func(*Conn, Inbound) { got.Add(1) }
	p := dialScript(b, s.addr, workerAddr)
	p.fam = sparkmsg.FamilyE
	frame := p.request(frame.OneWayMessage, 0, "Master", mustEncode(b, heartbeat("worker-20200101000000-127.0.0.1-31001", workerAddr), p.fam))
	b.ReportAllocs()
	sent := int64(0)
	for b.Loop() {
		p.write(frame)
		sent++
	}
	for got.Load() < sent {
		time.Sleep(time.Millisecond)
	}
}

// BenchmarkPush is the path of one push from Send to the socket.
func BenchmarkPush(b *testing.B) {
	s := serve(b, nil)
	p := dialScript(b, s.addr, workerAddr)
	p.ask(1, VerifierEndpoint, &sparkmsg.CheckExistence{Name: "Master"})
	p.mustNext()
	if err := p.nc.SetReadDeadline(time.Time{}); err != nil {
		b.Fatal(err)
	}
	drain(p.nc)
	b.ReportAllocs()
	for b.Loop() {
		s.Send(workerAddr, "Worker", sparkmsg.FamilyE, &sparkmsg.KillExecutor{MasterURL: "spark://m:7077", AppID: "app-20200101000000-0001", ExecID: 1})
		for s.Queued(workerAddr) > 1000 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	for s.Queued(workerAddr) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestIdleConnectionsAreSmall holds the memory of the server side of idle, registered connections down: 1,000 of them
// must leave room in a master of 60 MB.
func TestIdleConnectionsAreSmall(t *testing.T) {
	const n, limit = 500, 20 << 10
	s := serve(t, nil)
	used := func() uint64 {
		runtime.GC()
		runtime.GC() // stacks shrink and pools empty with the second cycle
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	p := &script{t: t, fam: sparkmsg.FamilyB}
	before := used()
	conns := make([]net.Conn, n) // the other ends: a socket each
	for i := range conns {
		nc, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer closeQuietly(nc)
		p.self = frame.Address{Host: "127.0.0.1", Port: int32(40000 + i)}
		if _, err := nc.Write(p.request(frame.OneWayMessage, 0, "Master", mustEncode(t, heartbeat("w", p.self), p.fam))); err != nil {
			t.Fatal(err)
		}
		conns[i] = nc
	}
	eventually(t, "heartbeats", func() bool { return len(s.rec.received()) == n })
	s.rec.mu.Lock()
	s.rec.oneWay, s.rec.conns = nil, nil
	s.rec.mu.Unlock()
	after := used()
	per := (int64(after) - int64(before)) / n
	t.Logf("%d bytes for each idle connection", per)
	if per > limit {
		t.Errorf("%d bytes for each connection, limit %d", per, limit)
	}
}
