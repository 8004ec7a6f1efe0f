package sparktest

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"testing"
)

// light is a driver without a SparkContext: only its life matters.
func light(opts DriverOptions) DriverOptions {
	opts.Memory = "256m"
	return opts
}

// leaderAt lists the masters with the leader at the place and the others around it
// in their order.
func leaderAt(c *Cluster, leader *Master, place int) []*Master {
	var list []*Master
	for _, m := range c.Masters() {
		if m != leader {
			list = append(list, m)
		}
	}
	place = min(place, len(list))
	return append(list[:place:place], append([]*Master{leader}, list[place:]...)...)
}

// urlFor is the master list for the gateway.
func urlFor(g Gateway, masters ...*Master) string {
	if g == GatewayREST || g == GatewayPost {
		return RESTURLOf(masters...)
	}
	return URLOf(masters...)
}

// checkMasterList demands that a driver was told of every master (S12).
func checkMasterList(t *testing.T, c *Cluster, run *Session) {
	t.Helper()
	got := strings.Split(strings.TrimPrefix(run.Master, "spark://"), ",")
	want := strings.Split(strings.TrimPrefix(c.URL(), "spark://"), ",")
	sort.Strings(got)
	sort.Strings(want)
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("%s was told spark.master=%s, want all of %s", run.label, run.Master, c.URL())
	}
}

// checkSums demands that what is in use is what applications and drivers hold
// (S07).
func checkSums(t *testing.T, c *Cluster, wantCores int) {
	t.Helper()
	c.WaitState(startTimeout, fmt.Sprintf("sums of %d cores", wantCores), func(s State) error {
		cores, onWorkers, memory := 0, 0, 0
		for _, a := range s.ActiveApps {
			cores += a.Cores
		}
		for _, d := range s.ActiveDrivers {
			if d.State == "RUNNING" {
				cores += d.Cores
			}
		}
		for _, w := range s.Workers {
			if w.CoresUsed < 0 || w.MemoryUsed < 0 || w.CoresUsed > w.Cores || w.MemoryUsed > w.Memory {
				return fmt.Errorf("worker %+v", w)
			}
			if w.State == "ALIVE" {
				onWorkers += w.CoresUsed
				memory += w.MemoryUsed
			}
		}
		if cores != wantCores || onWorkers != wantCores || s.CoresUsed != wantCores || memory != s.MemoryUsed || wantCores == 0 && memory != 0 {
			return fmt.Errorf("held %d cores, on workers %d cores and %d MB: %+v", cores, onWorkers, memory, s)
		}
		return nil
	})
}

// Each way to submit, with the leader last in the list behind two standbys, or for
// REST behind a dead master and a standby: the submission succeeds, its client ends
// with 0, the driver runs, and each way to ask and to kill works.
//
// Spark's RPC client itself ends when it cannot connect to every master of its list
// (deploy/Client.scala, ClientApp.start), whoever the masters are: so no dead one there.
func TestDriverGateways_B134_B135_B141_S13(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, leader := newCluster(t, spark, restConf())
		c.StartWorkers(1, WorkerOptions{Cores: 4})
		list := leaderAt(c, leader, 2)
		for _, g := range []Gateway{GatewayClient, GatewayRPC, GatewayFallback, GatewayREST} {
			if g == GatewayREST && len(list) > 1 {
				list[0].Kill()
			}
			d := c.SubmitDriver(light(DriverOptions{AppOptions: AppOptions{Name: string(g), Master: urlFor(g, list...)}, Gateway: g}))
			if d.Exit != 0 {
				t.Errorf("%s: the submitting client ended with %d:\n%s", g, d.Exit, lastLines(d.Client.Log(), 20))
			}
			run := d.NextRun("")
			s := c.WaitDriver(d.ID, "RUNNING")
			if s.WorkerID == "" || s.WorkerHostPort == "" {
				t.Errorf("%s: a running driver has no worker: %+v", g, s)
			}
			if g != GatewayClient { // it passes on what the program itself says
				checkMasterList(t, c, run)
			}
			checkSums(t, c, 1)
			endDriver(t, c, g, d, run, list)
			run.WaitGone()
			checkSums(t, c, 0)
			d.None()
		}
	})
}

