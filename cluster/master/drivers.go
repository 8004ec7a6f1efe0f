package master

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// This file is the gateway for drivers of cluster deploy mode: what submission clients and operators ask (B-134 to
// B-143). driver_run.go is about the ones that run.

// DriverRequest is a driver that somebody submits.
type DriverRequest struct {
	Desc *sparkmsg.DriverDescription
	// Families are those of the workers that may run it, Release its Spark release; "" if not known.
	Families sparkmsg.FamilySet
	Release  string
	// Client is the address of the client that asks over RPC; nil for other gateways. One process has it, so that the
	// same description from it again is a repetition.
	Client *sparkmsg.Address
}

// What only a leader can do, in Spark's words (Master.scala); see NotLeaderError.Refuse.
const (
	canAccept = "accept driver submissions"
	canKill   = "kill drivers"
	canStatus = "request driver status"
)

// driverSoft is what the leader of this term knows of drivers and does not replicate.
type driverSoft struct {
	// submissions are those of RPC clients that this leader has taken, by what makes them the same.
	submissions map[submission]*submitted
	// kills are running drivers whose end was asked for, and when their worker was last told.
	kills map[string]time.Time
	// exceptions are what workers have reported with a driver's end, as it came. order is the order of arrival.
	exceptions map[string]*sparkmsg.Exception
	order      []string
	// warned are waiting drivers that were said to fit nowhere, and limitWarned that maxDrivers holds some back.
	warned      map[string]bool
	limitWarned bool
}

func newDriverSoft() driverSoft {
	return driverSoft{submissions: map[submission]*submitted{}, kills: map[string]time.Time{}, exceptions: map[string]*sparkmsg.Exception{}}
}

// submission is the same description from the same process.
type submission struct {
	client sparkmsg.Address
	sum    [sha256.Size]byte
}

// submitted is the one driver of a submission; until its id is known, done are the answers that wait for it.
type submitted struct {
	answer DriverSubmission
	done   []func(DriverSubmission, error)
}

// submissionLife is for how long a repetition of a client's question is recognised: longer than a client waits, which is
// spark.rpc.askTimeout, set to 10 s by deploy.Client, and not so long that its port has another owner.
const submissionLife = 30 * time.Second

// ready gives a function for other goroutines that tells whether this master can serve.
func (c *Core) ready() func() bool {
	return func() bool { return c.serving.Load() && c.deps.Lease() }
}

// notLeader describes this master to somebody who asks for the leader.
func (c *Core) notLeader() *NotLeaderError {
	e := &NotLeaderError{State: "STANDBY"}
	if c.deps.Leader == nil {
		return e
	}
	if addr, ok := c.deps.Leader(); ok && addr != c.cfg.Self {
		e.Leader = "spark://" + addr.String()
	}
	return e
}

// SubmitDriver queues a driver (B-134); see Service.SubmitDriver. done runs once, on the Core's goroutine.
func (c *Core) SubmitDriver(req DriverRequest, done func(DriverSubmission, error)) {
	if !c.alive() {
		done(DriverSubmission{}, c.notLeader())
		return
	}
	if req.Desc == nil {
		done(refusedDriver(errors.New("the request carries no description")), nil)
		return
	}
	payload, err := c.prepare(&req)
	if err != nil {
		done(refusedDriver(err), nil)
		return
	}
	if req.Client != nil {
		first := false
		if done, first = c.onceSubmitted(submission{*req.Client, sha256.Sum256(payload.bytes)}, done); !first {
			return
		}
	}
	cmd := driverCommand(c.meta(), &req, payload)
	cmd.IDPattern = c.cfg.DriverIDPattern
	if req.Client != nil {
		cmd.Client = req.Client.String()
	}
	c.propose("SubmitDriver", cmd, func(r fsm.Result) {
		id := r.Value.(fsm.DriverSubmitted).ID
		c.log.Info("Driver submitted "+cmd.MainClass, "driver_id", id, "jar", ShownURL(cmd.JarURL), "families", payload.families.String(), "release", req.Release)
		c.event("driver", id, "submitted: "+cmd.MainClass)
		if payload.rewritten {
			c.event("driver", id, "its spark.master names all masters now")
		}
		if payload.kept != nil {
			c.log.Warn("spark.master of a driver could not be completed", "driver_id", id, "error", payload.kept)
		}
		done(acceptedDriver(id), nil)
		c.needPlan()
	}, func(err error) {
		if refusal(err) || errors.Is(err, fsm.ErrTooManyDrivers) {
			done(refusedDriver(err), nil)
			return
		}
		done(DriverSubmission{}, err)
	})
}

