package worker

import (
	"errors"
	"fmt"
	"time"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

const (
	// Pauses between attempts to report, doubled each time. Spark's worker waits 120 s (B-128).
	firstReportPause = time.Second
	lastReportPause  = 30 * time.Second
	// runningTries bounds the attempts to report RUNNING to a master that answers with a failure. Spark's master does so for
	// one that it has booked already (G-16); its next list says the same.
	runningTries = 3
)

// reportQueue holds what a master is owed about one executor, in order; one ask at a time is under way.
type reportQueue struct {
	key    executorKey
	items  []*sparkmsg.ExecutorStateChanged
	asked  uint64 // number of the ask under way; 0: none
	asks   uint64
	failed int // attempts of the first item, one after the other
	pause  *timer
}

// report owes the master a state of an executor until a master has answered that it knows.
func (c *Core) report(key executorKey, state sparkmsg.ExecutorState, message string, exitStatus *int32) {
	q := c.reports[key]
	if q == nil {
		q = &reportQueue{key: key}
		c.reports[key] = q
		c.reportOrder = append(c.reportOrder, key)
	}
	m := &sparkmsg.ExecutorStateChanged{AppID: key.app, ExecID: key.id, State: state, ExitStatus: exitStatus}
	if message != "" {
		m.Message = &message
	}
	q.items = append(q.items, m)
	c.sendReport(q)
}

// sendReport asks the master to take the first report of a queue.
func (c *Core) sendReport(q *reportQueue) {
	if q.asked != 0 || q.pause != nil || len(q.items) == 0 || !c.link.connected {
		return
	}
	q.asks++
	number := q.asks
	q.asked = number
	c.deps.Network.Ask(c.link.to, endpointMaster, q.items[0], c.cfg.AskTimeout, func(answer sparkmsg.Message, err error) {
		if c.reports[q.key] == q && q.asked == number {
			q.asked = 0
			c.reportAnswered(q, err)
		}
	})
}

// reportAnswered deals with the outcome of a report: on success the next one is sent, else it is tried again.
func (c *Core) reportAnswered(q *reportQueue, err error) {
	first := q.items[0]
	if err == nil {
		c.reportDone(q)
		return
	}
	q.failed++
	var remote *sparkrpc.RemoteError
	if errors.As(err, &remote) && !first.State.Finished() && q.failed >= runningTries {
		c.log.Warn("the master does not take the state of an executor; its next list says the same",
			"executor", q.key, "state", first.State, "error", err)
		c.reportDone(q)
		return
	}
	pause := min(firstReportPause<<min(q.failed-1, 10), lastReportPause)
	if q.failed == c.cfg.ReportTries {
		c.log.Error(fmt.Sprintf("Failed to send %s state of executor %s %d times in a row; it is kept until a master takes it",
			first.State, q.key, q.failed), "error", err)
	} else {
		c.log.Debug("the state of an executor was not taken; it is sent again", "executor", q.key, "state", first.State, "error", err, "seconds", pause.Seconds())
	}
	q.pause = c.after(pause, func() {
		q.pause = nil
		c.sendReport(q)
	})
}

func (c *Core) reportDone(q *reportQueue) {
	q.items, q.failed = q.items[1:], 0
	if len(q.items) > 0 {
		c.sendReport(q)
		return
	}
	delete(c.reports, q.key)
	for i, key := range c.reportOrder {
		if key == q.key {
			c.reportOrder = append(c.reportOrder[:i], c.reportOrder[i+1:]...)
			break
		}
	}
}

// pauseReports gives up asks whose master was lost: an answer cannot come any more.
func (c *Core) pauseReports() {
	for _, q := range c.reports {
		q.asked = 0
		q.pause.Stop()
		q.pause = nil
	}
}

// resumeReports sends what is owed to a master that has just introduced itself, without waiting for answers of another.
func (c *Core) resumeReports() {
	c.pauseReports()
	for _, key := range c.reportOrder {
		q := c.reports[key]
		q.failed = 0
		c.sendReport(q)
	}
}
