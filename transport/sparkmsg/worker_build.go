package sparkmsg

import "raftmaster/transport/javaser"

// workerMessage builds the messages between workers and the master; ok is false for others.
func (b *builder) workerMessage(msg Message) (n javaser.Node, ok bool) {
	switch m := msg.(type) {
	case *Heartbeat:
		return b.deploy("Heartbeat").ref("worker", b.endpointRef(m.Worker)).str("workerId", m.WorkerID).node(), true
	case *RegisterWorker:
		return b.registerWorker(m), true
	case *RegisteredWorker:
		return b.deploy("RegisteredWorker").boolean("duplicate", m.Duplicate).ref("master", b.endpointRef(m.Master)).
			ref("masterAddress", b.address(m.MasterAddress)).str("masterWebUiUrl", m.MasterWebUIURL).node(), true
	case *RegisterWorkerFailed:
		return b.deploy("RegisterWorkerFailed").str("message", m.Message).node(), true
	case *MasterInStandby:
		return b.module(deployMessages + "MasterInStandby$"), true
	case *ReconnectWorker:
		return b.deploy("ReconnectWorker").str("masterUrl", m.MasterURL).node(), true
	case *WorkerLatestState:
		return b.workerLatestState(m), true
	case *LaunchExecutor:
		return b.launchExecutor(m), true
	case *KillExecutor:
		return b.deploy("KillExecutor").i32("execId", m.ExecID).str("appId", m.AppID).str("masterUrl", m.MasterURL).node(), true
	case *ApplicationFinished:
		return b.deploy("ApplicationFinished").str("id", m.ID).node(), true
	case *ExecutorStateChanged:
		return b.deploy("ExecutorStateChanged").i32("execId", m.ExecID).str("appId", m.AppID).
			ref("exitStatus", b.optInt(m.ExitStatus)).ref("message", b.optString(m.Message)).
			ref("state", b.executorState(m.State)).node(), true
	case *LaunchDriver:
		return b.launchDriver(m), true
	case *KillDriver:
		return b.deploy("KillDriver").str("driverId", m.DriverID).node(), true
	case *DriverStateChanged:
		return b.driverStateChanged(m), true
	case *WorkerDecommissioning:
		return b.deploy("WorkerDecommissioning").str("id", m.ID).ref("workerRef", b.endpointRef(m.WorkerRef)).node(), true
	case *DecommissionWorker:
		return b.module(deployMessages + "DecommissionWorker$"), true
	case *MasterChanged:
		return b.deploy("MasterChanged").ref("master", b.endpointRef(m.Master)).str("masterWebUiUrl", m.MasterWebUIURL).node(), true
	case *WorkerSchedulerStateResponse:
		return b.workerSchedulerStateResponse(m), true
	}
	return nil, false
}

func (b *builder) registerWorker(m *RegisterWorker) javaser.Node {
	host := &javaser.String{Value: m.Host} // a worker uses one instance in both places
	return b.deploy("RegisterWorker").i32("cores", m.Cores).i32("memory", m.Memory).i32("port", m.Port).
		ref("host", host).str("id", m.ID).ref("masterAddress", b.address(m.MasterAddress)).
		ref("resources", b.resources(m.Resources, keyIsName)).ref("worker", b.endpointRefAt(m.Worker, host)).
		str("workerWebUiUrl", m.WorkerWebUIURL).node()
}

func (b *builder) executorDescription(d ExecutorDescription) javaser.Node {
	return b.object("org.apache.spark.deploy.ExecutorDescription").i32("cores", d.Cores).i32("execId", d.ExecID).
		i32If("memoryMb", d.MemoryMB).i32If("rpId", d.RPID).str("appId", d.AppID).
		ref("state", b.executorState(d.State)).node()
}

func (b *builder) workerLatestState(m *WorkerLatestState) javaser.Node {
	executors := make([]javaser.Node, len(m.Executors))
	for i, d := range m.Executors {
		executors[i] = b.executorDescription(d)
	}
	return b.deploy("WorkerLatestState").ref("driverIds", b.strings(m.DriverIDs)).
		ref("executors", b.list(executors)).str("id", m.ID).node()
}

func (b *builder) launchExecutor(m *LaunchExecutor) javaser.Node {
	desc := b.applicationDescription(m.AppDesc)
	var keyOf func(*javaser.String) javaser.Node
	if m.AppDesc != nil && m.AppDesc.Graph != nil {
		b.adopt(m.AppDesc.Graph)
		if len(m.Resources) > 0 && m.RPID == 0 {
			keyOf = keysOf(executorRequests(m.AppDesc.Graph))
		}
	}
	return b.deploy("LaunchExecutor").i32("cores", m.Cores).i32("execId", m.ExecID).i32("memory", m.Memory).
		i32If("rpId", m.RPID).ref("appDesc", desc).str("appId", m.AppID).str("masterUrl", m.MasterURL).
		ref("resources", b.resources(m.Resources, keyOf)).node()
}

// executorRequests returns the resource requests in the graph of an application; nil if it has an unknown shape.
func executorRequests(app *javaser.Object) []javaser.Node {
	profile, ok := field(app, "defaultProfile").Ref.(*javaser.Object)
	if !ok { // family A
		items, _ := readSeq(field(app, "resourceReqsPerExecutor").Ref)
		return items
	}
	entries, _ := readMap(field(profile, "executorResources").Ref)
	requests := make([]javaser.Node, len(entries))
	for i, e := range entries {
		requests[i] = e.value
	}
	return requests
}

func (b *builder) launchDriver(m *LaunchDriver) javaser.Node {
	desc := b.driverDescription(m.DriverDesc)
	var keyOf func(*javaser.String) javaser.Node
	if m.DriverDesc != nil && m.DriverDesc.Graph != nil {
		b.adopt(m.DriverDesc.Graph)
		if len(m.Resources) > 0 {
			requests, _ := readSeq(field(m.DriverDesc.Graph, "resourceReqs").Ref)
			keyOf = keysOf(requests)
		}
	}
	return b.deploy("LaunchDriver").ref("driverDesc", desc).str("driverId", m.DriverID).
		ref("resources", b.resources(m.Resources, keyOf)).node()
}

func (b *builder) driverStateChanged(m *DriverStateChanged) javaser.Node {
	return b.deploy("DriverStateChanged").str("driverId", m.DriverID).
		ref("exception", b.optException(m.Exception)).ref("state", b.driverState(m.State)).node()
}

func (b *builder) workerSchedulerStateResponse(m *WorkerSchedulerStateResponse) javaser.Node {
	drivers := make([]javaser.Node, len(m.DriverResponses))
	for i, d := range m.DriverResponses {
		drivers[i] = b.deploy("WorkerDriverStateResponse").str("driverId", d.DriverID).
			ref("resources", b.resources(d.Resources, nil)).node()
	}
	executors := make([]javaser.Node, len(m.ExecResponses))
	for i, e := range m.ExecResponses {
		executors[i] = b.deploy("WorkerExecutorStateResponse").ref("desc", b.executorDescription(e.Desc)).
			ref("resources", b.resources(e.Resources, nil)).node()
	}
	return b.deploy("WorkerSchedulerStateResponse").ref("driverResponses", b.list(drivers)).
		ref("execResponses", b.list(executors)).str("id", m.ID).node()
}
