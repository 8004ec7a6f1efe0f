package load

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"raftmaster/transport/sparkmsg"
)

// application plays one application client.
type application struct {
	*peer
	name string
	desc *sparkmsg.ApplicationDescription

	mu      sync.Mutex
	id      string
	pending func(error) // the answer to RegisterApplication
}

// execTable is what runs for one application.
type execTable struct {
	mu       sync.Mutex
	running  []execRef
	reported int         // launches whose RUNNING was taken
	exits    []time.Time // of executors that were not replaced yet
	replaced func(time.Time)
	each     func() // called at each launch, if not nil
}

type execRef struct {
	w  *worker
	id int32
}

func (h *hub) table(app string) *execTable {
	if t, ok := h.execs.Load(app); ok {
		return t.(*execTable)
	}
	t, _ := h.execs.LoadOrStore(app, &execTable{})
	return t.(*execTable)
}

func (t *execTable) launched() {
	t.mu.Lock()
	var f func(time.Time)
	var exit time.Time
	each := t.each
	if len(t.exits) > 0 {
		exit, f = t.exits[0], t.replaced
		t.exits = t.exits[1:]
	}
	t.mu.Unlock()
	if each != nil {
		each()
	}
	if f != nil {
		f(exit)
	}
}

func (t *execTable) runs(e execRef) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reported++
	t.running = append(t.running, e)
}

func (t *execTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reported
}

// takeOne takes the executor that runs longest out of the table and notes its exit; replaced is called when another is
// launched for this application.
func (t *execTable) takeOne(replaced func(time.Time)) (execRef, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.running) == 0 {
		return execRef{}, false
	}
	e := t.running[0]
	t.running = t.running[1:]
	t.replaced = replaced
	t.exits = append(t.exits, time.Now())
	return e, true
}

// describe makes the description that StandaloneSchedulerBackend makes, about as long as a real one.
func (a *application) describe(maxCores int32, limit *int32) error {
	profile := sparkmsg.ResourceProfile{
		ExecutorResources: []sparkmsg.ExecutorResourceRequest{
			{ResourceName: "cores", Amount: 1}, {ResourceName: "memory", Amount: int64(a.h.cfg.ExecutorMB)}},
		TaskResources: []sparkmsg.TaskResourceRequest{{ResourceName: "cpus", Amount: 1}},
	}
	a.desc = &sparkmsg.ApplicationDescription{
		Name: a.name, User: "load", AppUIURL: "http://" + a.addr.String(), MaxCores: &maxCores, InitialExecutorLimit: limit,
		DefaultProfile: profile,
		Command: sparkmsg.Command{
			MainClass: "org.apache.spark.executor.CoarseGrainedExecutorBackend",
			Arguments: []string{"--driver-url", "spark://CoarseGrainedScheduler@" + a.addr.String(), "--executor-id", "{{EXECUTOR_ID}}",
				"--hostname", "{{HOSTNAME}}", "--cores", "{{CORES}}", "--app-id", "{{APP_ID}}", "--worker-url", "{{WORKER_URL}}",
				"--resourceProfileId", "{{RESOURCE_PROFILE_ID}}"},
			Environment: []sparkmsg.EnvVar{{Name: "SPARK_USER", Value: "load"}},
			JavaOpts: []string{fmt.Sprintf("-Dspark.driver.port=%d", a.addr.Port), "-Dspark.ui.port=0", "-Djava.net.preferIPv6Addresses=false",
				"-XX:+IgnoreUnrecognizedVMOptions", "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
				"--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "-Djdk.reflect.useDirectMethodHandle=false"},
		},
	}
	return a.desc.Bind(a.h.codec.fam)
}

// registration encodes RegisterApplication for the present master.
func (a *application) registration() ([]byte, error) {
	content, err := sparkmsg.Encode(&sparkmsg.RegisterApplication{AppDescription: a.desc, Driver: a.ref()}, a.h.codec.fam)
	if err != nil {
		return nil, err
	}
	_, to, ok := a.live()
	if !ok {
		return nil, errClosed
	}
	return request(a.addr, to, "Master", 0, content), nil
}

func (a *application) register(b []byte, done func(error)) {
	c, _, ok := a.live()
	if !ok {
		done(errClosed)
		return
	}
	a.mu.Lock()
	a.pending = done
	a.mu.Unlock()
	if err := c.write(b); err != nil {
		a.answered("", err)
	}
}

func (a *application) answered(id string, err error) {
	a.mu.Lock()
	f := a.pending
	a.pending = nil
	if id != "" {
		a.id = id
	}
	a.mu.Unlock()
	if f != nil {
		f(err)
	}
}

func (a *application) appID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id
}

func (a *application) message(c *conn, name string, content []byte) error {
	switch name {
	case "ExecutorAdded", "ExecutorUpdated", "WorkerRemoved":
		return nil // counted at the workers
	}
	d, err := sparkmsg.Decode(content)
	if err != nil {
		a.h.failed("message not understood")
		return nil
	}
	switch m := d.Msg.(type) {
	case *sparkmsg.RegisteredApplication:
		a.follow(c, m.Master)
		a.answered(m.AppID, nil)
	case *sparkmsg.ApplicationRemoved:
		if !a.h.leaving.Load() {
			a.h.failed("application removed: " + m.Message)
		}
	case *sparkmsg.MasterChanged:
		a.h.failed("leader changed")
		a.follow(c, m.Master)
		ack, err := sparkmsg.Encode(&sparkmsg.MasterChangeAcknowledged{AppID: a.appID()}, a.h.codec.fam)
		if err != nil {
			return err
		}
		return a.send(ack)
	}
	return nil
}

// lostMaster: a driver waits until a master calls it.
func (a *application) lostMaster() { a.answered("", errClosed) }

// want sets how many executors the application is to have (RequestExecutors).
func (a *application) want(total int32, done func(error)) {
	content, err := sparkmsg.Encode(&sparkmsg.RequestExecutors{AppID: a.appID(),
		ResourceProfileToTotalExecs: []sparkmsg.ProfileTotal{{Profile: a.desc.DefaultProfile, Total: total}}}, a.h.codec.fam)
	if err != nil {
		done(err)
		return
	}
	a.ask(content, func(body []byte, err error) {
		if err == nil && !bytes.Equal(body, a.h.yes) {
			err = errAnswer
		}
		done(err)
	})
}

// unregister ends the application; done is called when the master has taken it in.
func (a *application) unregister(done func(error)) {
	id := a.appID()
	if id == "" {
		done(nil)
		return
	}
	content, err := sparkmsg.Encode(&sparkmsg.UnregisterApplication{AppID: id}, a.h.codec.fam)
	if err == nil {
		err = a.send(content)
	}
	if err != nil {
		done(err)
		return
	}
	a.mu.Lock()
	a.id = ""
	a.mu.Unlock()
	a.ask(a.h.codec.nosuch, func(_ []byte, err error) { done(err) })
}
