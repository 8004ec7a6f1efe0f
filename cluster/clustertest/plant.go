package clustertest

import (
	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// planted gives what is written for a message, or for one more copy of it: itself, unless a bug is planted.
func (s *Sim) planted(p *push, copied int) sparkmsg.Message {
	switch m := p.msg.(type) {
	case *sparkmsg.RegisteredApplication:
		if copied > 0 {
			return &sparkmsg.RegisteredApplication{AppID: m.AppID + "-x", Master: m.Master}
		}
	case *sparkmsg.LaunchExecutor:
		if s.opt.Plant.SameAddress && len(m.Resources) > 0 {
			same := *m
			same.Resources = []sparkmsg.ResourceInformation{{Name: gpu, Addresses: []string{"9"}}}
			return &same
		}
	}
	return p.msg
}

// plantedCommand gives what is proposed for a command, likewise.
func (s *Sim) plantedCommand(cmd fsm.Command) fsm.Command {
	switch c := cmd.(type) {
	case fsm.SetTargets:
		if s.opt.Plant.LoseTargets {
			c.Targets = nil
			return c
		}
	case fsm.SubmitDriver:
		if s.opt.Plant.ForgetClients {
			c.Client = ""
			return c
		}
	case fsm.PlaceDrivers:
		if s.opt.Plant.JumpQueue && len(c.Placements) > 1 {
			c.Placements = c.Placements[1:]
			return c
		}
	}
	return cmd
}

// plantedAnswer gives what a client is answered, likewise.
func (s *Sim) plantedAnswer(msg sparkmsg.Message) sparkmsg.Message {
	if m, ok := msg.(*sparkmsg.SubmitDriverResponse); ok && s.opt.Plant.NewIDs && m.DriverID != nil {
		id := *m.DriverID + "-x"
		return &sparkmsg.SubmitDriverResponse{Success: true, DriverID: &id, Message: m.Message}
	}
	return msg
}

// copies tells how often a message is written: once, unless a bug is planted.
func (s *Sim) copies(msg sparkmsg.Message) int {
	switch msg.(type) {
	case *sparkmsg.LaunchExecutor, *sparkmsg.LaunchDriver:
		if s.opt.Plant.RepeatLaunch {
			return 2
		}
	case *sparkmsg.RegisteredApplication:
		if s.opt.Plant.TwoIDs {
			return 2
		}
	case *sparkmsg.KillExecutor, *sparkmsg.KillDriver:
		if s.opt.Plant.LoseKills {
			return 0
		}
	case *sparkmsg.RegisteredWorker:
		if s.opt.Plant.LoseRegistered && s.now > s.opt.Active/2 {
			return 0
		}
	}
	return 1
}
