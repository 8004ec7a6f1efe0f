package sparktest

import (
	"net"
	"strconv"
	"testing"
	"time"

	"raftmaster/cluster/submit"
)

// forMasters runs the test with our masters and with Spark's own, whatever -masters says: the Go clients are what is tested.
func forMasters(t *testing.T, test func(t *testing.T, kind MasterKind, spark Spark)) {
	t.Helper()
	forReleases(t, func(t *testing.T, spark Spark) {
		for _, kind := range []MasterKind{KindRaft, KindSpark} {
			t.Run(string(kind), func(t *testing.T) { test(t, kind, spark) })
		}
	})
}

// gatewayClients are the submission clients of both gateways. Before the masters of their lists stands one that is dead.
func gatewayClients(t *testing.T, c *Cluster, spark Spark) map[submit.Gateway]submit.Client {
	t.Helper()
	dead := c.host(firstClient + 60)
	rpc, rest := []string{net.JoinHostPort(dead, strconv.Itoa(masterPort))}, []string{net.JoinHostPort(dead, strconv.Itoa(masterREST))}
	for _, m := range c.Masters() {
		rpc, rest = append(rpc, m.Address()), append(rest, m.RESTAddress())
	}
	found, err := submit.FindRelease(t.Context(), submit.Sources{Web: []string{c.WaitLeader().WebURL()}, RPC: rpc, Timeout: startTimeout})
	if err != nil || found.Version != spark.Release {
		t.Errorf("the release was found out as %+v, %v", found, err)
	}
	clients := map[submit.Gateway]submit.Client{}
	for g, open := range map[submit.Gateway]func() (submit.Client, error){
		submit.GatewayRPC: func() (submit.Client, error) {
			return submit.NewRPC(submit.Config{Masters: rpc, SparkVersion: spark.Release, AskTimeout: startTimeout, Patience: startTimeout})
		},
		submit.GatewayREST: func() (submit.Client, error) {
			return submit.NewREST(submit.Config{Masters: rest, AskTimeout: startTimeout, Patience: startTimeout})
		},
	} {
		client, err := open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		clients[g] = client
	}
	return clients
}

// A driver submitted by our client of either gateway runs on a real worker, is seen through both, and ends as it should:
// killed, finished, and failed.
func TestSubmissionClients_B134_B135_B141(t *testing.T) {
	forMasters(t, func(t *testing.T, kind MasterKind, spark Spark) {
		jar := needCompiler(t, spark)
		c := NewCluster(t, Options{Kind: kind, Spark: spark, Conf: restConf()})
		c.StartMasters()
		c.StartWorkers(1, WorkerOptions{Cores: 4})
		clients := gatewayClients(t, c, spark)
		for g, client := range clients {
			ends := []struct {
				state string
				end   func(id string, run *Session)
			}{
				{submit.StateFinished, func(_ string, run *Session) { run.Exit(0) }},
				{submit.StateFailed, func(_ string, run *Session) { run.Exit(3) }},
				{submit.StateKilled, func(id string, _ *Session) {
					if k, err := client.Kill(t.Context(), id); err != nil || !k.Accepted {
						t.Errorf("%s: kill: %+v, %v", g, k, err)
					}
				}},
			}
			for _, e := range ends {
				control := c.NewControl(string(g) + "-" + e.state)
				s, err := client.Submit(t.Context(), submit.Job{Resource: "file://" + jar, MainClass: controlClass, Args: []string{control.Address(), control.Ledger()},
					Name: e.state, MemoryMB: 256, Environment: map[string]string{}})
				if err != nil {
					t.Fatalf("%s: submit: %v", g, err)
				}
				run := control.Next(startTimeout)
				if run.Dir != s.ID {
					t.Errorf("%s: %s runs as %s", g, s.ID, run.Dir)
				}
				for other, asked := range clients {
					st, err := asked.Status(t.Context(), s.ID)
					if err != nil || !st.Found || st.State != submit.StateRunning || st.WorkerID == "" {
						t.Errorf("%s submitted, %s says %+v, %v", g, other, st, err)
					}
				}
				e.end(s.ID, run)
				st, err := submit.Wait(t.Context(), client, s.ID, submit.WaitOptions{Poll: 100 * time.Millisecond, Missing: startTimeout})
				if err != nil || st.State != e.state {
					t.Errorf("%s: ended as %+v, %v, want %s", g, st, err, e.state)
				}
				run.WaitGone()
			}
			if st, err := client.Status(t.Context(), "driver-20000101000000-0000"); err != nil || st.Found {
				t.Errorf("%s: a driver that does not exist: %+v, %v", g, st, err)
			}
		}
		checkSums(t, c, 0)
	})
}
