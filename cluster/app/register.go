package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// Start registers with all masters and returns when the leader has accepted the application, or with ErrNoMaster, or
// when ctx ends. ctx bounds the registration only. After an error the App must be closed.
func (a *App) Start(ctx context.Context) error {
	a.mu.Lock()
	switch {
	case a.ended != nil:
		defer a.mu.Unlock()
		return a.ended
	case a.started:
		a.mu.Unlock()
		return errors.New("app: already started")
	}
	a.started = true
	a.mu.Unlock()
	a.log.Info("registering application with all masters", "name", a.desc.Name, "masters", len(a.masters), "driver", a.DriverURL(),
		"family", a.cfg.Family)
	for attempt := 1; attempt <= a.cfg.Timers.RegisterTries; attempt++ {
		a.attempt(attempt)
		registered, err := a.waitRegistered(ctx, a.cfg.Timers.RegisterEvery)
		if registered || err != nil {
			return err
		}
		a.log.Warn("no master has accepted the application yet", "attempt", attempt, "of", a.cfg.Timers.RegisterTries)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.id != "" {
		return nil
	}
	err := fmt.Errorf("%w: %w after %d attempts", ErrEnded, ErrNoMaster, a.cfg.Timers.RegisterTries)
	a.endLocked(err)
	return err
}

// attempt asks every master at once whether it is one, and registers with those that are. An attempt that is over does
// not register any more (in StandaloneAppClient its threads are cancelled), nor one that finds the application
// registered: otherwise the leader could be asked twice.
func (a *App) attempt(number int) {
	a.mu.Lock()
	a.attempts = number
	a.mu.Unlock()
	for _, m := range a.masters {
		a.log.Debug("looking for a master", "master", m, "attempt", number)
		a.ep.Ask(m, sparkrpc.VerifierEndpoint, a.cfg.Family, &sparkmsg.CheckExistence{Name: masterEndpoint}, a.cfg.Timers.Ask,
			func(answer sparkmsg.Message, err error) {
				if b, ok := answer.(*sparkmsg.Boolean); err != nil || !ok || !b.Value {
					a.log.Debug("no master there", "master", m, "error", err)
					return
				}
				a.mu.Lock()
				wanted := a.attempts == number && a.id == "" && a.ended == nil
				a.mu.Unlock()
				if wanted {
					a.log.Debug("asking a master to register the application", "master", m)
					a.ep.Send(m, masterEndpoint, a.cfg.Family, &sparkmsg.RegisterApplication{
						AppDescription: a.desc, Driver: sparkmsg.EndpointRef{Name: clientEndpoint, Address: &a.self}})
				}
			})
	}
}

func (a *App) waitRegistered(ctx context.Context, d time.Duration) (bool, error) {
	expired := time.NewTimer(d)
	defer expired.Stop()
	for {
		a.mu.Lock()
		registered, ended, changed := a.id != "", a.ended, a.changed
		a.mu.Unlock()
		switch {
		case registered:
			return true, nil
		case ended != nil:
			return false, ended
		}
		select {
		case <-changed:
		case <-expired.C:
			return false, nil
		case <-ctx.Done():
			return false, fmt.Errorf("app: registration: %w", ctx.Err())
		}
	}
}

// onRegistered takes the leader's answer. The id that came first stays. Spark's client takes the last one (a FIXME in
// StandaloneAppClient), and then waits with an id that its executors do not have; here a second registration, which a
// late attempt can cause, is undone.
func (a *App) onRegistered(c *sparkrpc.Conn, m *sparkmsg.RegisteredApplication) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.AppID == "" || m.Master.Address == nil || a.ended != nil {
		return
	}
	if a.id != "" && m.AppID != a.id {
		a.log.Warn("a master registered the application a second time: unregistering that", "app_id", m.AppID, "kept", a.id,
			"master", *m.Master.Address)
		a.ep.Send(*m.Master.Address, masterEndpoint, a.cfg.Family, &sparkmsg.UnregisterApplication{AppID: m.AppID})
		return
	}
	first := a.id == ""
	a.id = m.AppID
	a.setMasterLocked(c, *m.Master.Address)
	if first {
		a.log.Info("application registered", "app_id", a.id, "master", a.master)
		a.eventLocked(Event{Kind: EventRegistered, Executor: -1, Text: a.id})
	}
	a.changeLocked()
}

// setMasterLocked notes who leads, and on which connection it said so.
func (a *App) setMasterLocked(c *sparkrpc.Conn, master frame.Address) {
	c.SetTrusted()
	if a.master != master || !a.masterUp {
		a.masterGen++
	}
	a.master, a.masterConn, a.masterUp = master, c.ID(), true
}

// onMasterChanged follows a new leader and acknowledges with the id. Before the first RegisteredApplication there is
// none: the new leader knows of us by a registration whose answer was lost, and will answer the next attempt.
func (a *App) onMasterChanged(c *sparkrpc.Conn, m *sparkmsg.MasterChanged) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.Master.Address == nil || a.ended != nil {
		return
	}
	a.setMasterLocked(c, *m.Master.Address)
	a.log.Info("master has changed", "master", a.master, "app_id", a.id)
	a.ep.Send(a.master, masterEndpoint, a.cfg.Family, &sparkmsg.MasterChangeAcknowledged{AppID: a.id})
	a.eventLocked(Event{Kind: EventMasterChanged, Executor: -1})
	a.changeLocked()
}

// onMasterLostLocked notes that the connection of the leader has ended. Nobody registers again: an application waits for
// MasterChanged without limit.
func (a *App) onMasterLostLocked() {
	if !a.masterUp {
		return
	}
	a.masterUp = false
	a.log.Warn("connection to the master lost: waiting for a new leader", "master", a.master, "app_id", a.id)
	a.eventLocked(Event{Kind: EventMasterLost, Executor: -1})
	a.changeLocked()
}

func (a *App) onRemoved(m *sparkmsg.ApplicationRemoved) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log.Error("master removed the application", "app_id", a.id, "state", m.Message)
	a.endLocked(fmt.Errorf("%w: master removed it: %s", ErrEnded, m.Message))
}
