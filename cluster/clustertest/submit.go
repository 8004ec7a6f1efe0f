package clustertest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"raftmaster/cluster/master"
	"raftmaster/transport/sparkmsg"
)

const (
	// submitPatience is how long a client of the simulation goes on to ask: a repetition is recognised for 30 s.
	submitPatience = 18 * time.Second
	// clientTimeout is spark.rpc.askTimeout as deploy.Client sets it.
	clientTimeout = 10 * time.Second
)

// backupPrefix is how the answer of a master that does not lead begins (Utils.BACKUP_STANDALONE_MASTER_PREFIX).
const backupPrefix = "Current state is not alive"

// client is a process that submits one driver of cluster deploy mode, and looks after it.
type client struct {
	*peer
	n     int
	cores int32
	mem   int32
	gpus  int32
	supervise,
	// all: it asks all masters at once and never again, as org.apache.spark.deploy.Client does; else one after the other.
	all bool

	id      string // "" until accepted
	over    bool   // its submission has an outcome, or never will
	started time.Duration
	answers int         // of those that were asked at once
	asked   *masterNode // by REST
}

// waits tells whether the submission may still get an answer.
func (c *client) waits() bool { return !c.over && c.up && (c.asked == nil || c.asked.up) }

// newClient starts a submission client.
func (s *Sim) newClient() *client {
	fam := sparkmsg.FamilyB
	if s.chance(0.25) {
		fam = sparkmsg.FamilyE
	}
	c := s.describeClient()
	c.peer = newPeer(s, fmt.Sprintf("client%d", c.n), "client", s.newAddress(fmt.Sprintf("client%d", c.n)), fam)
	c.onMessage, c.onDisconnect = func(*peerConn, sparkmsg.Message) {}, func(sparkmsg.Address) {}
	s.net.listen(c.proc)
	c.note("starts: %d cores, %d MiB, %d gpu, supervise %v, %v", c.cores, c.mem, c.gpus, c.supervise, c.fam)
	if c.all {
		for i := range s.masters {
			c.submitAt(i, c.answeredOnce)
		}
	} else {
		c.submitInTurn(s.rng.IntN(len(s.masters)))
	}
	c.lookAfter()
	return c
}

// describeClient draws what somebody submits.
func (s *Sim) describeClient() *client {
	c := &client{n: len(s.clients), cores: int32(1 + s.rng.IntN(3)), mem: int32(512 * (1 + s.rng.IntN(3))), gpus: int32(s.gpuNeed()),
		supervise: s.chance(0.6), all: s.chance(0.4), started: s.now}
	s.clients = append(s.clients, c)
	return c
}

// jar is what tells the driver of a client from all others.
func (c *client) jar() string { return fmt.Sprintf("file:/jobs/%d.jar", c.n) }

// describe makes the description afresh: who gets it may change it.
func (c *client) describe(bind bool, fam sparkmsg.Family) *sparkmsg.DriverDescription {
	d := &sparkmsg.DriverDescription{JarURL: c.jar(), Mem: c.mem, Cores: c.cores, Supervise: c.supervise,
		Command: sparkmsg.Command{MainClass: "org.apache.spark.deploy.worker.DriverWrapper",
			Arguments: []string{"{{WORKER_URL}}", "{{USER_JAR}}", "com.example.Job"},
			JavaOpts:  []string{"-Dspark.master=spark://" + masterAddress(c.n%3).String()}}}
	if c.gpus > 0 {
		d.ResourceReqs = []sparkmsg.ResourceRequirement{{ResourceName: gpu, Amount: c.gpus, NumParts: 1}}
	}
	if bind {
		if err := d.Bind(fam); err != nil {
			panic(fmt.Sprintf("clustertest: cannot bind a driver to family %v: %v", fam, err))
		}
	}
	return d
}

// ask asks a master, or fails when there is no way to it or no answer in time.
func (c *client) ask(number int, msg sparkmsg.Message, done func(sparkmsg.Message, error)) {
	a := &peerAsk{done: done}
	c.after(clientTimeout, func() { a.finish(nil, errAskTimeout) })
	c.find(masterAddress(number), func(conn *peerConn, found bool) {
		switch {
		case a.over:
		case !found:
			a.finish(nil, errChannel)
		default:
			conn.ask(endpointMaster, msg, a.finish)
		}
	})
}

func (c *client) submitAt(number int, done func(*sparkmsg.SubmitDriverResponse, error)) {
	c.ask(number, &sparkmsg.RequestSubmitDriver{DriverDescription: c.describe(true, c.fam)}, func(msg sparkmsg.Message, err error) {
		answer, ok := msg.(*sparkmsg.SubmitDriverResponse)
		if err == nil && !ok {
			c.s.fail("%s was answered with %T", c.name, msg)
			return
		}
		c.note("submission answered: %s, %v", show(msg), err)
		done(answer, err)
	})
}

