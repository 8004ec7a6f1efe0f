package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"raftmaster/transport/webui"
)

const (
	// maxLag is how many entries a master may be behind the leader and count as having the whole log: heartbeats of a busy
	// cluster make a few all the time.
	maxLag = 100
	// askLimit bounds one question to a master.
	askLimit = 3 * time.Second
)

// member is a voter, and what it last said.
type member struct {
	Master
	status webui.Status
	drill  webui.DrillStatus
	err    error // of the status
	closed error // of the drill interface
}

// survey is the cluster as it was seen at one time.
type survey struct {
	members []member
	leader  int // index, -1 when nobody leads
	// problem says why this is no cluster to drill in.
	problem string
}

func (s *survey) lead() *member {
	if s.leader < 0 {
		return nil
	}
	return &s.members[s.leader]
}

func ask[T any](ctx context.Context, c Client, endpoint, path string) (T, error) {
	var v T
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err := c.Get(ctx, endpoint, path, &v)
	return v, err
}

func post[T any](ctx context.Context, c Client, endpoint, path string, request any) (T, error) {
	var v T
	err := c.Post(ctx, endpoint, path, request, &v)
	return v, err
}

// look finds all voters through the endpoints, and asks each of them.
func look(ctx context.Context, c Client, endpoints []string) survey {
	first := make([]member, len(endpoints))
	each(len(endpoints), func(i int) { first[i].status, first[i].err = ask[webui.Status](ctx, c, endpoints[i], "/v1/status") })
	out := survey{leader: -1}
	var errs []string
	var known []webui.Peer
	term, cluster := uint64(0), ""
	for i, m := range first {
		if m.err != nil {
			errs = append(errs, endpoints[i]+": "+m.err.Error())
			continue
		}
		switch {
		case cluster != "" && m.status.ClusterID != cluster:
			out.problem = fmt.Sprintf("the endpoints are of different clusters: %s and %s", cluster, m.status.ClusterID)
			return out
		case known == nil || m.status.Term > term || (m.status.Term == term && m.status.State == webui.StateAlive):
			known, term = m.status.Quorum.Peers, m.status.Term
		}
		cluster = m.status.ClusterID
	}
	if known == nil {
		out.problem = "no endpoint answered: " + strings.Join(errs, "; ")
		return out
	}
	for _, p := range known {
		if p.Voter {
			out.members = append(out.members, member{Master: Master{NodeID: p.NodeID, Address: p.Address, WebURL: p.WebURL}})
		}
	}
	out.completeURLs(endpoints, first)
	out.ask(ctx, c)
	return out
}

// Interface is the drill interface of one voter: its state, or why it has none.
type Interface struct {
	Master Master
	Status webui.DrillStatus
	Err    error
}

// Interfaces asks every voter that is found through the endpoints. The error says why none was found.
func Interfaces(ctx context.Context, c Client, endpoints []string) ([]Interface, error) {
	s := look(ctx, c, endpoints)
	if s.problem != "" {
		return nil, errors.New(s.problem)
	}
	out := make([]Interface, len(s.members))
	for i, m := range s.members {
		out[i] = Interface{Master: m.Master, Status: m.drill, Err: m.err}
		if m.err == nil {
			out[i].Err = m.closed
		}
	}
	return out, nil
}

// completeURLs names the web pages of voters that only an endpoint knows.
func (s *survey) completeURLs(endpoints []string, first []member) {
	for i := range s.members {
		for j, f := range first {
			if f.err == nil && f.status.NodeID == s.members[i].NodeID {
				s.members[i].WebURL = endpoints[j] // it has just answered there
			}
		}
	}
}

// ask asks every member for its status and its drills, and finds the leader.
func (s *survey) ask(ctx context.Context, c Client) {
	each(len(s.members), func(i int) {
		m := &s.members[i]
		if m.WebURL == "" {
			m.err = errors.New("its web address is not known")
			return
		}
		if m.status, m.err = ask[webui.Status](ctx, c, m.WebURL, "/v1/status"); m.err == nil {
			m.drill, m.closed = ask[webui.DrillStatus](ctx, c, m.WebURL, "/v1/drill")
		}
	})
	s.leader = -1
	for i := range s.members {
		if m := &s.members[i]; m.err == nil && m.status.State == webui.StateAlive && m.status.LeaseValid &&
			(s.leader < 0 || m.status.Term > s.members[s.leader].status.Term) {
			s.leader = i
		}
	}
}

// each runs f for 0 to n-1 at once and waits.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func isCode(err error, code string) bool {
	var e *webui.Error
	return errors.As(err, &e) && e.Code == code
}

