package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

const (
	// followRetry is the pause before a lost stream is opened again.
	followRetry = time.Second
	// followSilence ends a stream on which not even the blank keep-alive lines arrive any more.
	followSilence = 35 * time.Second
	maxEventLine  = 1 << 20
)

func (a *app) eventsCommand() *cobra.Command {
	follow := false
	cmd := a.verb("events", "Show what happened: leader changes with their reason, workers, applications", func(ctx context.Context) error {
		if follow {
			return a.followEvents(ctx)
		}
		return a.events(ctx)
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on showing events as they happen, one JSON object per line with -o json")
	return cmd
}

// eventsResult is the JSON of "events".
type eventsResult struct {
	Events []webui.Event    `json:"events"`
	Errors []endpointResult `json:"errors"`
}

// events joins the histories of all masters by time.
func (a *app) events(ctx context.Context) error {
	answers := askAll[webui.EventsAnswer](ctx, a.client, "/v1/events")
	res := eventsResult{Events: []webui.Event{}, Errors: []endpointResult{}}
	for _, x := range answers {
		if x.err != nil {
			res.Errors = append(res.Errors, endpointResult{Endpoint: x.endpoint, Error: shortError(x.err)})
			continue
		}
		for _, e := range x.value.Events {
			if e.Node == "" {
				e.Node = x.value.Node
			}
			res.Events = append(res.Events, e)
		}
	}
	if len(res.Errors) == len(answers) {
		return nobodyError(a.client.survey(ctx))
	}
	slices.SortStableFunc(res.Events, func(x, y webui.Event) int { return int(x.TimeMillis - y.TimeMillis) })
	err := a.print.value(res, func(w io.Writer) {
		row(w, "TIME", "MASTER", "TERM", "KIND", "SUBJECT", "EVENT")
		for _, e := range res.Events {
			row(w, eventCells(e)...)
		}
	})
	if err == nil && len(res.Errors) > 0 {
		return coded(exitUnhealthy, "%d of %d endpoints did not answer: %s (%s)", len(res.Errors), len(answers), res.Errors[0].Endpoint, res.Errors[0].Error)
	}
	return err
}

func eventCells(e webui.Event) []any {
	text := e.Message
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if e.Actor != "" {
		text += " by " + e.Actor
	}
	return []any{stamp(e.TimeMillis), e.Node, e.Term, e.Kind, e.Subject, text}
}

// followEvents streams from all endpoints until the caller interrupts. It ends by itself only when no endpoint ever
// answered.
func (a *app) followEvents(ctx context.Context) error {
	var first error
	if s := a.client.survey(ctx); len(s.answered()) == 0 {
		first = nobodyError(s)
	}
	if first != nil {
		return first
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // one line at a time
	for _, endpoint := range a.client.endpoints {
		wg.Add(1)
		go func() {
			defer wg.Done()
			a.followOne(ctx, endpoint, &mu)
		}()
	}
	wg.Wait()
	return nil
}

func (a *app) followOne(ctx context.Context, endpoint string, mu *sync.Mutex) {
	after, failed, boot := uint64(0), false, ""
	for ctx.Err() == nil {
		var st webui.Status
		err := a.client.get(ctx, endpoint, "/v1/status", &st)
		if err == nil && st.BootID != boot {
			// Another process answers there now, whose events are numbered from 1 again.
			after, boot = 0, st.BootID
		}
		if err == nil {
			err = a.followStream(ctx, endpoint, &after, &failed, mu)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			failed = true
			mu.Lock()
			a.note("%s: %s; trying again", endpoint, shortError(err))
			mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(followRetry):
		}
	}
}

// followStream prints one stream until it ends.
func (a *app) followStream(ctx context.Context, endpoint string, after *uint64, failed *bool, mu *sync.Mutex) error {
	return a.stream(ctx, endpoint, *after, func(e webui.Event) {
		*failed, *after = false, e.Seq
		mu.Lock()
		defer mu.Unlock()
		a.printEvent(e)
	})
}

func (a *app) printEvent(e webui.Event) {
	if a.print.json {
		line, err := json.Marshal(e)
		if err != nil {
			a.note("cannot encode an event: %v", err)
			return
		}
		fmt.Fprintf(a.term.out, "%s\n", line)
		return
	}
	var b bytes.Buffer
	row(&b, eventCells(e)...)
	fmt.Fprint(a.term.out, string(bytes.ReplaceAll(b.Bytes(), []byte("\t"), []byte("  "))))
}

// stream reads one followed stream until it ends. A stream that is silent for too long is cut.
func (a *app) stream(ctx context.Context, endpoint string, after uint64, each func(webui.Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(a.timeout, cancel)
	defer silence.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/v1/events?follow&after="+strconv.FormatUint(after, 10), nil)
	if err != nil {
		return err
	}
	resp, err := a.client.send(req)
	if err != nil {
		return err
	}
	return errors.Join(readEvents(resp, silence, each), resp.Body.Close())
}

func readEvents(resp *http.Response, silence *time.Timer, each func(webui.Event)) error {
	if resp.StatusCode != http.StatusOK {
		return errors.New("HTTP status " + resp.Status)
	}
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
