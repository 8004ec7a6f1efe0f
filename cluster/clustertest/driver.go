package clustertest

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"raftmaster/transport/sparkmsg"
)

// Constants of StandaloneAppClient.scala.
const (
	registrationTimeout = 20 * time.Second
	registrationRetries = 3
)

// driver is one driver process: StandaloneAppClient as Spark has it, and what an application does with it.
type driver struct {
	*peer
	desc    *sparkmsg.ApplicationDescription
	release string
	dynamic bool
	// crashing: its executors never last. condemned: an operator may have ended it.
	crashing, condemned bool

	id         string // "" until registered
	registered bool
	master     *masterRef
	attempt    int

	targets map[int32]int32 // what it wants, by profile
	acked   map[int32]bool  // the master has said true to it
	asking  bool
	ids     []int32 // executors that it was told of

	unregistered bool   // it has said so
	removed      string // why the master ended it, as it was told
	gaveUp       bool
	born         time.Duration
}

// bound gives a description whose payload can be stored, made once for each family.
var bound = sync.OnceValue(func() map[sparkmsg.Family]*sparkmsg.ApplicationDescription {
	out := map[sparkmsg.Family]*sparkmsg.ApplicationDescription{}
	for _, fam := range []sparkmsg.Family{sparkmsg.FamilyB, sparkmsg.FamilyE} {
		d := &sparkmsg.ApplicationDescription{Name: "app", User: "spark", Command: sparkmsg.Command{MainClass: "Executor"},
			DefaultProfile: sparkmsg.ResourceProfile{ExecutorResources: []sparkmsg.ExecutorResourceRequest{{ResourceName: "memory", Amount: 1024}}}}
		if err := d.Bind(fam); err != nil {
			panic(fmt.Sprintf("clustertest: cannot bind a description to family %v: %v", fam, err))
		}
		out[fam] = d
	}
	return out
})

// newDriver starts a driver, at an address of its own or at the one of a driver that is gone.
func (s *Sim) newDriver(addr *sparkmsg.Address) *driver {
	n := len(s.drivers)
	at := s.newAddress(fmt.Sprintf("client%d", n))
	if addr != nil {
		at = *addr
	}
	fam, release := sparkmsg.FamilyB, "3.5.9"
	if s.chance(0.25) {
		fam, release = sparkmsg.FamilyE, "4.3.0"
	}
	d := &driver{release: release, dynamic: s.chance(0.5), targets: map[int32]int32{}, acked: map[int32]bool{}, born: s.now}
	d.crashing = s.chance(s.opt.Load.CrashLoop)
	d.peer = newPeer(s, fmt.Sprintf("driver%d", n), endpointAppClient, at, fam)
	d.desc = d.describe()
	d.onMessage, d.onDisconnect = d.handle, func(sparkmsg.Address) {}
	s.drivers = append(s.drivers, d)
	s.net.listen(d.proc)
	d.note("starts at %v: %v %s, dynamic %v, max cores %d", d.addr, fam, release, d.dynamic, *d.desc.MaxCores)
	d.register(1)
	d.startActing()
	return d
}

func (d *driver) describe() *sparkmsg.ApplicationDescription {
	s := d.s
	desc := *bound()[d.fam]
	desc.Name = d.name
	if err := desc.Bind(d.fam); err != nil { // no two drivers have the same description
		s.fail("the description of %s cannot be bound: %v", d.name, err)
	}
	desc.AppUIURL = "http://" + d.addr.String() + "/ui"
	mem := int64(512 * (1 + s.rng.IntN(4)))
	desc.DefaultProfile.ExecutorResources = []sparkmsg.ExecutorResourceRequest{{ResourceName: "memory", Amount: mem}}
	if d.dynamic || s.chance(0.7) {
		desc.DefaultProfile.ExecutorResources = append(desc.DefaultProfile.ExecutorResources,
			sparkmsg.ExecutorResourceRequest{ResourceName: "cores", Amount: int64(1 + s.rng.IntN(2))})
	}
	if n := s.gpuNeed(); n > 0 {
		desc.DefaultProfile.ExecutorResources = append(desc.DefaultProfile.ExecutorResources,
			sparkmsg.ExecutorResourceRequest{ResourceName: gpu, Amount: int64(n)})
	}
	cores := int32(1 + s.rng.IntN(8))
	desc.MaxCores = &cores
	if d.dynamic {
		zero := int32(0)
		desc.InitialExecutorLimit = &zero
	}
	return &desc
}

