package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/node"
	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
	"raftmaster/transport/webui"
)

// ErrDrill ends a master because a drill wants it to: whoever runs the master must start it again.
var ErrDrill = errors.New("ended by a drill, to be started again by its supervisor")

// errDrillExit is ErrDrill for an end without order, where the process is not the master's alone.
var errDrillExit = fmt.Errorf("killed: %w", ErrDrill)

const (
	// answerFirst is how long a fault waits for the answer to the call that has asked for it to get through.
	answerFirst = 50 * time.Millisecond
	// maxDrillText bounds what a drill says of itself.
	maxDrillText = 128
)

// drills is the drill interface of a master. A nil *drills is the rule: no hook is set, no route is there.
type drills struct {
	log   hclog.Logger
	self  config.Address
	event func(webui.Event)
	// fail ends the master; inProcess: others live in this process.
	fail      func(error)
	inProcess bool
	// brief and view are set when the node is up, before anybody can call.
	brief func() webui.Status
	view  func() fsm.View
	proc  processInfo

	// The faults. valve holds back traffic with masters; freeze, in shared processes, all traffic of this master.
	valve, freeze *raftnet.Valve
	full          atomic.Bool
	delay         atomic.Int64 // of a sync, in nanoseconds

	journal drillJournal

	mu     sync.Mutex
	claim  *webui.DrillClaim
	until  time.Time   // of the claim, on the monotonic clock
	lapse  *time.Timer // of the claim
	fault  *webui.DrillFault
	end    *time.Timer // of the fault
	undo   func()
	last   *webui.DrillFault
	over   string // the drill that was released last: a renewal of it that was on its way is no claim
	closed bool
	wg     sync.WaitGroup
}

// newDrills makes the interface when the configuration wants it, nil otherwise.
func (s *Server) newDrills() *drills {
	if !s.cfg.EnableDrills {
		return nil
	}
	d := &drills{
		log: s.log.Named("drill"), self: s.cfg.Advertise(), event: s.ring.Add, fail: s.fail, inProcess: s.cfg.DrillsInProcess,
		valve: raftnet.NewValve(), proc: findProcess(),
	}
	if d.inProcess {
		d.freeze = raftnet.NewValve()
	}
	d.log.Warn("DRILLS ARE ENABLED: whoever may change things here can have this master killed, paused and cut off (raftctl drill)")
	return d
}

// webDrills are the drills for the web handler: no interface at all when there are none.
func (s *Server) webDrills() webui.Drills {
	if s.drills == nil {
		return nil
	}
	return s.drills
}

// diskHooks are the faults of the disk, for the node.
func (d *drills) diskHooks() node.DiskHooks {
	if d == nil {
		return node.DiskHooks{}
	}
	return node.DiskHooks{
		WriteFault: func() error {
			if d.full.Load() {
				return fmt.Errorf("drill: %w", syscall.ENOSPC)
			}
			return nil
		},
		BeforeSync: func() {
			if wait := d.delay.Load(); wait > 0 {
				time.Sleep(time.Duration(wait))
			}
		},
	}
}

// faults are the faults of the network, for the node.
func (d *drills) faults() raftnet.Faults {
	if d == nil {
		return raftnet.Faults{}
	}
	return raftnet.Faults{Valve: d.valve}
}

// listener brings a listener under the valve of a pause, where that is needed.
func (d *drills) listener(ln net.Listener) net.Listener {
	if d == nil {
		return ln
	}
	return d.freeze.Listener(ln)
}

// dial is how the master dials workers and drivers; nil: as ever.
func (d *drills) dial() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if d == nil || d.freeze == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := d.freeze.WaitDial(ctx, addr); err != nil {
			return nil, err
		}
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return d.freeze.Wrap(c), nil
	}
}

// close ends the fault and everything that waits: the master stops.
func (d *drills) close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	d.endLocked(webui.DrillEndedStopped)
	d.dropClaim()
	d.closed = true
	d.mu.Unlock()
	d.valve.Stop()
	d.freeze.Stop()
	d.wg.Wait()
}

// DrillStatus implements webui.Drills.
func (d *drills) DrillStatus() webui.DrillStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.statusLocked()
}

