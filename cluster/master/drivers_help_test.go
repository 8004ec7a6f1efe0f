package master

import (
	"testing"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// driverDesc describes a driver of one core and 1 GiB as deploy.Client does.
func driverDesc(change ...func(*sparkmsg.DriverDescription)) *sparkmsg.DriverDescription {
	d := &sparkmsg.DriverDescription{JarURL: "file:/jobs/job.jar", Mem: 1024, Cores: 1, Command: sparkmsg.Command{
		MainClass: "org.apache.spark.deploy.worker.DriverWrapper", Arguments: []string{"{{WORKER_URL}}", "{{USER_JAR}}", "com.example.Job", "7"},
		Environment: []sparkmsg.EnvVar{{Name: "SPARK_USER", Value: "someone"}}, JavaOpts: []string{"-Dspark.app.name=job"}}}
	for _, c := range change {
		c(d)
	}
	return d
}

func supervised(d *sparkmsg.DriverDescription) { d.Supervise = true }

func driverSize(cores, memory int32) func(*sparkmsg.DriverDescription) {
	return func(d *sparkmsg.DriverDescription) { d.Cores, d.Mem = cores, memory }
}

func bound(t *testing.T, d *sparkmsg.DriverDescription, fam sparkmsg.Family) *sparkmsg.DriverDescription {
	t.Helper()
	if err := d.Bind(fam); err != nil {
		t.Fatal(err)
	}
	return d
}

// submitted submits a driver as a 4.x client does and returns its id.
func (w *world) submitted(change ...func(*sparkmsg.DriverDescription)) string {
	w.t.Helper()
	return w.submitDesc(bound(w.t, driverDesc(change...), sparkmsg.FamilyE))
}

func (w *world) submitDesc(d *sparkmsg.DriverDescription) string {
	w.t.Helper()
	answer, err := w.ask(nil, &sparkmsg.RequestSubmitDriver{DriverDescription: d})()
	r, ok := answer.(*sparkmsg.SubmitDriverResponse)
	if err != nil || !ok || !r.Success || r.DriverID == nil {
		w.t.Fatalf("the submission was answered with %+v, %v", answer, err)
	}
	return *r.DriverID
}

func (w *world) driver(id string) *fsm.Driver {
	w.t.Helper()
	d := w.view().Driver(id)
	if d == nil {
		w.t.Fatalf("there is no driver %s", id)
	}
	return d
}

// wantDriver fails the test when the driver has another state.
func (w *world) wantDriver(id string, want fsm.DriverState) *fsm.Driver {
	w.t.Helper()
	d := w.driver(id)
	if d.State != want {
		w.t.Fatalf("driver %s is %s (%s %s), want %s", id, d.State, d.Exception, d.EndReason, want)
	}
	return d
}

func (w *world) status(id string, conn Conn) *sparkmsg.DriverStatusResponse {
	w.t.Helper()
	var answer sparkmsg.Message
	var failure error
	w.core.Ask(conn, nil, &sparkmsg.RequestDriverStatus{DriverID: id}, func(m sparkmsg.Message, err error) { answer, failure = m, err })
	w.settle()
	r, ok := answer.(*sparkmsg.DriverStatusResponse)
	if failure != nil || !ok {
		w.t.Fatalf("the status of %s was answered with %+v, %v", id, answer, failure)
	}
	return r
}

func (w *world) killDriver(id string) *sparkmsg.KillDriverResponse {
	w.t.Helper()
	answer, err := w.ask(nil, &sparkmsg.RequestKillDriver{DriverID: id})()
	r, ok := answer.(*sparkmsg.KillDriverResponse)
	if err != nil || !ok || r.DriverID != id {
		w.t.Fatalf("the kill of %s was answered with %+v, %v", id, answer, err)
	}
	return r
}

func (fw *fakeWorker) driverLaunches() []*sparkmsg.LaunchDriver {
	return got[*sparkmsg.LaunchDriver](fw.w.net, fw.addr)
}

func (fw *fakeWorker) driverKills() []*sparkmsg.KillDriver {
	return got[*sparkmsg.KillDriver](fw.w.net, fw.addr)
}

// driverEnds reports the end of a driver.
func (fw *fakeWorker) driverEnds(id string, state sparkmsg.DriverState, exception ...*sparkmsg.Exception) {
	m := &sparkmsg.DriverStateChanged{DriverID: id, State: state}
	if len(exception) > 0 {
		m.Exception = exception[0]
	}
	fw.say(m)
}

// latestDrivers and schedulerDrivers list drivers, and no executors.
func (fw *fakeWorker) latestDrivers(ids ...string) {
	fw.say(&sparkmsg.WorkerLatestState{ID: fw.id, DriverIDs: ids})
}

func (fw *fakeWorker) schedulerDrivers(ids ...string) {
	msg := &sparkmsg.WorkerSchedulerStateResponse{ID: fw.id}
	for _, id := range ids {
		msg.DriverResponses = append(msg.DriverResponses, sparkmsg.WorkerDriverStateResponse{DriverID: id})
	}
	fw.say(msg)
}

// onWorker tells which worker holds a driver.
func (w *world) onWorker(id string, workers ...*fakeWorker) *fakeWorker {
	w.t.Helper()
	d := w.driver(id)
	for _, fw := range workers {
		if fw.id == d.WorkerID {
			return fw
		}
	}
	w.t.Fatalf("driver %s is on %q", id, d.WorkerID)
	return nil
}
