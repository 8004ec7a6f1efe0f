package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
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
	histories := a.histories(ctx, a.client.endpoints)
	res := eventsResult{Events: []webui.Event{}, Errors: []endpointResult{}}
	for _, x := range histories {
		if x.err != nil {
			res.Errors = append(res.Errors, endpointResult{Endpoint: x.endpoint, Error: shortError(x.err)})
			continue
		}
		res.Events = append(res.Events, x.events...)
	}
	if len(res.Errors) == len(histories) {
		return nobodyError(a.client.survey(ctx))
	}
	sortEvents(res.Events)
	err := a.print.value(res, func(w io.Writer) {
		row(w, "TIME", "MASTER", "TERM", "KIND", "SUBJECT", "EVENT")
		for _, e := range res.Events {
			row(w, eventCells(e)...)
		}
	})
	if err == nil && len(res.Errors) > 0 {
		return coded(exitUnhealthy, "%d of %d endpoints did not answer: %s (%s)", len(res.Errors), len(histories), res.Errors[0].Endpoint, res.Errors[0].Error)
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

// sortEvents orders by time; what happened in one millisecond on one master keeps its order.
func sortEvents(events []webui.Event) {
	slices.SortStableFunc(events, func(x, y webui.Event) int { return cmp.Compare(x.TimeMillis, y.TimeMillis) })
}

// maxHistoryPages bounds the answers that are asked for: a master remembers a few thousand events.
const maxHistoryPages = 100

// history is what one master remembers.
type history struct {
	endpoint string
	// boot names the process whose events these are; the endpoint, where the master does not say.
	boot   string
	events []webui.Event
	err    error
}

// histories asks every endpoint for all that it remembers; the answers are in the order of the endpoints.
func (a *app) histories(ctx context.Context, endpoints []string) []history {
	out := make([]history, len(endpoints))
	var wg sync.WaitGroup
	for i, e := range endpoints {
		wg.Go(func() { out[i] = a.history(ctx, e) })
	}
	wg.Wait()
	return out
}

// history reads page by page; events that are dropped meanwhile are missing at its beginning.
func (a *app) history(ctx context.Context, endpoint string) history {
	h := history{endpoint: endpoint}
	after := uint64(0)
	for range maxHistoryPages {
		page, boot, err := a.eventsPage(ctx, endpoint, after, h.boot)
		if err != nil {
			h.err = err
			return h
		}
		if boot != h.boot && h.boot != "" {
			h.events = nil // another process answers there by now
		}
		h.boot = boot
		if len(page) == 0 {
			return h
		}
		h.events = append(h.events, page...)
		after = page[len(page)-1].Seq
	}
	return h
}

func (a *app) eventsPage(ctx context.Context, endpoint string, after uint64, boot string) (events []webui.Event, now string, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	path := eventsPath(endpoint, after, boot, false)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+path, nil)
	if err != nil {
		return nil, "", err
	}
	resp, err := a.client.send(req)
	if err != nil {
		return nil, "", err
	}
	var v webui.EventsAnswer
	if err := errors.Join(decode(resp, path, &v), resp.Body.Close()); err != nil {
		return nil, "", err
	}
	for i := range v.Events {
		if v.Events[i].Node == "" {
			v.Events[i].Node = v.Node
		}
	}
	return v.Events, bootOf(resp, endpoint), nil
}

// bootOf names the process that answers.
func bootOf(resp *http.Response, endpoint string) string {
	if boot := resp.Header.Get(webui.EventsBoot); boot != "" {
		return boot
	}
	return endpoint
}

// eventsPath asks for the events behind one of a process, or all of those of another process.
func eventsPath(endpoint string, after uint64, boot string, follow bool) string {
	path := "/v1/events?after=" + strconv.FormatUint(after, 10)
	if follow {
		path += "&follow"
	}
	if boot != "" && boot != endpoint {
		path += "&boot=" + url.QueryEscape(boot)
	}
	return path
}
