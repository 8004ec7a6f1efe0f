package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// RequestExecutors sets how many executors the application wants in all, by resource profile id; 0 is the default
// profile. It is asked again at another leader until ctx ends, because setting a total twice changes nothing.
func (a *App) RequestExecutors(ctx context.Context, total map[int32]int32) error {
	ids := make([]int32, 0, len(total))
	for id, n := range total {
		if n < 0 {
			return fmt.Errorf("app: a total of %d executors", n)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	totals := make([]sparkmsg.ProfileTotal, len(ids))
	a.mu.Lock()
	for i, id := range ids {
		profile := sparkmsg.ResourceProfile{ID: id}
		if id == a.desc.DefaultProfile.ID {
			profile = a.desc.DefaultProfile
		}
		totals[i] = sparkmsg.ProfileTotal{Profile: profile, Total: total[id]}
		a.profiles[id] = true
	}
	a.mu.Unlock()
	a.log.Debug("asking the master for executors", "total", total)
	return a.ask(ctx, func(id string) sparkmsg.Message {
		return &sparkmsg.RequestExecutors{AppID: id, ResourceProfileToTotalExecs: totals}
	})
}

// KillExecutors asks the master to end executors. It is asked again at another leader until ctx ends: ids are not used
// twice. The total stays, so the master starts others unless it was lowered before. A master tells nothing of the end of
// executors that it killed this way: they count as KILLED, without an exit status, when their connection has ended.
func (a *App) KillExecutors(ctx context.Context, ids []int32) error {
	if len(ids) == 0 {
		return nil
	}
	names := make([]string, len(ids))
	a.mu.Lock()
	for i, id := range ids {
		names[i] = strconv.Itoa(int(id))
		if e := a.execs[id]; e != nil {
			e.Stopping = true
		}
	}
	a.mu.Unlock()
	a.log.Debug("asking the master to kill executors", "ids", ids)
	err := a.ask(ctx, func(id string) sparkmsg.Message { return &sparkmsg.KillExecutors{AppID: id, ExecutorIDs: names} })
	if err == nil {
		a.onKilled(ids)
	}
	return err
}

// onKilled notes which executors the master has killed. It forgets them at once, and so tells nothing of their end
// (Master.handleKillExecutors): those that are connected end with their connection, the others now.
func (a *App) onKilled(ids []int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		e := a.execs[id]
		if e == nil || !e.Ended.IsZero() {
			continue
		}
		e.killed = true
		if e.conn == nil {
			a.finishKilledLocked(e)
		}
	}
}

func (a *App) finishKilledLocked(e *executor) {
	e.State = sparkmsg.ExecutorKilled
	a.finishLocked(e, "killed by the master as it was asked to")
}

type outcome struct {
	answer sparkmsg.Message
	err    error
}

// ask asks the leader what may be asked twice, until one has answered. A leader that goes away while it is asked is
// given up as soon as there is another.
func (a *App) ask(ctx context.Context, build func(id string) sparkmsg.Message) error {
	var last error
	for {
		a.mu.Lock()
		id, to, gen, ended := a.id, a.master, a.masterGen, a.ended
		a.mu.Unlock()
		switch {
		case ended != nil:
			return ended
		case id == "" || to == (frame.Address{}):
			return ErrNotRegistered
		case ctx.Err() != nil:
			return askFailed(ctx, last)
		}
		msg := build(id)
		o := a.askOnce(ctx, to, masterEndpoint, msg, gen)
		switch b, isBool := o.answer.(*sparkmsg.Boolean); {
		case o.err == nil && isBool && b.Value:
			return nil
		case o.err == nil && isBool:
			return fmt.Errorf("%w %s: %s answered false", ErrRefused, msg.MessageName(), to)
		case o.err == nil:
			return fmt.Errorf("app: %s answered %s with %s", to, msg.MessageName(), o.answer.MessageName())
		case ctx.Err() != nil:
			return askFailed(ctx, last)
		case errors.Is(o.err, errMoved):
			continue
		}
		last = fmt.Errorf("%s of %s: %w", msg.MessageName(), to, o.err)
		a.log.Debug("ask failed: trying again", "message", msg.MessageName(), "master", to, "error", o.err)
		if err := a.sleep(ctx, a.cfg.Timers.AskRetry); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func askFailed(ctx context.Context, last error) error {
	if last == nil {
		return fmt.Errorf("app: %w", ctx.Err())
	}
	return fmt.Errorf("app: %w; last attempt: %w", ctx.Err(), last)
}

// errMoved is the outcome of an ask that was given up because another master leads now.
var errMoved = errors.New("app: another master leads")

// askOnce asks and waits for the answer, for a newer master than generation gen, for the end of ctx or for that of the
// application.
func (a *App) askOnce(ctx context.Context, to frame.Address, endpoint string, msg sparkmsg.Message, gen int) outcome {
	got := make(chan outcome, 1)
	a.ep.Ask(to, endpoint, a.cfg.Family, msg, a.cfg.Timers.Ask, func(m sparkmsg.Message, err error) { got <- outcome{m, err} })
	for {
		a.mu.Lock()
		moved, changed, ended := a.masterGen != gen, a.changed, a.ended
		a.mu.Unlock()
		switch {
		case ended != nil:
			return outcome{err: ended}
		case moved:
			return outcome{err: errMoved}
		}
		select {
		case o := <-got:
			return o
		case <-changed:
		case <-ctx.Done():
			return outcome{err: ctx.Err()}
		}
	}
}