// register is one attempt of B-106: every master in a thread of its own.
func (d *driver) register(attempt int) {
	d.attempt = attempt
	for i := range d.s.masters {
		d.tryMaster(masterAddress(i), attempt)
	}
	d.after(registrationTimeout, func() {
		switch {
		case d.registered || d.unregistered:
		case attempt >= registrationRetries:
			d.gaveUp = true
			d.die("All masters are unresponsive! Giving up.")
		default:
			d.register(attempt + 1)
		}
	})
}

// tryMaster registers with one master. A thread that is past its check sends even when another one has succeeded.
func (d *driver) tryMaster(addr sparkmsg.Address, attempt int) {
	if d.registered {
		return
	}
	d.find(addr, func(c *peerConn, found bool) {
		if found && d.attempt == attempt {
			c.send(&sparkmsg.RegisterApplication{AppDescription: d.desc, Driver: d.ref()})
		}
	})
}

func (d *driver) die(why string) {
	if d.up {
		d.note("ends: %s", why)
		d.s.net.die(d.proc, true)
		d.s.driverGone(d)
	}
}

func (d *driver) handle(c *peerConn, msg sparkmsg.Message) {
	switch m := msg.(type) {
	case *sparkmsg.RegisteredApplication:
		d.s.check.registeredApp(d, m.AppID)
		d.id, d.registered = m.AppID, true
		d.master = &masterRef{addr: *m.Master.Address, conn: c}
		d.sync()
	case *sparkmsg.MasterChanged:
		d.master = &masterRef{addr: *m.Master.Address, conn: c}
		c.send(&sparkmsg.MasterChangeAcknowledged{AppID: d.id})
	case *sparkmsg.ApplicationRemoved:
		d.removed = m.Message
		d.s.check.appRemoved(d, m.Message)
		d.die("Master removed our application: " + m.Message)
	case *sparkmsg.ExecutorAdded:
		d.s.check.executorAdded(d, m.ID)
		if d.registered {
			d.ids = append(d.ids, m.ID)
		}
	case *sparkmsg.ExecutorUpdated, *sparkmsg.WorkerRemoved:
	default:
		d.s.fail("%s was sent %T, which no application client understands", d.name, msg)
	}
}

// startActing begins what the application does while the simulation is active.
func (d *driver) startActing() {
	load := d.s.opt.Load
	d.sometimes(load.Target, func() {
		if d.dynamic {
			d.want(0, int32(d.s.rng.IntN(5)))
			if d.s.chance(0.2) {
				d.want(1, int32(d.s.rng.IntN(3)))
			}
		}
	})
	d.sometimes(load.KillExecutors, d.killSome)
	d.sometimes(load.Unregister, d.unregister)
	d.every(3*time.Second, d.sync)
}

// sometimes does something at random moments, until the faults are healed.
func (d *driver) sometimes(mean time.Duration, fn func()) {
	if mean == 0 {
		return
	}
	d.after(d.s.exponential(mean), func() {
		if d.s.healed {
			return
		}
		if d.registered && !d.unregistered {
			fn()
		}
		d.sometimes(mean, fn)
	})
}

func (d *driver) want(profile, total int32) {
	d.targets[profile], d.acked[profile] = total, false
	d.sync()
}

