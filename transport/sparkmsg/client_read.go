package sparkmsg

func readRequestSubmitDriver(r record) Message {
	m := &RequestSubmitDriver{}
	if o, ok := r.object("driverDescription"); ok {
		m.DriverDescription = readDriverDescription(o)
	}
	return m
}

func readSubmitDriverResponse(r record) Message {
	return &SubmitDriverResponse{
		Master:   r.optRef("master"),
		Success:  r.boolean("success"),
		DriverID: r.optString("driverId"),
		Message:  r.str("message"),
	}
}

func readKillDriverResponse(r record) Message {
	return &KillDriverResponse{
		Master:   r.optRef("master"),
		DriverID: r.str("driverId"),
		Success:  r.boolean("success"),
		Message:  r.str("message"),
	}
}

func readDriverStatusResponse(r record) Message {
	m := &DriverStatusResponse{
		Found:          r.boolean("found"),
		WorkerID:       r.optString("workerId"),
		WorkerHostPort: r.optString("workerHostPort"),
		Exception:      r.exception("exception"),
	}
	if n, ok := r.option("state"); ok {
		state := r.driverState("state", n)
		m.State = &state
	}
	return m
}

func readKillAllDriversResponse(r record) Message {
	return &KillAllDriversResponse{Master: r.optRef("master"), Success: r.boolean("success"), Message: r.str("message")}
}

func readRPCFailure(r record) Message {
	o, ok := r.object("e")
	if !ok {
		return nil
	}
	e := o.throwable()
	return &RpcFailure{Class: e.Class, Message: e.Message}
}