func acceptedDriver(id string) DriverSubmission {
	return DriverSubmission{ID: id, Message: "Driver successfully submitted as " + id, Success: true}
}

func refusedDriver(err error) DriverSubmission {
	return DriverSubmission{Message: "Driver submission refused: " + err.Error(), Full: errors.Is(err, fsm.ErrTooManyDrivers)}
}

func driverCommand(meta fsm.Meta, req *DriverRequest, payload driverPayload) fsm.SubmitDriver {
	d := req.Desc
	cmd := fsm.SubmitDriver{
		Meta: meta, Cores: int(d.Cores), MemoryMB: int(d.Mem), Supervise: d.Supervise, MainClass: d.Command.MainClass,
		JarURL: d.JarURL, Families: uint8(payload.families), Release: req.Release, Payload: payload.bytes,
	}
	if args := d.Command.Arguments; len(args) > 2 {
		cmd.MainClass = args[2] // behind DriverWrapper's own two (deploy/Client.scala), as Spark's page shows it
	}
	for _, r := range d.ResourceReqs {
		cmd.ResourceReqs = append(cmd.ResourceReqs, fsm.ResourceAmount{Name: r.ResourceName, Amount: int(r.Amount)})
	}
	return cmd
}

// onceSubmitted tells the first submission of a client from its repetitions: a client asks all masters at once, and one
// that was slow to hear it may lead by then. Repetitions get the answer of the first.
func (c *Core) onceSubmitted(key submission, done func(DriverSubmission, error)) (func(DriverSubmission, error), bool) {
	if s := c.drivers.submissions[key]; s != nil {
		c.peerInfo("submitted again", key.client.String(), "a driver was submitted again by the same client; it runs once", "client", key.client.String(), "driver_id", s.answer.ID)
		if s.answer.Success {
			done(s.answer, nil)
		} else {
			s.done = append(s.done, done)
		}
		return nil, false
	}
	if id := c.submittedBefore(key); id != "" {
		c.log.Info("a driver was submitted to the last leader by the same client; it runs once", "client", key.client.String(), "driver_id", id)
		done(acceptedDriver(id), nil)
		return nil, false
	}
	s := &submitted{done: []func(DriverSubmission, error){done}}
	c.drivers.submissions[key] = s
	forget := func() { delete(c.drivers.submissions, key) }
	return func(answer DriverSubmission, err error) {
		s.answer = answer
		if answer.Success {
			c.after(submissionLife, forget)
		} else {
			forget()
		}
		waiting := s.done
		s.done = nil
		for _, fn := range waiting {
			fn(answer, err)
		}
	}, true
}

// submittedBefore finds what an earlier leader has taken of a submission, "" for nothing. What has ended is known by its
// client alone: a submission client submits once.
func (c *Core) submittedBefore(key submission) (id string) {
	if c.now().Sub(c.electedAt) > submissionLife {
		return ""
	}
	client, since := key.client.String(), c.now().Add(-submissionLife).UnixMilli()
	same := func(d *fsm.Driver) bool {
		if d.Client == client && d.SubmittedAtMillis >= since && (d.State.Finished() || bytes.Equal(d.PayloadSum, key.sum[:])) {
			id = d.ID
		}
		return id == ""
	}
	view := c.view()
	view.Drivers(same)
	if id == "" {
		view.CompletedDrivers(same)
	}
	return id
}

