package load

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

const (
	retryPause = time.Second
	// registerEvery is when a RegisterWorker without an answer is sent again; Spark's workers take 5 to 15 s.
	registerEvery = 5 * time.Second
)

// worker plays one Spark worker.
type worker struct {
	*peer
	id         string
	registered atomic.Bool
	heartbeat  atomic.Pointer[[]byte] // the whole frame

	mu      sync.Mutex
	pending []func(error) // who waits for the answer to RegisterWorker
	execs   map[execKey]launch
	drivers map[string]bool
}

type execKey struct {
	app string
	id  int32
}

func (w *worker) registration(to frame.Address) ([]byte, error) {
	content, err := sparkmsg.Encode(&sparkmsg.RegisterWorker{
		ID: w.id, Host: w.addr.Host, Port: w.addr.Port, Worker: w.ref(), Cores: w.h.cfg.Cores, Memory: w.h.cfg.MemoryMB,
		WorkerWebUIURL: "http://" + w.addr.String(), MasterAddress: to,
	}, w.h.codec.fam)
	if err != nil {
		return nil, err
	}
	return request(w.addr, to, "Master", 0, content), nil
}

// register sends a RegisterWorker frame; done is called once, unless the master never answers.
func (w *worker) register(b []byte, done func(error)) {
	c, _, ok := w.live()
	if !ok {
		done(errClosed)
		return
	}
	w.mu.Lock()
	w.pending = append(w.pending, done)
	w.mu.Unlock()
	if err := c.write(b); err != nil {
		w.answered(err)
		return
	}
	time.AfterFunc(registerEvery, func() { w.repeat(b) })
}

// repeat registers once more if there was no answer yet, as a worker of Spark's does.
func (w *worker) repeat(b []byte) {
	w.mu.Lock()
	waiting := len(w.pending) > 0
	w.mu.Unlock()
	if c := w.current.Load(); waiting && c != nil && !w.h.leaving.Load() {
		w.h.failed("registration without an answer")
		if c.write(b) == nil {
			time.AfterFunc(registerEvery, func() { w.repeat(b) })
		}
	}
}

func (w *worker) answered(err error) {
	w.mu.Lock()
	waiting := w.pending
	w.pending = nil
	w.mu.Unlock()
	for _, f := range waiting {
		f(err)
	}
}

func (w *worker) message(c *conn, name string, content []byte) error {
	switch name {
	case "LaunchExecutor":
		return w.launch(content)
	case "ApplicationFinished":
		return nil
	case "ReconnectWorker":
		w.h.failed("asked to reconnect")
		w.again()
		return nil
	}
	d, err := sparkmsg.Decode(content)
	if err != nil {
		w.h.failed("message not understood")
		return nil
	}
	switch m := d.Msg.(type) {
	case *sparkmsg.RegisteredWorker:
		w.follow(c, m.Master)
		if err := w.newHeartbeat(); err != nil {
			return err
		}
		w.registered.Store(true) // from now on others send the heartbeat
		w.answered(nil)
		return w.hello(c)
	case *sparkmsg.RegisterWorkerFailed:
		w.answered(errors.New("registration refused: " + m.Message))
	case *sparkmsg.MasterInStandby:
		w.answered(errStandby)
	case *sparkmsg.MasterChanged:
		w.h.failed("leader changed")
		w.follow(c, m.Master)
		if err := w.newHeartbeat(); err != nil {
			return err
		}
		w.registered.Store(true)
		return w.list(c)
	case *sparkmsg.KillExecutor:
		w.end(execKey{m.AppID, m.ExecID}, sparkmsg.ExecutorKilled)
	case *sparkmsg.LaunchDriver:
		w.mu.Lock()
		if w.drivers == nil {
			w.drivers = map[string]bool{}
		}
		w.drivers[m.DriverID] = true
		w.mu.Unlock()
		w.h.drivers.Add(1)
	case *sparkmsg.KillDriver:
		return w.endDriver(m.DriverID)
	}
	return nil
}

func (w *worker) newHeartbeat() error {
	_, to, ok := w.live()
	if !ok {
		return nil // lost again meanwhile
	}
	content, err := sparkmsg.Encode(&sparkmsg.Heartbeat{WorkerID: w.id, Worker: w.ref()}, w.h.codec.fam)
	if err != nil {
		return err
	}
	b := request(w.addr, to, "Master", 0, content)
	w.heartbeat.Store(&b)
	return nil
}

// hello is what follows a RegisteredWorker: the list of what runs, and the first heartbeat.
func (w *worker) hello(c *conn) error {
	state := &sparkmsg.WorkerLatestState{ID: w.id}
	w.mu.Lock()
	for k, l := range w.execs {
		state.Executors = append(state.Executors, describe(k, l))
	}
	for id := range w.drivers {
		state.DriverIDs = append(state.DriverIDs, id)
	}
	w.mu.Unlock()
	if told, err := w.tell(c, state); !told {
		return err
	}
	return w.beat()
}

