package sparkmsg

func readRegisterWorker(r record) Message {
	m := &RegisterWorker{
		ID:             r.str("id"),
		Host:           r.str("host"),
		Port:           r.i32("port"),
		Worker:         r.ref("worker"),
		Cores:          r.i32("cores"),
		Memory:         r.i32("memory"),
		WorkerWebUIURL: r.str("workerWebUiUrl"),
		Resources:      r.resources("resources"),
	}
	if a := r.address("masterAddress"); a != nil {
		m.MasterAddress = *a
	} else {
		r.fail("masterAddress", "is null")
	}
	return m
}

func readRegisteredWorker(r record) Message {
	m := &RegisteredWorker{
		Master:         r.ref("master"),
		MasterWebUIURL: r.str("masterWebUiUrl"),
		Duplicate:      r.boolean("duplicate"),
	}
	if a := r.address("masterAddress"); a != nil {
		m.MasterAddress = *a
	} else {
		r.fail("masterAddress", "is null")
	}
	return m
}

func readHeartbeat(r record) Message {
	return &Heartbeat{WorkerID: r.str("workerId"), Worker: r.ref("worker")}
}

func readExecutorDescription(r record) ExecutorDescription {
	d := ExecutorDescription{
		AppID:  r.str("appId"),
		ExecID: r.i32("execId"),
		Cores:  r.i32("cores"),
		State:  r.executorState("state"),
	}
	if r.has("rpId") { // family A has not
		d.RPID = r.i32("rpId")
		d.MemoryMB = r.i32("memoryMb")
	}
	return d
}

func readWorkerLatestState(r record) Message {
	m := &WorkerLatestState{ID: r.str("id"), DriverIDs: r.strings("driverIds")}
	for _, n := range r.seq("executors") {
		if o, ok := r.asObject("executors", n, false); ok {
			m.Executors = append(m.Executors, readExecutorDescription(o))
		}
	}
	return m
}

func readLaunchExecutor(r record) Message {
	m := &LaunchExecutor{
		MasterURL: r.str("masterUrl"),
		AppID:     r.str("appId"),
		ExecID:    r.i32("execId"),
		Cores:     r.i32("cores"),
		Memory:    r.i32("memory"),
		Resources: r.resources("resources"),
	}
	if r.has("rpId") { // family A has not
		m.RPID = r.i32("rpId")
	}
	if o, ok := r.object("appDesc"); ok {
		m.AppDesc = readApplicationDescription(o)
	}
	return m
}

func readKillExecutor(r record) Message {
	return &KillExecutor{MasterURL: r.str("masterUrl"), AppID: r.str("appId"), ExecID: r.i32("execId")}
}

func readExecutorStateChanged(r record) Message {
	return &ExecutorStateChanged{
		AppID:      r.str("appId"),
		ExecID:     r.i32("execId"),
		State:      r.executorState("state"),
		Message:    r.optString("message"),
		ExitStatus: r.optInt("exitStatus"),
	}
}

func readLaunchDriver(r record) Message {
	m := &LaunchDriver{DriverID: r.str("driverId"), Resources: r.resources("resources")}
	if o, ok := r.object("driverDesc"); ok {
		m.DriverDesc = readDriverDescription(o)
	}
	return m
}

func readDriverStateChanged(r record) Message {
	return &DriverStateChanged{
		DriverID:  r.str("driverId"),
		State:     r.driverState("state", r.node("state")),
		Exception: r.exception("exception"),
	}
}

func readWorkerDecommissioning(r record) Message {
	return &WorkerDecommissioning{ID: r.str("id"), WorkerRef: r.ref("workerRef")}
}

func readMasterChanged(r record) Message {
	return &MasterChanged{Master: r.ref("master"), MasterWebUIURL: r.str("masterWebUiUrl")}
}

func readWorkerSchedulerStateResponse(r record) Message {
	m := &WorkerSchedulerStateResponse{ID: r.str("id")}
	for _, n := range r.seq("execResponses") {
		o, ok := r.asObject("execResponses", n, false)
		if !ok {
			break
		}
		if desc, ok := o.object("desc"); ok {
			m.ExecResponses = append(m.ExecResponses,
				WorkerExecutorStateResponse{Desc: readExecutorDescription(desc), Resources: o.resources("resources")})
		}
	}
	for _, n := range r.seq("driverResponses") {
		if o, ok := r.asObject("driverResponses", n, false); ok {
			m.DriverResponses = append(m.DriverResponses,
				WorkerDriverStateResponse{DriverID: o.str("driverId"), Resources: o.resources("resources")})
		}
	}
	return m
}