// KillDriver see Service.KillDriver.
func (c *Core) KillDriver(id string, done func(DriverKill, error)) {
	if !c.alive() {
		done(DriverKill{ID: id}, c.notLeader())
		return
	}
	c.peerInfo("kill driver", id, "Asked to kill driver "+id, "driver_id", id)
	unknown := DriverKill{ID: id, Message: fmt.Sprintf("Driver %s has already finished or does not exist", id)}
	if !c.mayRun(id) {
		done(unknown, nil) // a command that changes nothing would cost all replicas the same as one that does
		return
	}
	cmd := fsm.RequestKillDriver{Meta: c.meta(), DriverID: id}
	c.propose("RequestKillDriver", cmd, func(r fsm.Result) {
		res := r.Value.(fsm.DriverKill)
		if !res.Known {
			done(unknown, nil)
			return
		}
		c.killAsked(res.ID, res.Waiting)
		done(DriverKill{ID: id, Message: fmt.Sprintf("Kill request for %s submitted", id), Success: true}, nil)
	}, func(err error) { done(DriverKill{ID: id}, err) })
}

// mayRun tells whether an id is that of an unfinished driver, or of one that goes on under another id.
func (c *Core) mayRun(id string) bool {
	if d := c.view().Driver(id); d != nil {
		return !d.State.Finished() || d.State == fsm.DriverStateRelaunching
	}
	_, goesOn := c.view().DriverByOrigin(id)
	return goesOn && id != ""
}

// killAsked notes that a driver is to end; a waiting one has ended already.
func (c *Core) killAsked(id string, waiting bool) {
	if waiting {
		c.event("driver", id, "KILLED while it waited")
		c.needPlan()
		return
	}
	c.event("driver", id, "its worker was asked to end it")
	c.drivers.kills[id] = c.now()
}

// KillAllDrivers see Service.KillAllDrivers.
func (c *Core) KillAllDrivers(done func(DriverKill, error)) {
	if !c.alive() {
		done(DriverKill{}, c.notLeader())
		return
	}
	c.peerInfo("kill all drivers", "", "Asked to kill all drivers")
	c.propose("KillAllDrivers", fsm.KillAllDrivers{Meta: c.meta()}, func(r fsm.Result) {
		res := r.Value.(fsm.AllDriversKill)
		for _, id := range res.Ended {
			c.killAsked(id, true)
		}
		for _, id := range res.Asked {
			c.killAsked(id, false)
		}
		done(DriverKill{Message: "Kill request for all drivers submitted", Success: true}, nil)
	}, func(err error) { done(DriverKill{}, err) })
}

// DriverStatus see Service.DriverStatus.
func (c *Core) DriverStatus(id string) (DriverStatus, error) {
	if !c.alive() {
		return DriverStatus{ID: id}, c.notLeader()
	}
	d := c.view().Driver(id)
	if d == nil {
		// Its entry may have been cleared while a successor goes on: the submitter knows no other id.
		if next, ok := c.view().DriverByOrigin(id); ok {
			return DriverStatus{Found: true, ID: id, State: sparkmsg.DriverRelaunching, Successor: next.ID}, nil
		}
		return DriverStatus{ID: id}, nil
	}
	s := DriverStatus{Found: true, ID: id, State: sparkmsg.DriverState(d.State), WorkerID: d.WorkerID,
		WorkerHostPort: d.WorkerHostPort(), Successor: d.Successor, Reason: d.EndReason}
	if d.Exception != "" {
		s.Exception = c.drivers.exceptions[id]
		if s.Exception == nil {
			s.Exception = &sparkmsg.Exception{Class: "java.lang.Exception", Message: d.Exception}
		}
	}
	return s, nil
}

// refuses gives the NotLeaderError of a standby's answer, nil for any other.
func refuses(err error) *NotLeaderError {
	var standby *NotLeaderError
	if errors.As(err, &standby) {
		return standby
	}
	return nil
}

