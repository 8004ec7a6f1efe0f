package sparkpeer

import (
	"fmt"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

type execKey struct {
	app string
	id  int32
}

func (k execKey) String() string { return fmt.Sprintf("%s/%d", k.app, k.id) }

// executor is a pretended executor.
type executor struct {
	key       execKey
	rp        int32
	cores     int32
	memory    int32
	state     sparkmsg.ExecutorState
	resources []sparkmsg.ResourceInformation
	timer     *time.Timer
}

func (e *executor) description() sparkmsg.ExecutorDescription {
	return sparkmsg.ExecutorDescription{AppID: e.key.app, ExecID: e.key.id, RPID: e.rp, Cores: e.cores, MemoryMB: e.memory, State: e.state}
}

// driver is a pretended driver.
type driver struct {
	desc      *sparkmsg.DriverDescription
	resources []sparkmsg.ResourceInformation
	timer     *time.Timer
}

// Executors returns how the executors are that have not ended, by "app/id".
func (w *Worker) Executors() map[string]sparkmsg.ExecutorState {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[string]sparkmsg.ExecutorState, len(w.execs))
	for k, e := range w.execs {
		out[k.String()] = e.state
	}
	return out
}

// Drivers returns the ids of the drivers that have not ended.
func (w *Worker) Drivers() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]string, 0, len(w.drivers))
	for id := range w.drivers {
		out = append(out, id)
	}
	return out
}

// CoresUsed returns the cores of the executors and drivers that have not ended.
func (w *Worker) CoresUsed() int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var n int32
	for _, e := range w.execs {
		n += e.cores
	}
	for _, d := range w.drivers {
		if d.desc != nil {
			n += d.desc.Cores
		}
	}
	return n
}

// wrongMaster reports whether a message names another master than ours (B-047). It is called with w.mu held.
func (w *Worker) wrongMaster(url string) bool {
	return w.master == nil || url != "spark://"+w.master.String()
}

func (w *Worker) onLaunchExecutor(from frame.Address, m *sparkmsg.LaunchExecutor) {
	key := execKey{m.AppID, m.ExecID}
	w.mu.Lock()
	var refuse string
	switch {
	case w.wrongMaster(m.MasterURL):
		refuse = "invalid master " + m.MasterURL
	case w.decommission:
		refuse = "decommissioned"
	case w.Switches.NoRun.Load():
		refuse = "switched off"
	}
	if refuse != "" {
		w.mu.Unlock()
		w.did(DidRefuse, from, refuse+": launch "+key.String())
		return
	}
	_, duplicate := w.execs[key]
	e := &executor{key: key, rp: m.RPID, cores: m.Cores, memory: m.Memory, resources: m.Resources}
	w.execs[key] = e
	e.timer = w.after(w.cfg.StartTime, func() { w.executorRuns(e) })
	w.mu.Unlock()
	w.counters.Launches.Add(1)
	if duplicate {
		w.counters.Duplicates.Add(1)
		w.did(DidDuplicate, from, key.String())
	}
	w.did(DidLaunch, from, key.String())
}

func (w *Worker) executorRuns(e *executor) {
	w.mu.Lock()
	if w.execs[e.key] != e {
		w.mu.Unlock()
		return
	}
	e.state = sparkmsg.ExecutorRunning
	if w.cfg.RunTime > 0 {
		e.timer = w.after(w.cfg.RunTime, func() { w.EndExecutor(e.key.app, e.key.id, w.cfg.ExitCode) })
	}
	w.mu.Unlock()
	w.report(&sparkmsg.ExecutorStateChanged{AppID: e.key.app, ExecID: e.key.id, State: sparkmsg.ExecutorRunning}, 1)
}

// EndExecutor lets an executor exit by itself with a status.
func (w *Worker) EndExecutor(app string, id, status int32) {
	message := fmt.Sprintf("Command exited with code %d", status)
	w.endExecutor(execKey{app, id}, sparkmsg.ExecutorExited, &message, &status)
}

