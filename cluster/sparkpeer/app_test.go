package sparkpeer

import (
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

func testApp(t testing.TB, tune func(*AppConfig), masters ...*fakeMaster) *App {
	t.Helper()
	cfg := AppConfig{RegisterEvery: 50 * time.Millisecond, AskTimeout: patience}
	for _, m := range masters {
		cfg.Masters = append(cfg.Masters, m.addr)
	}
	if tune != nil {
		tune(&cfg)
	}
	a, err := NewApp(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func TestAppFollowsItsMasterAndCountsExecutors(t *testing.T) {
	m1, m2 := newMaster(t, "127.0.0.1:0"), newMaster(t, "127.0.0.1:0")
	m2.standby = true
	cores, one := int32(8), int32(1)
	a := testApp(t, func(c *AppConfig) { c.Name, c.MaxCores, c.CoresPerExecutor = "pi", &cores, &one }, m1, m2)
	id, err := a.WaitRegistered(patience)
	if err != nil {
		t.Fatal(err)
	}
	desc := m1.seen("RegisterApplication")[0].(*sparkmsg.RegisterApplication).AppDescription
	if desc.Name != "pi" || *desc.MaxCores != 8 || *desc.DefaultProfile.CoresPerExecutor() != 1 || desc.DefaultProfile.MemoryPerExecutorMB() != 1024 {
		t.Errorf("description %+v", desc)
	}
	for i := range int32(2) {
		m1.ep.Send(a.Address(), "AppClient", m1.fam, &sparkmsg.ExecutorAdded{ID: i, WorkerID: "w", HostPort: "h:1", Cores: 1, Memory: 1024})
	}
	m1.ep.Send(a.Address(), "AppClient", m1.fam, &sparkmsg.ExecutorUpdated{ID: 0, State: sparkmsg.ExecutorExited})
	m1.ep.Send(a.Address(), "AppClient", m1.fam, &sparkmsg.ExecutorUpdated{ID: 1, State: sparkmsg.ExecutorRunning})
	if err := a.Log().WaitCount("ExecutorUpdated", 2, patience); err != nil {
		t.Fatal(err)
	}
	if e := a.Executors(); len(e) != 1 || e[1].State != sparkmsg.ExecutorRunning {
		t.Errorf("executors %v", e)
	}
	if ok, err := a.RequestExecutors(5); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := a.KillExecutors("0", "1"); !ok || err != nil {
		t.Error(ok, err)
	}
	if r := m1.seen("RequestExecutors")[0].(*sparkmsg.RequestExecutors); r.AppID != id || r.ResourceProfileToTotalExecs[0].Total != 5 {
		t.Errorf("%+v", r)
	}
	m1.stop()
	waitFor(t, a.Log(), DidLoseMaster)
	m2.ep.Send(a.Address(), "AppClient", m2.fam, &sparkmsg.MasterChanged{Master: m2.ref(), MasterWebUIURL: "http://m2"})
	eventually(t, "acknowledgement", func() bool { return len(m2.seen("MasterChangeAcknowledged")) == 1 })
	if ack := m2.seen("MasterChangeAcknowledged")[0].(*sparkmsg.MasterChangeAcknowledged); ack.AppID != id {
		t.Errorf("acknowledged %q", ack.AppID)
	}
	a.Unregister()
	eventually(t, "unregistration", func() bool { return len(m2.seen("UnregisterApplication")) == 1 })
	m2.ep.Send(a.Address(), "AppClient", m2.fam, &sparkmsg.ApplicationRemoved{Message: "FAILED"})
	eventually(t, "removal", func() bool { return a.Removed() == "FAILED" })
}

// B-106: three attempts, then it gives up.
func TestAppGivesUp(t *testing.T) {
	m := newMaster(t, "127.0.0.1:0")
	m.silent = true
	a := testApp(t, func(c *AppConfig) { c.RegisterEvery = 5 * time.Millisecond }, m)
	waitFor(t, a.Log(), DidExit)
	if _, err := a.RequestExecutors(1); err == nil {
		t.Error("an unregistered application asked for executors")
	}
	if len(a.node.cfg.Masters) != 1 || a.Address() == (frame.Address{}) {
		t.Error("no address")
	}
}
