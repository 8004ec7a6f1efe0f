package app

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// handler takes what masters and executors send, on the goroutine of their connection. Nothing here waits, so that a
// heartbeat is answered at once.
type handler struct{ a *App }

// OneWay implements sparkrpc.Handler.
func (h handler) OneWay(c *sparkrpc.Conn, in sparkrpc.Inbound) {
	a := h.a
	if in.Endpoint == clientEndpoint {
		h.fromMaster(c, in)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m := in.Msg.(type) {
	case *sparkmsg.LaunchedExecutor:
		if e, err := a.executorOfLocked(c, m.ExecutorID); err != nil {
			a.log.Debug("dropped a message", "message", m.MessageName(), "remote", c.RemoteHost(), "error", err)
		} else {
			a.stepLocked(e, StepLaunched)
		}
	case *sparkmsg.RemoveExecutor:
		a.onRemoveLocked(c, m)
	default:
		a.log.Debug("dropped a message", "message", in.Msg.MessageName(), "endpoint", clip(in.Endpoint), "remote", c.RemoteHost())
	}
}

func (h handler) fromMaster(c *sparkrpc.Conn, in sparkrpc.Inbound) {
	a := h.a
	msg := in.Msg
	switch m := msg.(type) {
	case *sparkmsg.RegisteredApplication:
		a.onRegistered(c, m)
		return
	case *sparkmsg.MasterChanged:
		a.onMasterChanged(c, m)
		return
	}
	if !a.leads(c, in.Sender) {
		if quiet, ok := a.refused.allow(time.Now()); ok {
			a.log.Warn("dropped what is not the leader's word", "message", msg.MessageName(), "sender", in.Sender, "remote", c.RemoteHost(), "not_shown", quiet)
		}
		return
	}
	switch m := msg.(type) {
	case *sparkmsg.ApplicationRemoved:
		a.onRemoved(m)
	case *sparkmsg.ExecutorAdded:
		a.onAdded(m)
	case *sparkmsg.ExecutorUpdated:
		a.onUpdated(m)
	case *sparkmsg.WorkerRemoved:
		a.log.Info("master lost a worker", "worker_id", m.ID, "host", m.Host, "reason", m.Message)
		a.mu.Lock()
		a.eventLocked(Event{Kind: EventWorkerRemoved, Executor: -1, Text: m.ID + ": " + m.Message})
		a.mu.Unlock()
	default:
		a.log.Debug("dropped a message", "message", msg.MessageName(), "endpoint", clientEndpoint, "remote", c.RemoteHost())
	}
}

// leads reports whether a message is of the master that has introduced itself last: a deposed one, or an executor, must not
// end executors or the application.
func (a *App) leads(c *sparkrpc.Conn, sender *frame.Address) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.master == (frame.Address{}) || a.conns[c.ID()] != nil {
		return false
	}
	return c.ID() == a.masterConn || sender != nil && *sender == a.master
}

var errUnsupported = errors.New("unsupported message")

// Ask implements sparkrpc.Handler.
func (h handler) Ask(c *sparkrpc.Conn, in sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	answer, err := h.a.answer(c, in)
	if err != nil {
		if quiet, ok := h.a.refused.allow(time.Now()); ok {
			h.a.log.Warn("refused an ask", "message", in.Msg.MessageName(), "endpoint", clip(in.Endpoint), "remote", c.RemoteHost(),
				"error", err, "not_shown", quiet)
		}
	}
	reply(answer, err)
}

// answer answers by message: which endpoint was addressed adds nothing, and its names grow in number.
func (a *App) answer(c *sparkrpc.Conn, in sparkrpc.Inbound) (sparkmsg.Message, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil {
		return nil, a.ended
	}
	switch m := in.Msg.(type) {
	case *sparkmsg.RetrieveSparkAppConfig:
		return a.onConfigAskedLocked(c, in.Families, m)
	case *sparkmsg.RegisterExecutor:
		return a.onRegisterExecutorLocked(c, m)
	case *sparkmsg.RegisterBlockManager:
		e, err := a.executorOfLocked(c, m.ID.ExecutorID)
		if err != nil {
			return nil, err
		}
		id := m.ID
		id.Graph = nil
		e.BlockManager, e.bmEndpoint = &id, clip(m.Sender.Name)
		a.stepLocked(e, StepBlockManager)
		return &sparkmsg.RegisteredBlockManager{ID: m.ID}, nil
	case *sparkmsg.ExecutorHeartbeat:
		e, err := a.executorOfLocked(c, m.ExecutorID)
		if err != nil {
			return nil, err
		}
		e.Heartbeats++
		e.LastBeat = time.Now()
		a.stepLocked(e, StepHeartbeat)
		return &sparkmsg.HeartbeatResponse{}, nil
	case *sparkmsg.ExecutorDecommissioning:
		e, err := a.executorOfLocked(c, m.ExecutorID)
		if err != nil {
			return nil, err
		}
		e.Stopping = true
		a.log.Info("executor decommissions itself", "executor_id", e.ID)
		return &sparkmsg.Boolean{Value: true}, nil
	}
	return nil, errUnsupported
}

