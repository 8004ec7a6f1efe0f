package sparkrpc

import (
	"time"

	"raftmaster/transport/frame"
)

// Limits bounds what peers and queues may cost. A zero field means its default.
type Limits struct {
	MaxConns        int // accepted connections in total; 32768
	MaxConnsPerHost int // accepted connections of one remote IP address; 4096

	MaxFrame           int   // frame bytes before SetTrusted; 1 MiB
	MaxTrustedFrame    int   // frame bytes after SetTrusted; 16 MiB
	MaxPartialBytes    int64 // bytes of incomplete frames held for all connections together; 128 MiB
	MaxOpenRequests    int   // asks of one connection that the Handler has not answered yet; 8192
	MaxReplyQueueBytes int   // encoded answers waiting on one connection; 8 MiB

	MaxQueue      int // messages queued for one peer; 16384
	MaxQueueBytes int // estimated bytes queued for one peer; 32 MiB
	MaxAsks       int // our asks to one peer without an outcome; 4096

	MaxDials int // concurrent dials, retries limited to half of them; 256

	FirstFrame time.Duration // from accept to the end of the first complete frame; 10 s
	Frame      time.Duration // from the first to the last byte of any frame; 60 s
	Write      time.Duration // one batch of at most 64 KiB; 10 s
	Dial       time.Duration // one dial; 5 s
	DialMin    time.Duration // first pause after a failed dial, doubled each time; 100 ms
	DialMax    time.Duration // longest pause between dials; 5 s
	GiveUp     time.Duration // undeliverable queues are dropped after this time; 30 s
	// GiveUpAbsent is the same where every dial was refused, so that nobody listens there; never more than GiveUp; 5 s.
	// A thousand workers that leave together leave a message in each queue for each application that ends.
	GiveUpAbsent time.Duration

	KeepAliveIdle     time.Duration // TCP keep-alive: silence before the first probe; 30 s
	KeepAliveInterval time.Duration // between probes; 10 s
	KeepAliveCount    int           // unanswered probes that close the connection; 3
	UserTimeout       time.Duration // TCP_USER_TIMEOUT: sent data unacknowledged for so long closes the connection; 30 s
}

// maxBatch is the size in bytes at which a batch of pushes or answers is written.
const maxBatch = 64 << 10

func (l Limits) withDefaults() Limits {
	ints := []struct {
		p *int
		d int
	}{
		{&l.MaxConns, 32768}, {&l.MaxConnsPerHost, 4096},
		{&l.MaxFrame, frame.DefaultMax}, {&l.MaxTrustedFrame, frame.RegisteredMax},
		{&l.MaxOpenRequests, 8192}, {&l.MaxReplyQueueBytes, 8 << 20},
		{&l.MaxQueue, 16384}, {&l.MaxQueueBytes, 32 << 20}, {&l.MaxAsks, 4096},
		{&l.MaxDials, 256}, {&l.KeepAliveCount, 3},
	}
	for _, f := range ints {
		if *f.p == 0 {
			*f.p = f.d
		}
	}
	durations := []struct {
		p *time.Duration
		d time.Duration
	}{
		{&l.FirstFrame, 10 * time.Second}, {&l.Frame, time.Minute}, {&l.Write, 10 * time.Second},
		{&l.Dial, 5 * time.Second}, {&l.DialMin, 100 * time.Millisecond}, {&l.DialMax, 5 * time.Second},
		{&l.GiveUp, 30 * time.Second}, {&l.GiveUpAbsent, 5 * time.Second}, {&l.KeepAliveIdle, 30 * time.Second},
		{&l.KeepAliveInterval, 10 * time.Second}, {&l.UserTimeout, 30 * time.Second},
	}
	for _, f := range durations {
		if *f.p == 0 {
			*f.p = f.d
		}
	}
	if l.MaxPartialBytes == 0 {
		l.MaxPartialBytes = 128 << 20
	}
	return l
}