func (w *Worker) onKillExecutor(from frame.Address, m *sparkmsg.KillExecutor) {
	key := execKey{m.AppID, m.ExecID}
	w.mu.Lock()
	wrong := w.wrongMaster(m.MasterURL)
	w.mu.Unlock()
	if wrong {
		w.did(DidRefuse, from, "invalid master "+m.MasterURL+": kill "+key.String())
		return
	}
	status := int32(143)
	w.endExecutor(key, sparkmsg.ExecutorKilled, nil, &status)
}

func (w *Worker) endExecutor(key execKey, state sparkmsg.ExecutorState, message *string, status *int32) {
	w.mu.Lock()
	e := w.execs[key]
	if e == nil {
		w.mu.Unlock()
		return
	}
	delete(w.execs, key)
	e.timer.Stop()
	w.mu.Unlock()
	w.counters.Ends.Add(1)
	w.did(DidEnd, frame.Address{}, key.String()+" "+state.String())
	w.report(&sparkmsg.ExecutorStateChanged{AppID: key.app, ExecID: key.id, State: state, Message: message, ExitStatus: status}, 1)
}

// report asks the current master to take a state change, and again after a failure (spark.worker.executorStateSync).
func (w *Worker) report(m *sparkmsg.ExecutorStateChanged, attempt int) {
	if w.Switches.NoReport.Load() || w.isClosed() {
		return
	}
	w.mu.Lock()
	to := w.masterAddr
	w.mu.Unlock()
	began := time.Now()
	w.ep.Ask(to, "Master", w.node.cfg.Family, m, w.cfg.AskTimeout, func(answer sparkmsg.Message, err error) {
		if err == nil {
			w.counters.Reports.Add(1)
			w.did(DidReport, to, fmt.Sprintf("%s/%d %s", m.AppID, m.ExecID, m.State))
			return
		}
		w.did(DidReportFail, to, err.Error())
		if attempt >= w.cfg.SyncTries {
			w.leave("executor state could not be reported")
			return
		}
		// A failed ask is tried again when its time-out would have passed.
		w.after(max(0, w.cfg.AskTimeout-time.Since(began)), func() { w.report(m, attempt+1) })
	})
}

func (w *Worker) onLaunchDriver(from frame.Address, m *sparkmsg.LaunchDriver) {
	if w.Switches.NoRun.Load() {
		w.did(DidRefuse, from, "switched off: launch "+m.DriverID)
		return
	}
	d := &driver{desc: m.DriverDesc, resources: m.Resources}
	w.mu.Lock()
	_, duplicate := w.drivers[m.DriverID]
	w.drivers[m.DriverID] = d
	if w.cfg.RunTime > 0 {
		state := sparkmsg.DriverFinished
		if w.cfg.ExitCode != 0 {
			state = sparkmsg.DriverFailed
		}
		d.timer = w.after(w.cfg.StartTime+w.cfg.RunTime, func() { w.endDriver(m.DriverID, d, state) })
	}
	w.mu.Unlock()
	w.counters.Launches.Add(1)
	if duplicate {
		w.counters.Duplicates.Add(1)
		w.did(DidDuplicate, from, m.DriverID)
	}
	w.did(DidLaunch, from, m.DriverID)
	if w.cfg.OnDriver != nil {
		w.after(w.cfg.StartTime, func() { w.cfg.OnDriver(w, m) })
	}
}

// EndDriver lets a driver end by itself.
func (w *Worker) EndDriver(id string, state sparkmsg.DriverState) { w.endDriver(id, nil, state) }

// endDriver ends a driver; d, if not nil, must be the one meant.
func (w *Worker) endDriver(id string, d *driver, state sparkmsg.DriverState) {
	w.mu.Lock()
	have := w.drivers[id]
	if have == nil || d != nil && have != d {
		w.mu.Unlock()
		return
	}
	delete(w.drivers, id)
	if have.timer != nil {
		have.timer.Stop()
	}
	to := w.masterAddr
	w.mu.Unlock()
	w.did(DidEnd, frame.Address{}, id+" "+state.String())
	if !w.Switches.NoReport.Load() {
		w.send(to, &sparkmsg.DriverStateChanged{DriverID: id, State: state})
	}
}