// executorOfLocked returns the executor that has registered on this connection, if its messages carry that id.
func (a *App) executorOfLocked(c *sparkrpc.Conn, id string) (*executor, error) {
	e := a.conns[c.ID()]
	switch {
	case e == nil:
		return nil, errors.New("no executor has registered on this connection")
	case !e.Ended.IsZero():
		return nil, fmt.Errorf("executor %d has ended", e.ID)
	case strconv.Itoa(int(e.ID)) != id:
		return nil, fmt.Errorf("executor %d speaks for executor %s", e.ID, strconv.Quote(clip(id)))
	}
	return e, nil
}

// onConfigAskedLocked answers an executor that starts. It does not say which one it is: the time goes to the oldest
// executor of the same host that has not asked yet, and is put right when it registers.
func (a *App) onConfigAskedLocked(c *sparkrpc.Conn, fams sparkmsg.FamilySet, m *sparkmsg.RetrieveSparkAppConfig) (sparkmsg.Message, error) {
	if !fams.Has(a.cfg.Family) {
		// It could not read the answer, and would wait in silence for another one.
		err := fmt.Errorf("executor is of Spark family %s, the application of family %s", fams, a.cfg.Family)
		if e := a.startingLocked(c.RemoteHost()); e != nil {
			e.lastWords = err.Error()
		}
		return nil, err
	}
	if e := a.startingLocked(c.RemoteHost()); e != nil {
		e.askedFrom = c.RemoteHost()
		a.stepLocked(e, StepConfigAsked)
	}
	return a.executorConfig(m.ResourceProfileID), nil
}

// startingLocked finds the executor that most probably starts at an IP address: one of the worker there, else any.
func (a *App) startingLocked(host string) *executor {
	var best *executor
	here := func(e *executor) bool { return hostOf(e.WorkerAddr) == host }
	for _, e := range a.execs {
		if e.Reached(StepConfigAsked) || e.Reached(StepRegistered) || !e.Ended.IsZero() {
			continue
		}
		switch {
		case best == nil, here(e) && !here(best), here(e) == here(best) && e.ID < best.ID:
			best = e
		}
	}
	return best
}

// fixConfigAskLocked gives an executor that registers the time at which its host asked for the configuration: that time
// may stand in the record of an executor that starts at the same time.
func (a *App) fixConfigAskLocked(e *executor, host string) {
	if e.askedFrom == host {
		return
	}
	var donor *executor
	for _, o := range a.execs {
		if o != e && o.askedFrom == host && !o.Reached(StepRegistered) && (donor == nil || o.Times[StepConfigAsked].Before(donor.Times[StepConfigAsked])) {
			donor = o
		}
	}
	if donor == nil {
		return
	}
	e.askedFrom, donor.askedFrom = donor.askedFrom, e.askedFrom
	e.Times[StepConfigAsked], donor.Times[StepConfigAsked] = donor.Times[StepConfigAsked], e.Times[StepConfigAsked]
}