// preflight judges whether one more fault can do no harm. own is the id of the drill that asks: its own claims do not
// count.
func (d *runner) preflight(ctx context.Context) (survey, []Check) {
	s := look(ctx, d.cfg.Client, d.cfg.Endpoints)
	var out []Check
	add := func(name string, problems []string, fine string) {
		c := Check{Name: name, OK: len(problems) == 0, Detail: fine}
		if !c.OK {
			c.Detail = strings.Join(problems, "; ")
		}
		out = append(out, c)
	}
	if s.problem != "" {
		add("masters", []string{s.problem}, "")
		return s, out
	}
	if s.leader < 0 {
		add("leader", []string{"nobody leads with a valid lease: raftctl status"}, "")
		return s, out
	}
	l := s.lead()
	add("leader", nil, fmt.Sprintf("%s, term %d", l.Address, l.status.Term))
	add("masters", s.unhealthy(), fmt.Sprintf("%d voters, all ready, without alarms, logs complete", len(s.members)))
	add("tolerance", s.intolerant(), fmt.Sprintf("%d of %d voters may fail", l.status.Quorum.Tolerance, l.status.Quorum.Voters))
	add("drill interface", s.withoutDrills(), "enabled on every voter")
	add("no other drill", s.otherDrills(d.id), "no claim and no fault on any master")
	workers, err := ask[webui.WorkersAnswer](ctx, d.cfg.Client, l.WebURL, "/v1/workers")
	if err != nil {
		add("workers", []string{"they cannot be asked for: " + err.Error()}, "")
		return s, out
	}
	add("workers", d.troubled(workers.Workers, l.status.NowMillis), fmt.Sprintf("%d workers, none in trouble", len(workers.Workers)))
	return s, out
}

// refusals are the checks that failed.
func refusals(checks []Check) []string {
	var out []string
	for _, c := range checks {
		if !c.OK {
			out = append(out, c.Name+": "+c.Detail)
		}
	}
	return out
}

func (s *survey) unhealthy() (out []string) {
	l := s.lead()
	for i := range s.members {
		m := &s.members[i]
		if m.err != nil {
			out = append(out, fmt.Sprintf("%s does not answer: %v", m.Address, m.err))
			continue
		}
		h := webui.HealthOf(m.status)
		switch {
		case m.status.ClusterID != l.status.ClusterID:
			out = append(out, m.Address+" is of another cluster")
		case !h.Ready:
			out = append(out, m.Address+" is not ready: "+h.Reason)
		case len(h.Alarms) > 0:
			out = append(out, m.Address+" raises an alarm: "+h.Alarms[0])
		}
		if p := peerOf(l.status, m.NodeID); p == nil || !p.Reachable {
			out = append(out, m.Address+" is not in contact with the leader")
		} else if p.Lag != webui.Unknown && p.Lag > maxLag {
			out = append(out, fmt.Sprintf("%s is %d entries behind", m.Address, p.Lag))
		}
	}
	switch {
	case l.status.Transferring:
		out = append(out, "leadership is being handed over")
	case l.status.TakeOver != nil:
		out = append(out, fmt.Sprintf("the last take-over is not over: %d peers have not answered yet", len(l.status.TakeOver.Awaited)))
	}
	return out
}

func peerOf(st webui.Status, nodeID string) *webui.Peer {
	for i := range st.Quorum.Peers {
		if st.Quorum.Peers[i].NodeID == nodeID {
			return &st.Quorum.Peers[i]
		}
	}
	return nil
}

func (s *survey) intolerant() []string {
	q := s.lead().status.Quorum
	if q.Tolerance >= 1 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d voters are in contact and %d are needed: not one may fail", q.Reachable, q.Voters, q.Needed)}
}

func (s *survey) withoutDrills() (out []string) {
	for i := range s.members {
		if m := &s.members[i]; m.err == nil && m.closed != nil {
			why := m.closed.Error()
			if isCode(m.closed, webui.CodeNotFound) {
				why = "start it with --enable-drills"
			}
			out = append(out, m.Address+": "+why)
		}
	}
	return out
}

func (s *survey) otherDrills(own string) (out []string) {
	for i := range s.members {
		m := &s.members[i]
		if c := m.drill.Claim; c != nil && c.Drill != own {
			out = append(out, fmt.Sprintf("%s is claimed by %s, from %s", m.Address, c.By, c.Caller))
		}
		if f := m.drill.Fault; f != nil {
			out = append(out, fmt.Sprintf("%s has a fault: %s by %s", m.Address, f.Kind, f.By))
		}
	}
	return out
}

// troubled lists the workers that a further failure could cost.
func (d *runner) troubled(workers []webui.Worker, now int64) (out []string) {
	for _, w := range workers {
		switch {
		case w.State == "DEAD":
			continue // it is lost already, and nothing is there to lose
		case w.Note != "" && !w.Draining:
			out = append(out, w.ID+": "+w.Note)
		case w.LastHeartbeatMillis > 0 && time.Duration(now-w.LastHeartbeatMillis)*time.Millisecond > d.cfg.HeartbeatLimit:
			out = append(out, fmt.Sprintf("%s: no heartbeat for %d s", w.ID, (now-w.LastHeartbeatMillis)/1000))
		}
	}
	const shown = 5
	if n := len(out); n > shown {
		out = append(out[:shown], fmt.Sprintf("and %d more", n-shown))
	}
	return slices.Clip(out)
}
