package sparkpeer

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// AppConfig describes an application client. A zero field means its default.
type AppConfig struct {
	Common
	Name string // app
	User string // spark
	// MaxCores is spark.cores.max, nil for none.
	MaxCores *int32
	// CoresPerExecutor is spark.executor.cores, nil for all of a worker.
	CoresPerExecutor *int32
	MemoryMB         int32 // of an executor; 1024
	// InitialLimit is 0 under dynamic allocation, nil otherwise.
	InitialLimit *int32
	// Description replaces the one built from the fields above.
	Description *sparkmsg.ApplicationDescription

	RegisterEvery time.Duration // 20 s (B-106)
	RegisterTries int           // 3
	AskTimeout    time.Duration // 120 s
}

func (c *AppConfig) setDefaults() {
	c.Common.setDefaults()
	if c.Name == "" {
		c.Name = "app"
	}
	if c.User == "" {
		c.User = "spark"
	}
	if c.MemoryMB == 0 {
		c.MemoryMB = 1024
	}
	if c.RegisterTries == 0 {
		c.RegisterTries = 3
	}
	orDefault(&c.RegisterEvery, 20*time.Second)
	orDefault(&c.AskTimeout, 120*time.Second)
}

// AppSwitches change what a running application client does. They are safe for concurrent use.
type AppSwitches struct {
	NoAcknowledge atomic.Bool // does not answer MasterChanged
	ForgetID      atomic.Bool // answers MasterChanged as if it had never been registered
}

// AppExecutor is what a driver knows of an executor.
type AppExecutor struct {
	WorkerID, HostPort string
	Cores, MemoryMB    int32
	State              sparkmsg.ExecutorState
}

// App plays the application client of a driver.
type App struct {
	node
	cfg      AppConfig
	Switches AppSwitches
	desc     *sparkmsg.ApplicationDescription

	// Guarded by node.mu.
	id        string
	ids       []string // all ids ever received
	master    *frame.Address
	removed   string // the message of ApplicationRemoved
	dead      string
	executors map[int32]*AppExecutor
	tries     int
}

// NewApp starts an application client, which begins to register with all masters. The caller must Close it.
func NewApp(cfg AppConfig) (*App, error) {
	cfg.setDefaults()
	a := &App{cfg: cfg, desc: cfg.Description, executors: map[int32]*AppExecutor{}}
	if err := a.open(cfg.Common, "AppClient", a); err != nil {
		return nil, err
	}
	if a.desc == nil {
		a.desc = a.describe()
		if err := a.desc.Bind(a.node.cfg.Family); err != nil {
			a.shut()
			return nil, fmt.Errorf("sparkpeer: application description: %w", err)
		}
	}
	a.run(a.registerTick)
	return a, nil
}

// describe builds what StandaloneSchedulerBackend builds.
func (a *App) describe() *sparkmsg.ApplicationDescription {
	profile := sparkmsg.ResourceProfile{
		ExecutorResources: []sparkmsg.ExecutorResourceRequest{{ResourceName: "memory", Amount: int64(a.cfg.MemoryMB)}},
		TaskResources:     []sparkmsg.TaskResourceRequest{{ResourceName: "cpus", Amount: 1}},
	}
	if a.cfg.CoresPerExecutor != nil {
		profile.ExecutorResources = append(profile.ExecutorResources,
			sparkmsg.ExecutorResourceRequest{ResourceName: "cores", Amount: int64(*a.cfg.CoresPerExecutor)})
	}
	return &sparkmsg.ApplicationDescription{
		Name: a.cfg.Name, User: a.cfg.User, AppUIURL: "http://" + a.addr.Host + ":4040", MaxCores: a.cfg.MaxCores,
		InitialExecutorLimit: a.cfg.InitialLimit, DefaultProfile: profile,
		Command: sparkmsg.Command{
			MainClass: "org.apache.spark.executor.CoarseGrainedExecutorBackend",
			Arguments: []string{"--driver-url", "spark://CoarseGrainedScheduler@" + a.addr.String(), "--executor-id", "{{EXECUTOR_ID}}",
				"--hostname", "{{HOSTNAME}}", "--cores", "{{CORES}}", "--app-id", "{{APP_ID}}", "--worker-url", "{{WORKER_URL}}",
				"--resourceProfileId", "{{RESOURCE_PROFILE_ID}}"},
			Environment: []sparkmsg.EnvVar{{Name: "SPARK_USER", Value: a.cfg.User}},
			JavaOpts:    []string{fmt.Sprintf("-Dspark.driver.port=%d", a.addr.Port)},
		},
	}
}