// onRegisterExecutorLocked admits an executor or says why not (CoarseGrainedSchedulerBackend.receiveAndReply). A refusal
// is a failure: Boolean false would be taken for consent.
func (a *App) onRegisterExecutorLocked(c *sparkrpc.Conn, m *sparkmsg.RegisterExecutor) (sparkmsg.Message, error) {
	number, err := strconv.ParseInt(m.ExecutorID, 10, 32)
	if err != nil || number < 0 {
		return nil, fmt.Errorf("executor id %s is not a number", strconv.Quote(clip(m.ExecutorID)))
	}
	id := int32(number)
	e := a.execs[id]
	switch {
	case a.leaving:
		return nil, errors.New("the application is stopping")
	case a.conns[c.ID()] != nil:
		return nil, errors.New("an executor has registered on this connection already")
	case e != nil && (e.Reached(StepRegistered) || !e.Ended.IsZero()):
		return nil, fmt.Errorf("duplicate executor ID: %d", id)
	}
	ours, err := a.belongsLocked(m)
	if err != nil {
		return nil, err
	}
	if e == nil && !ours {
		return nil, fmt.Errorf("executor %d was not granted to this application", id)
	}
	if e = a.recordLocked(id); e == nil {
		return nil, errors.New("too many executors")
	}
	e.Host, e.Cores, e.ProfileID = clip(m.Hostname), m.Cores, m.ResourceProfileID
	e.LogURLs = map[string]string{}
	for _, l := range m.LogURLs[:min(len(m.LogURLs), 16)] {
		e.LogURLs[clip(l.Key)] = clip(l.Value)
	}
	e.conn, e.Connected = c, true
	a.conns[c.ID()] = e
	c.SetTrusted()
	a.fixConfigAskLocked(e, c.RemoteHost())
	a.log.Info("executor registered", "executor_id", id, "host", e.Host, "remote", c.RemoteHost(), "cores", e.Cores)
	a.stepLocked(e, StepRegistered)
	return &sparkmsg.Boolean{Value: true}, nil
}

// belongsLocked reports whether an executor shows that this App has started it; an error tells that another one has.
func (a *App) belongsLocked(m *sparkmsg.RegisterExecutor) (ours bool, err error) {
	for _, attr := range m.Attributes {
		if attr.Key == runAttribute {
			if attr.Value != a.run {
				return false, errors.New("executor was started for another run of an application")
			}
			ours = true
		}
	}
	for _, l := range m.LogURLs {
		u, err := url.Parse(l.Value)
		if err != nil {
			continue
		}
		if app := u.Query().Get("appId"); app != "" && a.id != "" && app != a.id {
			return false, fmt.Errorf("executor belongs to application %s, this is %s", strconv.Quote(clip(app)), a.id)
		}
	}
	return ours, nil
}

// onRemoveLocked takes an executor's own word that it is of no use: its start failed, or it has been decommissioned. It is
// told to stop, as Spark's drivers do.
func (a *App) onRemoveLocked(c *sparkrpc.Conn, m *sparkmsg.RemoveExecutor) {
	e, err := a.executorOfLocked(c, m.ExecutorID)
	if err != nil {
		a.log.Debug("dropped a message", "message", m.MessageName(), "remote", c.RemoteHost(), "error", err)
		return
	}
	e.lastWords = clip(m.Reason)
	if e.lastWords == "" {
		e.lastWords = clip(m.ReasonClass)
	}
	a.log.Info("executor asks to be removed", "executor_id", e.ID, "reason", e.lastWords)
	a.pushStopLocked(e)
}

// pushStopLocked tells an executor to end, once.
func (a *App) pushStopLocked(e *executor) {
	if e.conn != nil && !e.stopPushed {
		e.stopPushed = true
		e.conn.Push(executorEndpoint, a.cfg.Family, &sparkmsg.StopExecutor{})
	}
}

// Closed implements sparkrpc.Handler.
func (h handler) Closed(c *sparkrpc.Conn, peer frame.Address, last bool) {
	a := h.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.conns[c.ID()]; e != nil {
		delete(a.conns, c.ID())
		a.onExecutorClosedLocked(e)
		return
	}
	if last && a.master != (frame.Address{}) && (peer == a.master || c.ID() == a.masterConn) {
		a.onMasterLostLocked()
	}
}

// noise lets one line a second through, and counts the others: strangers choose how often they are refused.
type noise struct {
	mu    sync.Mutex
	last  time.Time
	quiet int
}

func (n *noise) allow(now time.Time) (quiet int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.last) < time.Second {
		n.quiet++
		return 0, false
	}
	quiet, n.quiet, n.last = n.quiet, 0, now
	return quiet, true
}

const maxText = 512

// clip bounds texts of peers in records and logs.
func clip(s string) string {
	if len(s) > maxText {
		return s[:maxText]
	}
	return s
}