func (d *drills) statusLocked() webui.DrillStatus {
	st := d.brief()
	out := webui.DrillStatus{Node: d.self.String(), NodeID: st.NodeID, BootID: st.BootID, NowMillis: time.Now().UnixMilli(),
		ExitMethod: "SIGKILL", PauseMethod: "SIGSTOP", Supervisor: d.proc.supervisor, StartCommand: d.proc.command}
	if d.inProcess {
		out.ExitMethod = "the master in its shared process ends without order"
		out.PauseMethod = "all connections of the master in its shared process are held back"
		out.Supervisor = "the process that it shares"
	}
	for _, p := range []struct{ from, to **webui.DrillFault }{{&d.fault, &out.Fault}, {&d.last, &out.Last}} {
		if *p.from != nil {
			f := **p.from
			*p.to = &f
		}
	}
	if d.claim != nil {
		c := *d.claim
		out.Claim = &c
	}
	return out
}

func drillRefused(format string, args ...any) error {
	return &webui.Error{Code: webui.CodeRefused, Message: fmt.Sprintf(format, args...)}
}

func drillBadRequest(format string, args ...any) error {
	return &webui.Error{Code: webui.CodeBadRequest, Message: fmt.Sprintf(format, args...)}
}

// Claim implements webui.Drills.
func (d *drills) Claim(ctx context.Context, req webui.DrillClaimRequest) (webui.DrillStatus, error) {
	switch {
	case req.Drill == "" || len(req.Drill) > maxDrillText || len(req.By) > maxDrillText:
		return webui.DrillStatus{}, drillBadRequest("a claim needs the id of a drill, and both that and its author have at most %d bytes", maxDrillText)
	case req.TTLMillis < webui.DrillMinClaimMillis || req.TTLMillis > webui.DrillMaxClaimMillis:
		return webui.DrillStatus{}, drillBadRequest("ttl_millis must be from %d to %d", webui.DrillMinClaimMillis, webui.DrillMaxClaimMillis)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lapsedLocked()
	switch {
	case d.closed:
		return webui.DrillStatus{}, drillRefused("this master is stopping")
	case d.over == req.Drill:
		return webui.DrillStatus{}, drillRefused("the drill %s is over", req.Drill)
	case d.claim != nil && d.claim.Drill != req.Drill:
		return webui.DrillStatus{}, drillRefused("another drill is going on: %s by %s, from %s, until %s at the latest unless it is renewed", d.claim.Drill, d.claim.By,
			d.claim.Caller, time.UnixMilli(d.claim.ExpiresMillis).Format("15:04:05.000"))
	case d.claim == nil:
		d.claim = &webui.DrillClaim{Drill: req.Drill, By: req.By, Caller: webui.CallerOf(ctx)}
		d.announce("claimed", d.claim.Drill, "a drill may begin: "+d.who())
	}
	ttl := time.Duration(req.TTLMillis) * time.Millisecond
	d.until = time.Now().Add(ttl)
	d.claim.ExpiresMillis = d.until.UnixMilli()
	if d.lapse != nil {
		d.lapse.Stop()
	}
	d.lapse = time.AfterFunc(ttl, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lapsedLocked()
	})
	return d.statusLocked(), nil
}

// lapsedLocked ends what a drill has left behind that is heard of no more. The caller holds mu.
func (d *drills) lapsedLocked() {
	if d.claim == nil || time.Until(d.until) > 0 {
		return
	}
	how := webui.DrillEndedAbandoned
	if d.fault != nil && d.fault.EndsMillis > 0 && time.Now().UnixMilli() >= d.fault.EndsMillis {
		how = webui.DrillEndedDuration // after a pause both are due
	}
	d.endLocked(how)
	d.announce("lapsed", d.claim.Drill, "nothing was heard of the drill: "+d.who())
	d.dropClaim()
}

func (d *drills) dropClaim() {
	if d.lapse != nil {
		d.lapse.Stop()
	}
	d.claim, d.lapse = nil, nil
}