// endDriver asks about a running driver and ends it, in another way for each
// gateway.
func endDriver(t *testing.T, c *Cluster, g Gateway, d *Driver, run *Session, list []*Master) {
	t.Helper()
	spark := c.opts.Spark
	switch g {
	case GatewayClient:
		if p, code := c.ClientKill(spark, URLOf(list...), d.ID); code != 0 {
			t.Errorf("deploy.Client kill ended with %d:\n%s", code, lastLines(p.Log(), 20))
		}
	case GatewayRPC:
		checkSubmitAsk(t, c, list, "--status", d.ID)
		c.KillDriver(d.ID)
	case GatewayREST:
		checkSubmitAsk(t, c, list, "--kill", d.ID)
	default:
		run.FinishProgram()
		c.WaitDriver(d.ID, "FINISHED")
		return
	}
	c.WaitDriver(d.ID, "KILLED")
}

// checkSubmitAsk runs spark-submit --status or --kill. Whatever happens it ends with
// 0, and what it is answered it shows at no level that it logs at; but it complains
// of an answer that is none: of a standby's to --status, so that all complaints
// must be of the standbys before the leader.
func checkSubmitAsk(t *testing.T, c *Cluster, list []*Master, flag, id string) {
	t.Helper()
	before := 0
	for _, m := range list {
		if m.Running() && m.leads() == nil {
			break
		}
		if m.Running() && flag == "--status" {
			before++
		}
	}
	p, code := c.SparkSubmitAsk(c.opts.Spark, RESTURLOf(list...), flag, id)
	complaints := p.LogMatches(`(?m)^.*(ERROR|Exception).*$`)
	if code != 0 || len(complaints) != before || len(p.LogMatches(`unexpected type`)) != before {
		t.Errorf("spark-submit %s ended with %d, %d complaints, want %d:\n%s", flag, code, len(complaints), before, lastLines(p.Log(), 20))
	}
}

// The whole of S13: every order of the master list, all masters up and one of
// them dead (which only REST's client survives, see above), through both gateways:
// submit, status and kill, each ending with 0.
func TestDriverGatewaysEveryOrder_S13(t *testing.T) {
	skipUnlessLong(t)
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, leader := newCluster(t, spark, restConf())
		c.StartWorkers(1, WorkerOptions{Cores: 4})
		m := c.Masters()
		orders := [][]*Master{{m[0], m[1], m[2]}, {m[0], m[2], m[1]}, {m[1], m[0], m[2]}, {m[1], m[2], m[0]}, {m[2], m[0], m[1]}, {m[2], m[1], m[0]}}
		for _, up := range []string{"all up", "one dead"} {
			if up == "one dead" {
				c.Standbys(leader)[0].Kill()
			}
			for i, order := range orders {
				t.Logf("%s, order %d", up, i+1)
				checkOrder(t, c, spark, order)
			}
		}
	})
}

func checkOrder(t *testing.T, c *Cluster, spark Spark, order []*Master) {
	t.Helper()
	for _, g := range []Gateway{GatewayREST, GatewayClient} {
		if g == GatewayClient {
			order = slices.DeleteFunc(slices.Clone(order), func(m *Master) bool { return !m.Running() })
		}
		d := c.SubmitDriver(light(DriverOptions{AppOptions: AppOptions{Master: urlFor(g, order...)}, Gateway: g}))
		if d.Exit != 0 {
			t.Errorf("%s: the submitting client ended with %d:\n%s", g, d.Exit, lastLines(d.Client.Log(), 20))
		}
		run := d.NextRun("")
		if g == GatewayREST {
			checkSubmitAsk(t, c, order, "--status", d.ID)
			checkSubmitAsk(t, c, order, "--kill", d.ID)
		} else if p, code := c.ClientKill(spark, URLOf(order...), d.ID); code != 0 {
			t.Errorf("deploy.Client kill ended with %d:\n%s", code, lastLines(p.Log(), 20))
		}
		c.WaitDriver(d.ID, "KILLED")
		run.WaitGone()
	}
	checkSums(t, c, 0)
}

