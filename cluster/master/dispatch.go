package master

import (
	"errors"
	"fmt"

	"raftmaster/transport/sparkmsg"
)

var (
	errNotLeader = errors.New("this master does not lead; ask the leader")
	errNotServed = errors.New("raftmaster does not serve this request")
)

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
		c.driverChanged(from, m)
	default:
		c.peerWarn("unsupported message", fmt.Sprintf("%T", msg), "Unsupported message", "message", fmt.Sprintf("%T", msg)) // B-002
	}
	c.flush()
}

// Ask handles a message that wants an answer; reply must be called exactly once, now or later.
func (c *Core) Ask(conn Conn, from *sparkmsg.Address, msg sparkmsg.Message, reply func(sparkmsg.Message, error)) {
	if !c.askDrivers(conn, from, msg, reply) && !c.askStandby(msg, reply) {
		c.askLeader(from, msg, reply)
	}
	c.flush()
}

// askStandby answers for a master that does not lead; it reports whether it did. A worker or driver is told by a failure
// to ask again: were a standby to say `true` to ExecutorStateChanged, as Spark's does, the news would be lost.
func (c *Core) askStandby(msg sparkmsg.Message, reply func(sparkmsg.Message, error)) bool {
	if c.alive() {
		return false
	}
	switch msg.(type) {
	case *sparkmsg.ExecutorStateChanged, *sparkmsg.RequestExecutors, *sparkmsg.KillExecutors:
		if c.leader {
			return false // the lease may have lapsed for a moment; the commit shows who leads
		}
	}
	reply(nil, errNotLeader)
	return true
}

func (c *Core) askLeader(from *sparkmsg.Address, msg sparkmsg.Message, reply func(sparkmsg.Message, error)) {
	switch m := msg.(type) {
	case *sparkmsg.ExecutorStateChanged:
		c.executorChanged(from, m, reply)
	case *sparkmsg.RequestExecutors:
		c.requestExecutors(m, reply)
	case *sparkmsg.KillExecutors:
		c.killExecutors(m, reply)
	default:
		c.peerWarn("unsupported request", fmt.Sprintf("%T", msg), "Unsupported request", "message", fmt.Sprintf("%T", msg)) // B-002
		reply(nil, fmt.Errorf("%w: %T", errNotServed, msg))
	}
}
