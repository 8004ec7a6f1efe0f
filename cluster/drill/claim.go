package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"raftmaster/transport/webui"
)

const (
	// claimTTL is how long the masters wait for a renewal before they end what a drill has left behind; claimEvery is how
	// often it is renewed.
	claimTTL   = 6 * time.Second
	claimEvery = time.Second
	// releaseLimit bounds the end of a drill that was interrupted.
	releaseLimit = 5 * time.Second
)

// claims are those of a drill on all masters. They are renewed until release.
type claims struct {
	d       *runner
	members []Master
	stop    context.CancelFunc
	done    chan struct{}
}

// claim takes the claims of all masters, or none.
func (d *runner) claim(ctx context.Context, members []Master) (*claims, error) {
	errs := make([]error, len(members))
	each(len(members), func(i int) { errs[i] = d.renew(ctx, members[i]) })
	if err := errors.Join(errs...); err != nil {
		d.release(members)
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &claims{d: d, members: members, stop: stop, done: make(chan struct{})}
	go c.keep(ctx)
	return c, nil
}

func (d *runner) renew(ctx context.Context, m Master) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	_, err := post[webui.DrillStatus](ctx, d.cfg.Client, m.WebURL, "/v1/drill/claim",
		webui.DrillClaimRequest{Drill: d.id, By: d.cfg.By, TTLMillis: claimTTL.Milliseconds()})
	if err != nil {
		return fmt.Errorf("%s: %w", m.Address, err)
	}
	return nil
}

// keep renews. A master that is down gets its claim when it is there again: a restart forgets it.
func (c *claims) keep(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	busy := make([]chan struct{}, len(c.members)) // one renewal at a time for each master: a stopped one holds up no other
	for i := range busy {
		busy[i] = make(chan struct{}, 1)
	}
	for {
		select {
		case <-ctx.Done():
			for _, b := range busy {
				b <- struct{}{} // the last renewals have ended
			}
			return
		case <-tick.C:
		}
		for i, m := range c.members {
			select {
			case busy[i] <- struct{}{}:
				go func() {
					defer func() { <-busy[i] }()
					_ = c.d.renew(context.WithoutCancel(ctx), m) // a master that is down is what drills are about
				}()
			default:
			}
		}
	}
}

// release ends the renewals and gives the claims back, which ends what is left of a fault. It gives the masters that
// did not hear of it.
func (c *claims) release() []string {
	c.stop()
	<-c.done
	return c.d.release(c.members)
}

func (d *runner) release(members []Master) []string {
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	errs := make([]string, len(members))
	each(len(members), func(i int) {
		_, err := post[webui.DrillStatus](ctx, d.cfg.Client, members[i].WebURL, "/v1/drill/release", webui.DrillReleaseRequest{Drill: d.id})
		// A process that is gone has taken its claim with it.
		if err != nil && !isCode(err, webui.CodeRefused) && !errors.Is(err, syscall.ECONNREFUSED) {
			errs[i] = fmt.Sprintf("%s did not hear that the drill is over (%v); it ends what is left by itself within %s", members[i].Address, err, claimTTL)
		}
	})
	var out []string
	for _, e := range errs {
		if strings.TrimSpace(e) != "" {
			out = append(out, e)
		}
	}
	return out
}

// inject begins a fault on a master, or ends it. The claim is renewed first: a master that was restarted has forgotten it.
func (d *runner) inject(ctx context.Context, m Master, req webui.DrillFaultRequest) (webui.DrillStatus, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if req.Kind != webui.DrillEnd {
		if err := d.renew(ctx, m); err != nil {
			return webui.DrillStatus{}, time.Time{}, err
		}
	}
	req.Drill = d.id
	st, err := post[webui.DrillStatus](ctx, d.cfg.Client, m.WebURL, "/v1/drill/"+req.Kind, req)
	return st, time.Now().Add(time.Duration(st.BeginsInMillis) * time.Millisecond), err
}