// How a driver can end, and what its submitter then reads: FINISHED, FAILED by an
// exit code and by an exception of its main, ERROR with the exception of the
// worker that could not start it, KILLED while it waits and while it runs; a
// supervised one is started again by its worker under the same id.
func TestDriverEnds_B135_B137_B144(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, leader := newCluster(t, spark, restConf())
		c.StartWorkers(1, WorkerOptions{Cores: 4})

		waiting := c.SubmitDriver(light(DriverOptions{DriverCores: 64}))
		c.WaitDriver(waiting.ID, "SUBMITTED")

		code := c.SubmitDriver(light(DriverOptions{}))
		exception := c.SubmitDriver(light(DriverOptions{}))
		supervised := c.SubmitDriver(light(DriverOptions{Supervise: true}))
		code.NextRun("").Exit(3)
		exception.NextRun("").Throw()
		first := supervised.NextRun("")
		first.Exit(1)
		again := supervised.NextRun("") // by its worker, after a second
		if again.PID == first.PID {
			t.Errorf("the supervised driver is still process %d", first.PID)
		}
		c.WaitDriver(code.ID, "FAILED")
		c.WaitDriver(exception.ID, "FAILED")
		c.WaitDriver(supervised.ID, "RUNNING")

		missing := c.SubmitDriver(light(DriverOptions{Jar: "file:///nowhere/missing.jar"}))
		s := c.WaitDriver(missing.ID, "ERROR")
		if !strings.Contains(s.Message, "missing.jar") {
			t.Errorf("the status of a driver without its jar says %q", s.Message)
		}

		c.KillDriver(waiting.ID)
		s = c.WaitDriver(waiting.ID, "KILLED")
		if s.WorkerID != "" || s.WorkerHostPort != "" {
			t.Errorf("a driver that never ran has a worker: %+v", s)
		}
		c.KillDriver(supervised.ID)
		c.WaitDriver(supervised.ID, "KILLED")
		again.WaitGone()
		checkSums(t, c, 0)
		for _, d := range []*Driver{waiting, code, exception, supervised, missing} {
			d.None()
		}
		if status, s, err := leader.REST(http.MethodPost, "/kill/"+code.ID, nil); err != nil || status != http.StatusOK || s.Success {
			t.Errorf("kill of a finished driver: %d %+v (%v)", status, s, err)
		}
		if status, s, err := leader.REST(http.MethodGet, "/status/driver-20200101000000-0001", nil); err != nil || status != http.StatusOK || s.Success || s.DriverState != "" {
			t.Errorf("status of an unknown driver: %d %+v (%v)", status, s, err)
		}
	})
}

// What the submission client of the RPC gateway says by its exit code when the
// cluster cannot do what it asks.
func TestDriverClientExitCodes_B135_B141(t *testing.T) {
	skipUnlessLong(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, leader := newCluster(t, spark, restConf())
		c.StartWorkers(1, WorkerOptions{})
		// Not a jar: refused by the client itself.
		if _, err := c.TrySubmitDriver(DriverOptions{Gateway: GatewayClient, Jar: "file:///nowhere/missing.zip"}); err == nil {
			t.Error("a driver without a jar was submitted")
		}
		p, code := c.ClientKill(spark, URLOf(leader), "driver-20200101000000-0001")
		if code != 255 {
			t.Errorf("kill of an unknown driver ended with %d, want 255:\n%s", code, lastLines(p.Log(), 20))
		}
		// The driver cannot start: the client asks after 5 s and finds the exception.
		d := c.SubmitDriver(DriverOptions{Gateway: GatewayClient, Jar: "file:///nowhere/missing.jar"})
		if d.Exit != 255 {
			t.Errorf("the client of a driver in ERROR ended with %d:\n%s", d.Exit, lastLines(d.Client.Log(), 20))
		}
		for _, m := range c.Masters() {
			m.Kill()
		}
		// It does not get as far as asking: an exception ends it.
		if p, code := c.ClientKill(spark, c.URL(), d.ID); code != 1 {
			t.Errorf("with no master at all the client ended with %d, want 1:\n%s", code, lastLines(p.Log(), 20))
		}
	})
}
