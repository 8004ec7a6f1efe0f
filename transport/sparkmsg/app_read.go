package sparkmsg

func readRegisterApplication(r record) Message {
	m := &RegisterApplication{Driver: r.ref("driver")}
	if o, ok := r.object("appDescription"); ok {
		m.AppDescription = readApplicationDescription(o)
	}
	return m
}

func readRegisteredApplication(r record) Message {
	return &RegisteredApplication{AppID: r.str("appId"), Master: r.ref("master")}
}

func readExecutorAdded(r record) Message {
	return &ExecutorAdded{
		ID:       r.i32("id"),
		WorkerID: r.str("workerId"),
		HostPort: r.str("hostPort"),
		Cores:    r.i32("cores"),
		Memory:   r.i32("memory"),
	}
}

func readExecutorUpdated(r record) Message {
	return &ExecutorUpdated{
		ID:         r.i32("id"),
		State:      r.executorState("state"),
		Message:    r.optString("message"),
		ExitStatus: r.optInt("exitStatus"),
		WorkerHost: r.optString("workerHost"),
	}
}

func readWorkerRemoved(r record) Message {
	return &WorkerRemoved{ID: r.str("id"), Host: r.str("host"), Message: r.str("message")}
}

func readRequestExecutors(r record) Message {
	m := &RequestExecutors{AppID: r.str("appId")}
	if r.has("requestedTotal") { // family A
		m.ResourceProfileToTotalExecs = []ProfileTotal{{Total: r.i32("requestedTotal")}}
		return m
	}
	const field = "resourceProfileToTotalExecs"
	for _, e := range r.pairs(field) {
		if o, ok := r.asObject(field, e.key, false); ok {
			m.ResourceProfileToTotalExecs = append(m.ResourceProfileToTotalExecs,
				ProfileTotal{Profile: readResourceProfile(o), Total: r.integer(field, e.value)})
		}
	}
	return m
}

func readKillExecutors(r record) Message {
	return &KillExecutors{AppID: r.str("appId"), ExecutorIDs: r.strings("executorIds")}
}
