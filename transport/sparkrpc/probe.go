package sparkrpc

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// probeJob is one Probe that waits for its turn.
type probeJob struct {
	to      frame.Address
	name    string
	timeout time.Duration
	done    func(ProbeResult)
}

// probeQueue bounds the probes under way. Guarded by Endpoint.mu.
type probeQueue struct {
	waiting []probeJob
	running int
}

func (q *probeQueue) takeAll() []probeJob {
	jobs := q.waiting
	q.waiting = nil
	return jobs
}

// Probe asks CheckExistence(name) on a fresh connection to an advertised address, and closes it. It carries no sender
// address, so that the peer does not take the end of this connection for the loss of its master. The timeout counts
// from the dial; at most Limits.MaxDials probes run at once, others wait. done runs on a goroutine of the Endpoint. The
// family of the peer need not be known.
func (e *Endpoint) Probe(to frame.Address, name string, timeout time.Duration, done func(ProbeResult)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		go done(ProbeUnreachable)
		return
	}
	e.probes.waiting = append(e.probes.waiting, probeJob{to, name, timeout, done})
	e.startProbesLocked()
}

func (e *Endpoint) startProbesLocked() {
	q := &e.probes
	for q.running < e.limits.MaxDials && len(q.waiting) > 0 {
		job := q.waiting[0]
		q.waiting = q.waiting[1:]
		fams := []sparkmsg.Family{sparkmsg.FamilyB, sparkmsg.FamilyE} // one of each Scala line
		if fam := e.familyLocked(job.to); fam != sparkmsg.FamilyUnknown {
			fams = []sparkmsg.Family{fam}
			for _, other := range []sparkmsg.Family{sparkmsg.FamilyB, sparkmsg.FamilyE} {
				if (other < sparkmsg.FamilyC) != (fam < sparkmsg.FamilyC) {
					fams = append(fams, other) // another release may have taken the port
				}
			}
		}
		if !e.spawnLocked(func() { e.runProbe(job, fams) }) {
			return
		}
		q.running++
	}
}

// familyLocked is the family in which a peer is asked first. What its open connections speak counts before what is
// remembered of closed ones: a JVM that is asked in another Scala line's words logs an error with its stack.
func (e *Endpoint) familyLocked(addr frame.Address) sparkmsg.Family {
	if p := e.peers[addr]; p != nil {
		for _, c := range slices.Backward(p.conns) {
			if fam := c.Families().Lowest(); fam != sparkmsg.FamilyUnknown {
				return fam
			}
		}
	}
	return e.families[addr]
}

func (e *Endpoint) runProbe(job probeJob, fams []sparkmsg.Family) {
	result, err := e.probe(job, fams)
	e.cfg.Log.Debug("probed", "peer", job.to, "endpoint", job.name, "result", result, "error", err)
	e.mu.Lock()
	e.probes.running--
	e.startProbesLocked()
	e.mu.Unlock()
	job.done(result)
}

func (e *Endpoint) probe(job probeJob, fams []sparkmsg.Family) (result ProbeResult, err error) {
	deadline := time.Now().Add(job.timeout)
	ctx, cancel := context.WithDeadline(e.ctx, deadline)
	defer cancel()
	raw, err := e.connect(ctx, job.to)
	if err != nil {
		if refused(err) {
			return ProbeRefused, err
		}
		return ProbeUnreachable, err
	}
	stop := context.AfterFunc(ctx, func() { closeQuietly(raw) })
	defer func() {
		stop()
		closeQuietly(raw)
	}()
	if err := raw.SetDeadline(deadline); err != nil {
		return ProbeUnreachable, err
	}
	nc := raw
	if e.cfg.Wrap != nil {
		if nc, err = e.cfg.Wrap(raw); err != nil {
			return ProbeUnreachable, err
		}
	}
	in := frame.NewReader(bufio.NewReaderSize(nc, 512))
	for _, fam := range fams {
		exists, answered, err := probeOnce(nc, in, job, fam)
		switch {
		case err != nil:
			return ProbeUnreachable, err
		case answered && exists:
			return ProbeTrue, nil
		case answered:
			return ProbeFalse, nil
		}
	}
	return ProbeUnreachable, fmt.Errorf("sparkrpc: %s understands no CheckExistence", job.to)
}

// probeOnce asks in the words of one family. answered is false when the peer reports a failure: another family's class.
func probeOnce(nc net.Conn, in *frame.Reader, job probeJob, fam sparkmsg.Family) (exists, answered bool, err error) {
	content, err := sparkmsg.Encode(&sparkmsg.CheckExistence{Name: job.name}, fam)
	if err != nil {
		return false, false, err
	}
	id := requestID()
	req := frame.Request{Receiver: &job.to, Endpoint: VerifierEndpoint, Content: content}
	if _, err := nc.Write(appendRequest(nil, frame.RPCRequest, id, req)); err != nil {
		return false, false, err
	}
	for {
		f, err := in.Next()
		if err != nil {
			return false, false, err
		}
		if f.RequestID != id {
			continue // a peer may ask on any connection; this one ends at once
		}
		switch f.Type {
		case frame.RPCFailure:
			return false, false, nil
		case frame.RPCResponse:
			decoded, err := decodeSafely(f.Body)
			if err != nil {
				return false, false, err
			}
			b, ok := decoded.Msg.(*sparkmsg.Boolean)
			if !ok {
				return false, false, nil // an RpcFailure object
			}
			return b.Value, true, nil
		}
	}
}

// closeQuietly closes a connection that may be closed already.
func closeQuietly(nc net.Conn) {
	_ = nc.Close() // nothing was promised on it: there is nothing to do about an error
}
