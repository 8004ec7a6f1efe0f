package sparkmsg

import "raftmaster/transport/javaser"

// clientMessage builds the messages of submission clients and the common replies; ok is false for others.
func (b *builder) clientMessage(msg Message) (n javaser.Node, ok bool) {
	switch m := msg.(type) {
	case *CheckExistence:
		return b.object("org.apache.spark.rpc.netty.RpcEndpointVerifier$CheckExistence").str("name", m.Name).node(), true
	case *RequestSubmitDriver:
		return b.deploy("RequestSubmitDriver").ref("driverDescription", b.driverDescription(m.DriverDescription)).node(), true
	case *SubmitDriverResponse:
		return b.deploy("SubmitDriverResponse").boolean("success", m.Success).ref("driverId", b.optString(m.DriverID)).
			ref("master", b.optRef(m.Master)).str("message", m.Message).node(), true
	case *RequestKillDriver:
		return b.deploy("RequestKillDriver").str("driverId", m.DriverID).node(), true
	case *KillDriverResponse:
		return b.deploy("KillDriverResponse").boolean("success", m.Success).str("driverId", m.DriverID).
			ref("master", b.optRef(m.Master)).str("message", m.Message).node(), true
	case *RequestDriverStatus:
		return b.deploy("RequestDriverStatus").str("driverId", m.DriverID).node(), true
	case *DriverStatusResponse:
		return b.driverStatusResponse(m), true
	case *RequestKillAllDrivers:
		return b.module(deployMessages + "RequestKillAllDrivers$"), true
	case *KillAllDriversResponse:
		return b.deploy("KillAllDriversResponse").boolean("success", m.Success).ref("master", b.optRef(m.Master)).
			str("message", m.Message).node(), true
	case *RequestClearCompletedDriversAndApps:
		return b.module(deployMessages + "RequestClearCompletedDriversAndApps$"), true
	case *RequestReadyz:
		return b.module(deployMessages + "RequestReadyz$"), true
	case *RpcFailure:
		return b.object("org.apache.spark.rpc.netty.RpcFailure").ref("e", b.exception(&Exception{Message: m.Message})).node(), true
	case *Boolean:
		return b.object("java.lang.Boolean").boolean("value", m.Value).node(), true
	}
	return nil, false
}

func (b *builder) driverStatusResponse(m *DriverStatusResponse) javaser.Node {
	f := b.deploy("DriverStatusResponse").boolean("found", m.Found)
	if m.Exception != nil {
		b.adopt(m.Exception.Graph)
	}
	f.ref("exception", b.optException(m.Exception))
	if m.State != nil {
		f.ref("state", b.some(b.driverState(*m.State)))
	} else {
		f.ref("state", b.none())
	}
	return f.ref("workerHostPort", b.optString(m.WorkerHostPort)).ref("workerId", b.optString(m.WorkerID)).node()
}
