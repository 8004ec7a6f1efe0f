package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"raftmaster/transport/webui"
)

const (
	// followRetry is the pause before a lost stream is opened again.
	followRetry = time.Second
	// followSilence ends a stream on which not even the blank keep-alive lines arrive any more.
	followSilence = 35 * time.Second
	// followDiscover is how often it is looked whether there are masters that are not followed yet.
	followDiscover = 5 * time.Second
	maxEventLine   = 1 << 20
)

// feed joins the streams of all masters. An event is printed once, through however many endpoints its master is
// followed: the events of a process are numbered, and each stream is in order.
type feed struct {
	a *app

	mu sync.Mutex
	// seen is the number of the last event that was printed, by process.
	seen map[string]uint64
	// followed holds the endpoints with a goroutine.
	followed map[string]bool
	wg       sync.WaitGroup
}

// followEvents prints what the masters remember, in the order of time, and then what happens, until the caller
// interrupts. Members that no endpoint was given for are followed as well, those that join later included. It ends by
// itself only when no endpoint answers at the beginning.
func (a *app) followEvents(ctx context.Context) error {
	s := a.client.survey(ctx)
	if len(s.answered()) == 0 {
		return nobodyError(s)
	}
	f := &feed{a: a, seen: make(map[string]uint64), followed: make(map[string]bool)}
	histories := a.histories(ctx, withMembers(a.client.endpoints, s))
	f.begin(histories)
	for _, h := range histories {
		f.follow(ctx, h)
	}
	f.discover(ctx)
	f.wg.Wait()
	return nil
}

// begin prints the histories as one.
func (f *feed) begin(histories []history) {
	var all []webui.Event
	for _, h := range histories {
		if n := len(h.events); h.err == nil && n > 0 && f.seen[h.boot] == 0 { // two endpoints may be one master's
			f.seen[h.boot] = h.events[n-1].Seq
			all = append(all, h.events...)
		}
	}
	sortEvents(all)
	for _, e := range all {
		f.a.printEvent(e)
	}
}

// follow begins to follow an endpoint behind what is known of it.
func (f *feed) follow(ctx context.Context, h history) {
	if f.followed[h.endpoint] {
		return
	}
	f.followed[h.endpoint] = true
	f.wg.Go(func() { f.followOne(ctx, h) })
}

// discover looks for members that nobody follows, until the caller interrupts.
func (f *feed) discover(ctx context.Context) {
	tick := time.NewTicker(followDiscover)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s := f.a.client.survey(ctx)
		if s.best() == nil {
			continue
		}
		for _, e := range withMembers(f.a.client.endpoints, s) {
			f.follow(ctx, history{endpoint: e})
		}
	}
}

// followOne keeps one stream open, again and again.
func (f *feed) followOne(ctx context.Context, h history) {
	failed := false
	if h.err != nil {
		failed = true
		f.note("%s: %s; trying again", h.endpoint, shortError(h.err))
	}
	for ctx.Err() == nil {
		err := f.stream(ctx, h.endpoint, &h.boot, func() {
			if failed {
				f.note("%s answers again", h.endpoint)
			}
			failed = false
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			failed = true
			f.note("%s: %s; trying again", h.endpoint, shortError(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(followRetry):
		}
	}
}

func (f *feed) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.a.note(format, args...)
}

// stream reads one followed stream until it ends. A stream that is silent for too long is cut. boot is the process whose
// events are known, and becomes the one that answers.
func (f *feed) stream(ctx context.Context, endpoint string, boot *string, opened func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(f.a.timeout, cancel)
	defer silence.Stop()
	f.mu.Lock()
	path := eventsPath(endpoint, f.seen[*boot], *boot, true)
	f.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+path, nil)
	if err != nil {
		return err
	}
	resp, err := f.a.client.send(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.Join(decode(resp, path, nil), resp.Body.Close())
	}
	*boot = bootOf(resp, endpoint)
	opened()
	return errors.Join(readEvents(resp, silence, func(e webui.Event) { f.take(*boot, e) }), resp.Body.Close())
}

// take prints an event unless it was printed before, and tells of those that its master has dropped meanwhile.
func (f *feed) take(boot string, e webui.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.seen[boot]
	if e.Seq <= last {
		return
	}
	if last > 0 && e.Seq > last+1 {
		f.a.note("%d events of %s are missing here: it no longer remembers them", e.Seq-last-1, clean(e.Node))
	}
	f.seen[boot] = e.Seq
	f.a.printEvent(e)
}

func readEvents(resp *http.Response, silence *time.Timer, each func(webui.Event)) error {
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4096), maxEventLine)
	silence.Reset(followSilence)
	for lines.Scan() {
		silence.Reset(followSilence)
		if len(lines.Bytes()) == 0 {
			continue
		}
		var e webui.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("this is no event: %w", err)
		}
		each(e)
	}
	return lines.Err()
}