// sync asks for the executors that it wants until the master has said true.
func (d *driver) sync() {
	if d.asking || d.master == nil || d.unregistered {
		return
	}
	m := &sparkmsg.RequestExecutors{AppID: d.id}
	sent := map[int32]int32{}
	for profile := int32(0); profile < 2; profile++ {
		if total, ok := d.targets[profile]; ok && !d.acked[profile] {
			m.ResourceProfileToTotalExecs = append(m.ResourceProfileToTotalExecs, sparkmsg.ProfileTotal{Profile: d.profile(profile), Total: total})
			sent[profile] = total
		}
	}
	if len(sent) == 0 {
		return
	}
	d.asking = true
	d.master.conn.ask(endpointMaster, m, func(msg sparkmsg.Message, err error) {
		d.asking = false
		yes, ok := msg.(*sparkmsg.Boolean)
		switch {
		case err != nil || !ok:
			d.note("targets were not taken: %v", err)
		case !yes.Value:
			d.s.check.targetsRefused(d)
		default:
			for profile := int32(0); profile < 2; profile++ {
				if total, asked := sent[profile]; asked && total == d.targets[profile] {
					d.acked[profile] = true
				}
			}
		}
	})
}

func (d *driver) profile(id int32) sparkmsg.ResourceProfile {
	p := d.desc.DefaultProfile
	p.ID = id
	if id > 0 {
		p.ExecutorResources = []sparkmsg.ExecutorResourceRequest{{ResourceName: "memory", Amount: 1024}, {ResourceName: "cores", Amount: 1}}
		if d.s.opt.Load.GPU > 0 && d.addr.Port%2 == 0 {
			p.ExecutorResources = append(p.ExecutorResources, sparkmsg.ExecutorResourceRequest{ResourceName: gpu, Amount: 1})
		}
	}
	return p
}

// killSome asks for the end of an executor or two.
func (d *driver) killSome() {
	var ids []string
	for range 1 + d.s.rng.IntN(2) {
		if id, ok := pick(d.s, d.ids); ok {
			ids = append(ids, strconv.Itoa(int(id)))
		}
	}
	if len(ids) > 0 && d.master != nil {
		d.master.conn.ask(endpointMaster, &sparkmsg.KillExecutors{AppID: d.id, ExecutorIDs: ids}, func(sparkmsg.Message, error) {})
	}
}

// unregister ends the application in order: the message, and then the process.
func (d *driver) unregister() {
	d.unregistered = true
	d.note("unregisters")
	if d.master != nil {
		d.master.conn.send(&sparkmsg.UnregisterApplication{AppID: d.id})
	}
	d.after(d.s.between(10*time.Millisecond, 2*time.Second), func() { d.die("done") })
}

// driverGone ends the executors of a driver that is gone: they notice that its connection closed, and exit with 0.
func (s *Sim) driverGone(d *driver) {
	for _, w := range s.workers {
		w := w
		w.after(s.between(50*time.Millisecond, 3*time.Second), func() { w.endExecutorsOf(d.id) })
	}
}

func (w *worker) endExecutorsOf(app string) {
	var gone []*executor
	for _, e := range w.execs {
		if e.key.AppID == app && app != "" && e.state == sparkmsg.ExecutorRunning {
			gone = append(gone, e)
		}
	}
	for _, e := range gone {
		code := int32(0)
		w.finish(e, sparkmsg.ExecutorExited, &code)
	}
}

// appFamily gives the family of the driver that has an application.
func (s *Sim) appFamily(appID string) sparkmsg.Family {
	if d := s.driverOf(appID); d != nil {
		return d.fam
	}
	return sparkmsg.FamilyUnknown
}

func (s *Sim) driverOf(appID string) *driver {
	for _, d := range s.drivers {
		if d.id == appID {
			return d
		}
	}
	return nil
}

// crashLoops tells whether an application's executors end as soon as they run. Where no limit ends such an application,
// it works in the end, so that the cluster can settle.
func (s *Sim) crashLoops(appID string) bool {
	d := s.driverOf(appID)
	return d != nil && d.crashing && (!s.healed || !s.opt.UnlimitedRetries)
}

// releaseAt is what the web page at a URL says.
func (s *Sim) releaseAt(url string) string {
	for _, w := range s.workers {
		if w.up && !w.paused && url == "http://"+w.addr.String()+"/ui" {
			return w.release
		}
	}
	for _, d := range s.drivers {
		if d.up && !d.paused && url == "http://"+d.addr.String()+"/ui" {
			return d.release
		}
	}
	return ""
}
