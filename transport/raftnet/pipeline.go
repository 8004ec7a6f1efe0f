package raftnet

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipeline passes a raft pipeline through and notes when each request was sent, so that pipelined appends renew the
// lease like others.
type pipeline struct {
	t     *Transport
	peer  raft.ServerID
	inner raft.AppendPipeline

	mu   sync.Mutex
	sent map[*raft.AppendEntriesRequest]time.Duration

	out    chan raft.AppendFuture
	closed chan struct{}
	once   sync.Once
	err    error
}

func newPipeline(t *Transport, peer raft.ServerID, inner raft.AppendPipeline) *pipeline {
	p := &pipeline{
		t: t, peer: peer, inner: inner, sent: make(map[*raft.AppendEntriesRequest]time.Duration),
		out: make(chan raft.AppendFuture), closed: make(chan struct{}),
	}
	t.done.Add(1)
	go p.forward()
	return p
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if err := p.t.before(p.peer, "AppendEntries"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.sent[args] = p.t.cfg.Now()
	p.mu.Unlock()
	f, err := p.inner.AppendEntries(args, resp)
	if err != nil {
		p.take(args)
	}
	return f, err
}

func (p *pipeline) take(args *raft.AppendEntriesRequest) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent, ok := p.sent[args]
	delete(p.sent, args)
	return sent, ok
}

func (p *pipeline) forward() {
	defer p.t.done.Done()
	for {
		select {
		case f := <-p.inner.Consumer():
			sent, ok := p.take(f.Request())
			if ok && f.Error() == nil {
				p.t.acked(p.peer, sent, f.Request(), f.Response())
			}
			select {
			case p.out <- f:
			case <-p.closed:
				return
			case <-p.t.closed:
				p.abandon()
				return
			}
		case <-p.closed:
			return
		case <-p.t.closed:
			p.abandon()
			return
		}
	}
}

// abandon ends the pipeline when the transport closes: its sender may be waiting for room, which only a consumer makes,
// and raft closes a pipeline only after its sender has returned.
func (p *pipeline) abandon() {
	if err := p.Close(); err != nil {
		p.t.cfg.Logger.Debug("pipeline ended with the transport", "peer", p.peer, "error", err)
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.out }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() {
		close(p.closed)
		p.err = p.inner.Close()
	})
	return p.err
}