// answeredOnce is the way of Spark's client: it exits when every master has failed it, and waits for ever when one of
// them has died while another one stood by.
func (c *client) answeredOnce(answer *sparkmsg.SubmitDriverResponse, err error) {
	c.answers++
	if err == nil {
		c.take(answer)
	}
	if c.answers == len(c.s.masters) {
		c.over = true
	}
}

// submitInTurn asks one master after the other until one has taken the driver.
func (c *client) submitInTurn(number int) {
	c.submitAt(number, func(answer *sparkmsg.SubmitDriverResponse, err error) {
		if err == nil && c.take(answer) {
			c.over = true
			return
		}
		if c.s.now-c.started > submitPatience {
			c.note("gives up")
			c.over = true
			return
		}
		c.after(c.s.between(50*time.Millisecond, 2*time.Second), func() { c.submitInTurn((number + 1) % len(c.s.masters)) })
	})
}

// take heeds an answer; false from a master that does not lead.
func (c *client) take(answer *sparkmsg.SubmitDriverResponse) bool {
	switch {
	case !answer.Success && strings.HasPrefix(answer.Message, backupPrefix):
		return false
	case !answer.Success || answer.DriverID == nil:
		c.s.fail("the submission of %s was refused: %s", c.name, answer.Message)
	default:
		c.accepted(*answer.DriverID)
	}
	return true
}

// accepted notes the id that a master has given.
func (c *client) accepted(id string) {
	if c.id != "" && c.id != id {
		c.s.fail("the driver of %s has the ids %s and %s", c.name, c.id, id)
	}
	c.id = id
	c.s.check.jobAccepted(c)
}

// lookAfter asks for the driver's status and, one day, for its end.
func (c *client) lookAfter() {
	load := c.s.opt.Load
	c.s.repeat(load.JobStatus, func() { c.atLeader(c.status) })
	if c.s.chance(0.5) {
		c.s.repeat(load.KillJob, func() { c.atLeader(c.kill) })
	}
}

// atLeader does something with the driver's id, or that of one of its successors, at a master that seems to lead.
func (c *client) atLeader(fn func(number int, id string)) {
	if c.id == "" || !c.up {
		return
	}
	number := c.s.rng.IntN(len(c.s.masters))
	if m := c.s.raft.leader; m != nil && c.s.chance(0.8) {
		number = m.number
	}
	id, _ := pick(c.s, c.s.check.jobs.chain(c.id))
	fn(number, id)
}

func (c *client) status(number int, id string) {
	c.ask(number, &sparkmsg.RequestDriverStatus{DriverID: id}, func(msg sparkmsg.Message, err error) {
		if answer, ok := msg.(*sparkmsg.DriverStatusResponse); err == nil && ok {
			c.s.check.jobStatus(id, answer)
		}
	})
}

func (c *client) kill(number int, id string) {
	c.note("asks for the end of %s", id)
	c.ask(number, &sparkmsg.RequestKillDriver{DriverID: id}, func(msg sparkmsg.Message, err error) {
		answer, ok := msg.(*sparkmsg.KillDriverResponse)
		switch {
		case err != nil || !ok || strings.HasPrefix(answer.Message, backupPrefix):
		case answer.Success:
			c.s.check.jobKillAccepted(id)
		default:
			c.s.check.jobKillRefused(id, answer.Message)
		}
	})
}

// submitREST submits by way of the REST gateway of some master: it goes on to the next one only where nothing can have
// been submitted.
func (s *Sim) submitREST() {
	c := s.describeClient()
	c.peer = newPeer(s, fmt.Sprintf("client%d", c.n), "client", s.newAddress("rest"), sparkmsg.FamilyB)
	c.proc.up = true
	c.note("submits by REST: %d cores, %d MiB, %d gpu, supervise %v", c.cores, c.mem, c.gpus, c.supervise)
	c.restAt(s.rng.IntN(len(s.masters)))
	c.lookAfter()
}

func (c *client) restAt(number int) {
	s := c.s
	m := s.masters[number]
	next := func() {
		if s.now-c.started > submitPatience {
			c.over = true
			return
		}
		s.after(s.between(50*time.Millisecond, 2*time.Second), func() { c.restAt((number + 1) % len(s.masters)) })
	}
	if !m.up || m.paused {
		next()
		return
	}
	c.asked = m
	m.run(func() {
		open := s.check.askArrived(m, "a submission by REST")
		req := master.DriverRequest{Desc: c.describe(false, 0), Families: sparkmsg.SetOf(c.fam), Release: "3.5.9"}
		m.core.SubmitDriver(req, func(answer master.DriverSubmission, err error) {
			s.check.askAnswered(open)
			var standby *master.NotLeaderError
			switch {
			case errors.As(err, &standby):
				next()
			case err != nil:
				c.over = true
			case !answer.Success:
				s.fail("the submission of %s was refused: %s", c.name, answer.Message)
			default:
				c.over = true
				c.accepted(answer.ID)
			}
		})
	})
}