// Release implements webui.Drills.
func (d *drills) Release(_ context.Context, req webui.DrillReleaseRequest) (webui.DrillStatus, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.claim == nil {
		d.over = req.Drill
		return d.statusLocked(), nil
	}
	if d.claim.Drill != req.Drill {
		return webui.DrillStatus{}, drillRefused("the claim is that of another drill, %s by %s", d.claim.Drill, d.claim.By)
	}
	d.over = req.Drill
	d.endLocked(webui.DrillEndedAsked)
	d.announce("released", d.claim.Drill, "the drill is over: "+d.who())
	d.dropClaim()
	return d.statusLocked(), nil
}

func (d *drills) who() string {
	if d.claim == nil {
		return "nobody"
	}
	return fmt.Sprintf("%s by %s from %s", d.claim.Drill, d.claim.By, d.claim.Caller)
}

// announce says in the log and in the history what a drill does.
func (d *drills) announce(what, subject, text string) {
	d.log.Warn("DRILL", "what", what, "subject", subject, "detail", text)
	d.event(webui.Event{Kind: "drill", Node: d.self.String(), Subject: subject, Message: what + ": " + text})
}

// Inject implements webui.Drills.
func (d *drills) Inject(_ context.Context, req webui.DrillFaultRequest) (webui.DrillStatus, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.claim == nil || d.claim.Drill != req.Drill {
		return webui.DrillStatus{}, drillRefused("%s has no claim of the drill %q: whoever wants a fault claims every master first", d.self, req.Drill)
	}
	if req.Kind == webui.DrillEnd {
		d.endLocked(webui.DrillEndedAsked)
		return d.statusLocked(), nil
	}
	peers, err := d.check(&req)
	if err != nil {
		return webui.DrillStatus{}, err
	}
	if req.DryRun {
		return d.statusLocked(), nil
	}
	return d.begin(req, peers)
}

// check refuses what cannot be done, or must not. It gives the addresses and node ids that a partition concerns.
func (d *drills) check(req *webui.DrillFaultRequest) ([]string, error) {
	ends := req.Kind == webui.DrillExit || req.Kind == webui.DrillRestart
	switch {
	case d.closed:
		return nil, drillRefused("this master is stopping")
	case d.fault != nil:
		return nil, drillRefused("a fault is active here already: %s until %s", d.fault.Kind, time.UnixMilli(d.fault.EndsMillis).Format("15:04:05.000"))
	case !ends && (req.DurationMillis < 1 || req.DurationMillis > webui.DrillMaxMillis):
		return nil, drillBadRequest("duration_millis must be from 1 to %d", webui.DrillMaxMillis)
	case req.Kind == webui.DrillSlowDisk && (req.DelayMillis < 1 || req.DelayMillis > webui.DrillMaxDelayMillis):
		return nil, drillBadRequest("delay_millis must be from 1 to %d", webui.DrillMaxDelayMillis)
	}
	st := d.brief()
	if q := st.Quorum; q.Tolerance < 1 {
		return nil, drillRefused("as %s sees it, %d of %d voters are in contact and %d are needed: the loss of one more would stop the cluster",
			d.self, q.Reachable, q.Voters, q.Needed)
	}
	if req.Kind == webui.DrillPause && !d.inProcess && d.proc.pid == 1 {
		return nil, drillRefused("the master is process 1 of its container, which cannot be stopped from inside: pause the container instead")
	}
	if req.Kind != webui.DrillPartition {
		return nil, nil
	}
	return partitionPeers(st.Quorum.Peers, req.Peers)
}

// partitionPeers resolves the masters that a partition concerns; none named means all others.
func partitionPeers(peers []webui.Peer, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		i := slices.IndexFunc(peers, func(p webui.Peer) bool { return !p.Self && (p.Address == name || p.NodeID == name) })
		if name == "" || i < 0 {
			return nil, &webui.Error{Code: webui.CodeNotFound, Message: fmt.Sprintf("no other master has the id or address %q", name)}
		}
		out = append(out, peers[i].Address, peers[i].NodeID)
	}
	if len(names) == 0 {
		for _, p := range peers {
			if !p.Self {
				out = append(out, p.Address, p.NodeID)
			}
		}
	}
	out = slices.DeleteFunc(out, func(s string) bool { return s == "" })
	if len(out) == 0 {
		return nil, drillRefused("there is no other master to be cut off from")
	}
	return out, nil
}

