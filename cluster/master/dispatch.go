package master

import (
	"errors"
	"fmt"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

var (
	errNotLeader = errors.New("this master does not lead; ask the leader")
	errNotServed = errors.New("raftmaster does not serve this request")
)

// notAlive is the text by which submission clients recognise a master that does not lead (wire: ordinary sequences,
// standby); any other text makes them exit.
func (c *Core) notAlive(can string) string {
	return fmt.Sprintf("Current state is not alive: %s. Can only %s in ALIVE state.", c.stateName(), can)
}

func (c *Core) stateName() string {
	if c.alive() {
		return "ALIVE"
	}
	return "STANDBY"
}

// OneWay handles a one-way message. from is the sender's advertised address, families what its descriptors allow.
func (c *Core) OneWay(conn Conn, from *sparkmsg.Address, families sparkmsg.FamilySet, msg sparkmsg.Message) {
	switch m := msg.(type) {
	case *sparkmsg.RegisterWorker:
		c.registerWorker(conn, families, m)
	case *sparkmsg.Heartbeat:
		c.heartbeat(conn, families, m)
	case *sparkmsg.WorkerLatestState:
		c.workerLatestState(conn, families, m)
	case *sparkmsg.WorkerSchedulerStateResponse:
		c.workerSchedulerState(conn, families, m)
	case *sparkmsg.WorkerDecommissioning:
		c.workerDecommissioning(conn, families, m)
	case *sparkmsg.RegisterApplication:
		c.registerApplication(conn, families, m)
	case *sparkmsg.UnregisterApplication:
		c.unregisterApplication(m)
	case *sparkmsg.MasterChangeAcknowledged:
		c.masterChangeAcknowledged(conn, from, families, m)
	case *sparkmsg.DriverStateChanged:
		c.peerWarn("driver state", m.DriverID, "Got a state change of a driver that this master did not launch", "driver_id", m.DriverID)
	default:
		c.peerWarn("unsupported message", fmt.Sprintf("%T", msg), "Unsupported message", "message", fmt.Sprintf("%T", msg)) // B-002
	}
	c.flush()
}

// Ask handles a message that wants an answer; reply must be called exactly once, now or later.
func (c *Core) Ask(_ Conn, from *sparkmsg.Address, msg sparkmsg.Message, reply func(sparkmsg.Message, error)) {
	if !c.askStandby(msg, reply) {
		c.askLeader(from, msg, reply)
	}
	c.flush()
}

// askStandby answers for a master that does not lead; it reports whether it did. Submission clients ask every master and
// pass over the ones that are not alive. A worker or driver is told by a failure to ask again: were a standby to say
// `true` to ExecutorStateChanged, as Spark's does, the news would be lost.
func (c *Core) askStandby(msg sparkmsg.Message, reply func(sparkmsg.Message, error)) bool {
	if c.alive() {
		return false
	}
	switch m := msg.(type) {
	case *sparkmsg.ExecutorStateChanged, *sparkmsg.RequestExecutors, *sparkmsg.KillExecutors:
		if c.leader {
			return false // the lease may have lapsed for a moment; the commit shows who leads
		}
		reply(nil, errNotLeader)
	case *sparkmsg.RequestSubmitDriver:
		reply(&sparkmsg.SubmitDriverResponse{Message: c.notAlive("accept driver submissions")}, nil)
	case *sparkmsg.RequestKillDriver:
		reply(&sparkmsg.KillDriverResponse{DriverID: m.DriverID, Message: c.notAlive("kill drivers")}, nil)
	case *sparkmsg.RequestKillAllDrivers:
		reply(&sparkmsg.KillAllDriversResponse{Message: c.notAlive("kill drivers")}, nil)
	case *sparkmsg.RequestDriverStatus:
		reply(&sparkmsg.DriverStatusResponse{Exception: &sparkmsg.Exception{Class: "java.lang.Exception", Message: c.notAlive("request driver status")}}, nil)
	case *sparkmsg.RequestReadyz:
		reply(&sparkmsg.Boolean{Value: false}, nil)
	default:
		reply(nil, errNotLeader)
	}
	return true
}

// noDrivers is the answer to submissions until cluster deploy mode is served.
const noDrivers = "raftmaster does not run drivers in cluster deploy mode yet; submit with --deploy-mode client"

func (c *Core) askLeader(from *sparkmsg.Address, msg sparkmsg.Message, reply func(sparkmsg.Message, error)) {
	switch m := msg.(type) {
	case *sparkmsg.ExecutorStateChanged:
		c.executorChanged(from, m, reply)
	case *sparkmsg.RequestExecutors:
		c.requestExecutors(m, reply)
	case *sparkmsg.KillExecutors:
		c.killExecutors(m, reply)
	case *sparkmsg.RequestReadyz:
		reply(&sparkmsg.Boolean{Value: true}, nil)
	case *sparkmsg.RequestClearCompletedDriversAndApps: // B-142
		c.propose("ClearCompleted", fsm.ClearCompleted{Meta: c.meta()}, func(fsm.Result) {
			reply(&sparkmsg.Boolean{Value: true}, nil)
		}, func(err error) { reply(nil, err) })
	case *sparkmsg.RequestSubmitDriver:
		reply(&sparkmsg.SubmitDriverResponse{Message: noDrivers}, nil)
	case *sparkmsg.RequestKillDriver:
		reply(&sparkmsg.KillDriverResponse{DriverID: m.DriverID, Message: noDrivers}, nil)
	case *sparkmsg.RequestKillAllDrivers:
		reply(&sparkmsg.KillAllDriversResponse{Message: noDrivers}, nil)
	case *sparkmsg.RequestDriverStatus:
		reply(&sparkmsg.DriverStatusResponse{}, nil)
	default:
		c.peerWarn("unsupported request", fmt.Sprintf("%T", msg), "Unsupported request", "message", fmt.Sprintf("%T", msg)) // B-002
		reply(nil, fmt.Errorf("%w: %T", errNotServed, msg))
	}
}
