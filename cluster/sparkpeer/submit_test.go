package sparkpeer

import (
	"context"
	"errors"
	"testing"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// A client takes the leader's answer, whichever master gives it, and tells a refusal from a standby's.
func TestSubmitClientTakesTheLeadersAnswer(t *testing.T) {
	standby, leader := newMaster(t, "127.0.0.1:0"), newMaster(t, "127.0.0.1:0")
	standby.set(func() { standby.standby = true })
	nobody := frame.Address{Host: "127.0.0.1", Port: 1}
	c, err := NewSubmitClient(SubmitConfig{Common: Common{Masters: []frame.Address{standby.addr, nobody, leader.addr}, Family: sparkmsg.FamilyE}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := c.Submit(ctx, DriverJob("com.example.Job", 1, 512, true, leader.addr))
	if err != nil || !r.Success || *r.DriverID != "driver-1" {
		t.Fatalf("the submission gave %+v, %v", r, err)
	}
	desc := leader.seen("RequestSubmitDriver")[0].(*sparkmsg.RequestSubmitDriver).DriverDescription
	if desc.Command.Arguments[2] != "com.example.Job" || !desc.Supervise || desc.Cores != 1 || desc.Mem != 512 {
		t.Errorf("the master was given %+v", desc)
	}
	if k, err := c.Kill(ctx, "driver-2"); err != nil || k.Success || k.DriverID != "driver-2" {
		t.Errorf("the kill of an unknown driver gave %+v, %v", k, err)
	}
	if k, err := c.KillAll(ctx); err != nil || !k.Success {
		t.Errorf("the kill of all gave %+v, %v", k, err)
	}
	s, err := c.WaitDriver(ctx, "driver-1", func(s *sparkmsg.DriverStatusResponse) bool { return s.Found })
	if err != nil || *s.State != sparkmsg.DriverRunning {
		t.Errorf("the status is %+v, %v", s, err)
	}
	leader.set(func() { leader.standby = true })
	if _, err := c.Status(ctx, "driver-1"); !errors.Is(err, ErrNoLeader) {
		t.Errorf("without a leader the status gave %v", err)
	}
}