// registerTick is one attempt to register with all masters (B-106).
func (a *App) registerTick() {
	a.mu.Lock()
	if a.id != "" || a.dead != "" {
		a.mu.Unlock()
		return
	}
	if a.tries >= a.cfg.RegisterTries {
		a.dead = "All masters are unresponsive! Giving up."
		a.mu.Unlock()
		a.did(DidExit, frame.Address{}, "All masters are unresponsive! Giving up.")
		return
	}
	a.tries++
	a.after(a.cfg.RegisterEvery, a.registerTick)
	a.mu.Unlock()
	a.Register()
}

// Register sends RegisterApplication to all masters, as a late thread of the real client may do again.
func (a *App) Register() {
	for _, m := range a.node.cfg.Masters {
		a.resolve(m, func() {
			a.did(DidRegister, m, "")
			a.send(m, &sparkmsg.RegisterApplication{AppDescription: a.desc, Driver: a.ref("AppClient")})
		})
	}
}

func (a *App) send(to frame.Address, msg sparkmsg.Message) {
	a.ep.Send(to, "Master", a.node.cfg.Family, msg)
}

// Close ends the driver as kill -9 does.
func (a *App) Close() { a.shut() }

// ID returns the application id received last, "" before the first.
func (a *App) ID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id
}

// IDs returns every id received, in order; more than one different one is a fault of the master.
func (a *App) IDs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.ids...)
}

// Removed returns the message of ApplicationRemoved, "" if none came.
func (a *App) Removed() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.removed
}

// Executors returns the executors that were added and have not ended.
func (a *App) Executors() map[int32]AppExecutor {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[int32]AppExecutor{}
	for id, e := range a.executors {
		if !e.State.Finished() {
			out[id] = *e
		}
	}
	return out
}

// WaitRegistered waits for an application id.
func (a *App) WaitRegistered(timeout time.Duration) (string, error) {
	if _, err := a.events.Wait("RegisteredApplication", timeout); err != nil && a.ID() == "" {
		return "", err
	}
	return a.ID(), nil
}

// OneWay implements sparkrpc.Handler.
func (a *App) OneWay(_ *sparkrpc.Conn, in sparkrpc.Inbound) {
	from := frame.Address{}
	if in.Sender != nil {
		from = *in.Sender
	}
	switch m := in.Msg.(type) {
	case *sparkmsg.RegisteredApplication:
		a.mu.Lock()
		a.id = m.AppID
		a.ids = append(a.ids, m.AppID)
		a.setMaster(m.Master)
		a.mu.Unlock()
	case *sparkmsg.ExecutorAdded:
		a.mu.Lock()
		if a.executors[m.ID] != nil {
			defer a.did(DidDuplicate, from, fmt.Sprint(m.ID))
		}
		a.executors[m.ID] = &AppExecutor{WorkerID: m.WorkerID, HostPort: m.HostPort, Cores: m.Cores, MemoryMB: m.Memory}
		a.mu.Unlock()
	case *sparkmsg.ExecutorUpdated:
		a.mu.Lock()
		if e := a.executors[m.ID]; e != nil {
			e.State = m.State
		}
		a.mu.Unlock()
	case *sparkmsg.ApplicationRemoved:
		a.mu.Lock()
		a.removed = m.Message
		a.dead = "Master removed our application: " + m.Message
		a.mu.Unlock()
	case *sparkmsg.MasterChanged:
		a.onMasterChanged(m)
	}
	a.events.add(Event{Kind: in.Msg.MessageName(), From: from, Msg: in.Msg})
}

