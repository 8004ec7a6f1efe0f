package server

import (
	"raftmaster/cluster/security"
	"raftmaster/transport/webui"
)

// newGuard reads the certificates and tokens. It looks after them once Run is called.
func (s *Server) newGuard() (err error) {
	s.guard, err = security.New(s.cfg, security.Options{Log: s.log.Named("security"), Event: func(detail string) {
		s.ring.Add(webui.Event{Kind: "security", Node: s.cfg.Advertise().String(), Term: s.term.Load(), Message: detail})
	}})
	return err
}

// operated puts what an operator did, or tried to do, on the timeline.
func (s *Server) operated(a webui.Action) {
	e := webui.Event{Kind: "operator", Node: s.cfg.Advertise().String(), Term: s.term.Load(), Subject: a.What, Message: a.Request, Actor: a.Actor}
	if a.Err != nil {
		e.Reason = "not done: " + a.Err.Error()
	}
	s.ring.Add(e)
}

// scheme is that of a port with these certificates.
func scheme(tls bool) string {
	if tls {
		return "https://"
	}
	return "http://"
}
