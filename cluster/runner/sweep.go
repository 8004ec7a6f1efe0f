package runner

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

const (
	// sweepPatience is when processes that survive SIGKILL are given up.
	sweepPatience = 15 * time.Second
	sweepFirst    = 20 * time.Millisecond
	sweepMost     = 500 * time.Millisecond
)

// sweeper ends what children leave behind in their groups and sessions, then reaps the children. One goroutine and one
// reading of /proc serve all that ended at about the same time.
type sweeper struct {
	log   hclog.Logger
	grace time.Duration
	queue chan *Process
	quit  chan struct{}
	ended chan struct{}
	once  sync.Once
}

// remains is a dead leader whose group may have other members.
type remains struct {
	leader *Process
	since  time.Time
	asked  bool // SIGTERM was sent
}

func newSweeper(log hclog.Logger, grace time.Duration) *sweeper {
	s := &sweeper{log: log, grace: grace, queue: make(chan *Process), quit: make(chan struct{}), ended: make(chan struct{})}
	go s.run()
	return s
}

// add hands over a child that has ended.
func (s *sweeper) add(p *Process) {
	select {
	case s.queue <- p:
	case <-s.ended:
	}
}

func (s *sweeper) stop() {
	s.once.Do(func() { close(s.quit) })
	<-s.ended
}

func (s *sweeper) run() {
	defer close(s.ended)
	var pending []remains
	pause := sweepFirst
	for {
		var tick <-chan time.Time
		if len(pending) > 0 {
			tick = time.After(pause)
		}
		select {
		case p := <-s.queue:
			pending = append(pending, remains{leader: p, since: time.Now()})
			pending = s.gather(pending)
			pause = sweepFirst
		case <-tick:
			pause = min(2*pause, sweepMost)
		case <-s.quit:
			for _, r := range pending {
				s.reap(r.leader, false)
			}
			return
		}
		pending = s.round(pending)
	}
}

// gather takes those that wait as well, so that one reading of /proc serves them all.
func (s *sweeper) gather(pending []remains) []remains {
	for {
		select {
		case p := <-s.queue:
			pending = append(pending, remains{leader: p, since: time.Now()})
		default:
			return pending
		}
	}
}

// round signals the members of each group and returns the groups that still have some.
func (s *sweeper) round(pending []remains) []remains {
	if len(pending) == 0 {
		return nil
	}
	all, err := scanProcesses()
	if err != nil { // without /proc nobody is asked first
		s.log.Warn("processes cannot be listed; groups of ended processes are killed unseen", "error", err)
		for _, r := range pending {
			r.leader.signalGroup(unix.SIGKILL)
			s.reap(r.leader, true)
		}
		return nil
	}
	members := membersOf(all, pending)
	var left []remains
	for _, r := range pending {
		of := members[r.leader.pid]
		age := time.Since(r.since)
		switch {
		case len(of) == 0:
			s.reap(r.leader, true)
		case age > s.grace+sweepPatience:
			s.log.Error("processes will likely be orphaned: they did not end after SIGKILL", "name", r.leader.name, "group", r.leader.pid, "processes", len(of))
			s.reap(r.leader, false)
		default:
			s.signal(&r, of, age)
			left = append(left, r)
		}
	}
	return left
}

// signal asks first, then forces.
func (s *sweeper) signal(r *remains, members []procStat, age time.Duration) {
	sig := unix.SIGKILL
	if age < s.grace && !r.leader.killedHard() {
		if r.asked {
			return
		}
		r.asked, sig = true, unix.SIGTERM
		s.log.Info("ending what a process left behind", "name", r.leader.name, "group", r.leader.pid, "processes", len(members))
	}
	r.leader.signalGroup(sig)
	for _, m := range members {
		if m.group == r.leader.pid {
			continue
		}
		if err := signalExactly(m, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			s.log.Warn("cannot signal a process", "name", r.leader.name, "pid", m.pid, "error", err)
		}
	}
}

func (s *sweeper) reap(p *Process, gone bool) {
	if err := p.reap(gone); err != nil {
		s.log.Warn("reap", "name", p.name, "error", err)
	}
}

// killedHard is true when the group has had SIGKILL from us already.
func (p *Process) killedHard() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sentKill
}

// membersOf finds the living members of each group and session, without the leader.
func membersOf(all []procStat, pending []remains) map[int][]procStat {
	leaders := make(map[int]bool, len(pending))
	for _, r := range pending {
		leaders[r.leader.pid] = true
	}
	members := map[int][]procStat{}
	for _, s := range all {
		if s.ended() || leaders[s.pid] {
			continue
		}
		if leaders[s.group] {
			members[s.group] = append(members[s.group], s)
		} else if leaders[s.session] {
			members[s.session] = append(members[s.session], s)
		}
	}
	return members
}