// setMaster takes a master reference. It is called with a.mu held.
func (a *App) setMaster(ref sparkmsg.EndpointRef) {
	if ref.Address != nil {
		addr := *ref.Address
		a.master = &addr
	}
}

func (a *App) onMasterChanged(m *sparkmsg.MasterChanged) {
	a.mu.Lock()
	a.setMaster(m.Master)
	id, to := a.id, a.master
	a.mu.Unlock()
	if a.Switches.ForgetID.Load() {
		id = ""
	}
	if to != nil && !a.Switches.NoAcknowledge.Load() {
		a.send(*to, &sparkmsg.MasterChangeAcknowledged{AppID: id})
	}
}

// Ask implements sparkrpc.Handler: a master asks an application client nothing but the verifier.
func (a *App) Ask(_ *sparkrpc.Conn, _ sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	reply(nil, errUnsupported)
}

// Closed implements sparkrpc.Handler: the client waits for MasterChanged without limit.
func (a *App) Closed(_ *sparkrpc.Conn, peer frame.Address, _ bool) {
	a.mu.Lock()
	lost := a.master != nil && peer == *a.master
	a.mu.Unlock()
	if lost {
		a.did(DidLoseMaster, peer, "")
	}
}

// RequestExecutors asks for a total of executors of the default profile and waits for the answer.
func (a *App) RequestExecutors(total int32) (bool, error) {
	return a.ask(func(id string) sparkmsg.Message {
		return &sparkmsg.RequestExecutors{AppID: id, ResourceProfileToTotalExecs: []sparkmsg.ProfileTotal{
			{Profile: a.desc.DefaultProfile, Total: total},
		}}
	})
}

// RequestTargets asks for totals of several profiles and waits for the answer.
func (a *App) RequestTargets(targets ...sparkmsg.ProfileTotal) (bool, error) {
	return a.ask(func(id string) sparkmsg.Message {
		return &sparkmsg.RequestExecutors{AppID: id, ResourceProfileToTotalExecs: targets}
	})
}

// KillExecutors asks for executors to be killed and waits for the answer.
func (a *App) KillExecutors(ids ...string) (bool, error) {
	return a.ask(func(id string) sparkmsg.Message { return &sparkmsg.KillExecutors{AppID: id, ExecutorIDs: ids} })
}

// errNotRegistered is Spark's "before registration" case.
var errNotRegistered = errors.New("sparkpeer: application is not registered")

// ask asks the current master; it must not be called from a callback.
func (a *App) ask(build func(id string) sparkmsg.Message) (bool, error) {
	a.mu.Lock()
	id, to := a.id, a.master
	a.mu.Unlock()
	if id == "" || to == nil {
		return false, errNotRegistered
	}
	type outcome struct {
		answer sparkmsg.Message
		err    error
	}
	got := make(chan outcome, 1)
	a.ep.Ask(*to, "Master", a.node.cfg.Family, build(id), a.cfg.AskTimeout, func(m sparkmsg.Message, err error) { got <- outcome{m, err} })
	o := <-got
	if o.err != nil {
		return false, o.err
	}
	b, ok := o.answer.(*sparkmsg.Boolean)
	if !ok {
		return false, fmt.Errorf("sparkpeer: answer is %s", o.answer.MessageName())
	}
	return b.Value, nil
}

// Unregister tells the master that the application is done.
func (a *App) Unregister() {
	a.mu.Lock()
	id, to := a.id, a.master
	a.mu.Unlock()
	if to != nil {
		a.send(*to, &sparkmsg.UnregisterApplication{AppID: id})
	}
}