// list answers MasterChanged.
func (w *worker) list(c *conn) error {
	state := &sparkmsg.WorkerSchedulerStateResponse{ID: w.id}
	w.mu.Lock()
	for k, l := range w.execs {
		state.ExecResponses = append(state.ExecResponses, sparkmsg.WorkerExecutorStateResponse{Desc: describe(k, l)})
	}
	for id := range w.drivers {
		state.DriverResponses = append(state.DriverResponses, sparkmsg.WorkerDriverStateResponse{DriverID: id})
	}
	w.mu.Unlock()
	_, err := w.tell(c, state)
	return err
}

// tell sends its master a message on a connection of its; told is false where it was lost again meanwhile.
func (w *worker) tell(c *conn, msg sparkmsg.Message) (told bool, err error) {
	content, err := sparkmsg.Encode(msg, w.h.codec.fam)
	if err != nil {
		return false, err
	}
	_, to, ok := w.live()
	if !ok {
		return false, nil
	}
	err = c.send(to, content)
	return err == nil, err
}

func describe(k execKey, l launch) sparkmsg.ExecutorDescription {
	return sparkmsg.ExecutorDescription{AppID: k.app, ExecID: k.id, RPID: l.rp, Cores: l.cores, MemoryMB: l.memory, State: sparkmsg.ExecutorRunning}
}

// beat sends one heartbeat.
func (w *worker) beat() error {
	b, c := w.heartbeat.Load(), w.current.Load()
	if b == nil || c == nil {
		return errClosed
	}
	if err := c.write(*b); err != nil {
		return err
	}
	w.h.heartbeats.Add(1)
	return nil
}

// launch starts an executor, which is RUNNING at once.
func (w *worker) launch(content []byte) error {
	l, err := w.h.codec.launch(content)
	if err != nil {
		w.h.failed("launch not understood")
		return nil
	}
	if m := w.master.Load(); m == nil || l.masterURL != "spark://"+m.String() {
		w.h.failed("launch by a wrong master")
		return nil
	}
	key := execKey{l.app, l.id}
	w.mu.Lock()
	_, twice := w.execs[key]
	if w.execs == nil {
		w.execs = map[execKey]launch{}
	}
	w.execs[key] = l
	w.mu.Unlock()
	if twice {
		w.h.failed("launched twice")
		return nil
	}
	w.h.launches.Add(1)
	table := w.h.table(l.app)
	table.launched()
	w.report(key, sparkmsg.ExecutorRunning, func(err error) {
		if err != nil {
			if !w.h.leaving.Load() {
				w.h.failed("state report: " + kind(err))
			}
			return
		}
		w.h.running.Add(1)
		table.runs(execRef{w, l.id})
	})
	return nil
}

// end ends an executor and reports it.
func (w *worker) end(key execKey, state sparkmsg.ExecutorState) {
	w.mu.Lock()
	_, ok := w.execs[key]
	delete(w.execs, key)
	w.mu.Unlock()
	if !ok {
		return
	}
	w.report(key, state, func(err error) {
		if err != nil && !w.h.leaving.Load() {
			w.h.failed("state report: " + kind(err))
		}
	})
	w.h.ended.Add(1)
}

// report asks the master to take a state; the answer must be true.
func (w *worker) report(key execKey, state sparkmsg.ExecutorState, done func(error)) {
	content, err := w.h.codec.report(key.app, key.id, state)
	if err != nil {
		done(err)
		return
	}
	start, reports := time.Now(), w.h.reports.Load()
	w.ask(content, func(body []byte, err error) {
		if err == nil && !bytes.Equal(body, w.h.yes) {
			err = errAnswer
		}
		if err == nil && reports != nil {
			reports.done(start)
		}
		done(err)
	})
}

func (w *worker) endDriver(id string) error {
	w.mu.Lock()
	_, ok := w.drivers[id]
	delete(w.drivers, id)
	w.mu.Unlock()
	if !ok {
		return nil
	}
	content, err := sparkmsg.Encode(&sparkmsg.DriverStateChanged{DriverID: id, State: sparkmsg.DriverKilled}, w.h.codec.fam)
	if err != nil {
		return err
	}
	return w.send(content)
}

func (w *worker) lostMaster() {
	w.registered.Store(false)
	w.answered(errClosed)
	w.again()
}

// again registers once more, at whichever master leads by then, until it succeeds or a master has called meanwhile.
func (w *worker) again() {
	w.registered.Store(false)
	w.h.wg.Go(func() {
		for !w.registered.Load() && !w.h.leaving.Load() {
			select {
			case <-time.After(retryPause):
			case <-w.h.ctx.Done():
				return
			}
			if w.registered.Load() {
				return
			}
			if err := w.registerOnce(); err != nil {
				w.h.cfg.Log.Debug("registration failed", "worker", w.id, "error", err)
			}
		}
	})
}

func (w *worker) registerOnce() error {
	to, err := w.h.currentLeader()
	if err != nil {
		return err
	}
	answer := make(chan error, 2)
	if _, _, ok := w.live(); !ok {
		w.dial(to, func(err error) { answer <- err })
		if err := wait(w.h, answer); err != nil {
			return err
		}
	}
	b, err := w.registration(to)
	if err != nil {
		return err
	}
	w.register(b, func(err error) { answer <- err })
	return wait(w.h, answer)
}

func wait(h *hub, answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	case <-time.After(h.cfg.Timeout):
		return fmt.Errorf("no answer within %s", h.cfg.Timeout)
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
}