// hostPorts are the addresses of a list that names masters by address and by node id.
func hostPorts(names []string) []string {
	var out []string
	for _, n := range names {
		if _, _, err := net.SplitHostPort(n); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// begin makes the fault. The caller holds mu.
func (d *drills) begin(req webui.DrillFaultRequest, peers []string) (webui.DrillStatus, error) {
	now, duration := time.Now(), time.Duration(req.DurationMillis)*time.Millisecond
	f := &webui.DrillFault{Kind: req.Kind, Drill: req.Drill, By: d.claim.By, BeganMillis: now.UnixMilli()}
	late := time.Duration(0)
	switch req.Kind {
	case webui.DrillExit, webui.DrillRestart:
		late, duration = answerFirst, 0
		f.Detail = "the master ends"
	case webui.DrillPause:
		late = answerFirst
		f.Detail = "the master stops for " + duration.String()
	case webui.DrillPartition:
		f.Detail = "nothing passes between this master and " + strings.Join(hostPorts(peers), " ")
	case webui.DrillSlowDisk:
		f.Detail = fmt.Sprintf("each sync of the log takes %d ms longer", req.DelayMillis)
	case webui.DrillFullDisk:
		f.Detail = "each write of the log fails: no space left on device"
	}
	if duration > 0 {
		f.EndsMillis = now.Add(late + duration).UnixMilli()
	}
	undo, err := d.apply(req, peers, late, duration)
	if err != nil {
		return webui.DrillStatus{}, &webui.Error{Code: webui.CodeInternal, Message: "the fault cannot be made: " + err.Error()}
	}
	d.fault, d.undo = f, undo
	d.announce("begins", req.Kind, f.Detail+"; "+d.who())
	if duration > 0 {
		d.end = time.AfterFunc(late+duration, func() { d.due(f) })
	}
	out := d.statusLocked()
	out.BeginsInMillis = late.Milliseconds()
	return out, nil
}

// apply does what a fault is, and gives what takes it back. The caller of both holds mu.
func (d *drills) apply(req webui.DrillFaultRequest, peers []string, late, duration time.Duration) (undo func(), err error) {
	switch req.Kind {
	case webui.DrillExit:
		return d.later(late, d.exit), nil
	case webui.DrillRestart:
		return d.later(late, func() { d.fail(fmt.Errorf("restart: %w", ErrDrill)) }), nil
	case webui.DrillPause:
		if d.inProcess {
			over := false // guarded by mu: what is about to begin must not begin after the end
			stop := d.later(late, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				if !over {
					d.freeze.Shut()
					d.valve.Shut()
				}
			})
			return func() { over = true; stop(); d.valve.Open(); d.freeze.Open() }, nil
		}
		return d.stopProcess(late, duration)
	case webui.DrillPartition:
		d.valve.Shut(peers...)
		return d.valve.Open, nil
	case webui.DrillSlowDisk:
		d.delay.Store(int64(time.Duration(req.DelayMillis) * time.Millisecond))
		return func() { d.delay.Store(0) }, nil
	case webui.DrillFullDisk:
		d.full.Store(true)
		return func() { d.full.Store(false) }, nil
	}
	return nil, fmt.Errorf("no fault is called %q", req.Kind)
}

// later runs f on a goroutine of its own unless the returned function is called before.
func (d *drills) later(after time.Duration, f func()) (cancel func()) {
	t := time.AfterFunc(after, f)
	return func() { t.Stop() }
}

// due ends a fault whose time is over.
func (d *drills) due(f *webui.DrillFault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault == f {
		d.endLocked(webui.DrillEndedDuration)
	}
}

// endLocked ends the active fault, if there is one. The caller holds mu.
func (d *drills) endLocked(how string) {
	f := d.fault
	if f == nil {
		return
	}
	if d.end != nil {
		d.end.Stop()
	}
	d.undo()
	f.Ended, f.EndedMillis = how, time.Now().UnixMilli()
	d.last, d.fault, d.end, d.undo = f, nil, nil, nil
	d.announce("ends", f.Kind, "by "+how+", after "+time.Duration((f.EndedMillis-f.BeganMillis)*int64(time.Millisecond)).String()+"; "+d.who())
}