// askDrivers serves what submission clients ask over RPC, in the words that they test; it reports whether the message
// was one of theirs.
func (c *Core) askDrivers(conn Conn, from *sparkmsg.Address, msg sparkmsg.Message, reply func(sparkmsg.Message, error)) bool {
	switch m := msg.(type) {
	case *sparkmsg.RequestSubmitDriver:
		req := DriverRequest{Desc: m.DriverDescription, Families: sparkmsg.AllFamilies, Client: from}
		c.SubmitDriver(req, func(s DriverSubmission, err error) {
			answer := &sparkmsg.SubmitDriverResponse{Success: s.Success, Message: s.Message}
			if s.ID != "" {
				answer.DriverID = &s.ID
			}
			if standby := refuses(err); standby != nil {
				answer.Message, err = standby.Refuse(canAccept), nil
			}
			reply(orNothing(answer, err), err)
		})
	case *sparkmsg.RequestKillDriver:
		c.KillDriver(m.DriverID, func(k DriverKill, err error) {
			answer := &sparkmsg.KillDriverResponse{DriverID: m.DriverID, Success: k.Success, Message: k.Message}
			if standby := refuses(err); standby != nil {
				answer.Message, err = standby.Refuse(canKill), nil
			}
			reply(orNothing(answer, err), err)
		})
	case *sparkmsg.RequestKillAllDrivers:
		c.KillAllDrivers(func(k DriverKill, err error) {
			answer := &sparkmsg.KillAllDriversResponse{Success: k.Success, Message: k.Message}
			if standby := refuses(err); standby != nil {
				answer.Message, err = standby.Refuse(canKill), nil
			}
			reply(orNothing(answer, err), err)
		})
	case *sparkmsg.RequestDriverStatus:
		s, err := c.DriverStatus(m.DriverID)
		answer := statusResponse(s, conn)
		if standby := refuses(err); standby != nil {
			answer.Exception = &sparkmsg.Exception{Class: "java.lang.Exception", Message: standby.Refuse(canStatus)}
		}
		reply(answer, nil)
	case *sparkmsg.RequestClearCompletedDriversAndApps:
		// Spark's standby says true and clears what it does not have; the client then never asks the leader (G-73).
		c.ClearCompleted(func(err error) { reply(orNothing(&sparkmsg.Boolean{Value: true}, err), err) })
	case *sparkmsg.RequestReadyz:
		reply(&sparkmsg.Boolean{Value: c.alive() && !c.dropped}, nil)
	default:
		return false
	}
	return true
}

// orNothing keeps an answer away from a failed request.
func orNothing[M sparkmsg.Message](answer M, err error) sparkmsg.Message {
	if err != nil {
		return nil
	}
	return answer
}

func statusResponse(s DriverStatus, conn Conn) *sparkmsg.DriverStatusResponse {
	answer := &sparkmsg.DriverStatusResponse{Found: s.Found}
	if !s.Found {
		return answer
	}
	answer.State = &s.State
	if s.WorkerID != "" {
		answer.WorkerID, answer.WorkerHostPort = &s.WorkerID, &s.WorkerHostPort
	}
	if e := s.Exception; e != nil {
		answer.Exception = e
		if e.Graph != nil && !readable(e, conn) {
			answer.Exception = &sparkmsg.Exception{Class: e.Class, Message: e.Error()}
		}
	}
	return answer
}

// readable tells whether the other side has the classes of an exception.
func readable(e *sparkmsg.Exception, conn Conn) bool {
	if conn == nil || conn.Families().IsEmpty() {
		return false
	}
	raw, err := e.MarshalPayload()
	if err != nil {
		return false
	}
	families, err := sparkmsg.PayloadFamilies(raw)
	return err == nil && !families.Intersect(conn.Families()).IsEmpty()
}

// DrainWorkers see Service.DrainWorkers.
func (c *Core) DrainWorkers(ids []string, on, idleOnly bool, done func(int, error)) {
	if !c.alive() {
		done(0, c.notLeader())
		return
	}
	cmd := fsm.DrainWorkers{Meta: c.meta(), IDs: ids, On: on, IdleOnly: idleOnly}
	c.propose("DrainWorkers", cmd, func(r fsm.Result) {
		res := r.Value.(fsm.DrainResult)
		text := "drained by an operator: it gets no new work"
		if !on {
			text = "may be given work again"
		}
		for _, id := range res.Changed {
			c.event("worker", id, text)
		}
		done(res.Matched-len(res.Busy), nil)
		c.needPlan()
	}, func(err error) { done(0, err) })
}
