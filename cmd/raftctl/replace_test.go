package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/server"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/transport/frame"
	"raftmaster/transport/webui"
)

// patience is for polling on a loaded machine; nothing is expected to take as long.
const patience = 90 * time.Second

// realMasters are masters in this process, with everything that a master has.
type realMasters struct {
	t    *testing.T
	cfgs []config.Config
	up   []*server.Server // nil while it is down
}

// startMasters brings up n masters, each at an address of its own: below the range from which Linux takes ephemeral
// ports, and apart from other runs on this machine by the process id.
func startMasters(t *testing.T, n int) *realMasters {
	t.Helper()
	c := &realMasters{t: t}
	var list []config.Address
	for range n {
		list = append(list, c.place())
	}
	for i := range c.cfgs {
		c.cfgs[i].Cluster = list
	}
	t.Cleanup(func() {
		for i := range c.up {
			c.kill(i)
		}
	})
	for i := range n {
		c.start(i)
	}
	c.eventually("a leader", func() error { _, err := c.leader(); return err })
	return c
}

// place makes the configuration of one more master, without a cluster list, and gives its address.
func (c *realMasters) place() config.Address {
	host := fmt.Sprintf("127.%d.250.%d", 10+os.Getpid()%240, len(c.cfgs)+1)
	cfg := config.Default()
	cfg.Host, cfg.AdvertiseHost, cfg.PublicHost, cfg.WebUIHost = host, host, host, host
	cfg.Port, cfg.WebUIPort, cfg.FailoverTimeout = 27077, 27080, time.Second
	cfg.DataDir = filepath.Join(c.t.TempDir(), "data")
	c.cfgs, c.up = append(c.cfgs, cfg), append(c.up, nil)
	return cfg.Advertise()
}

func (c *realMasters) start(i int) {
	c.t.Helper()
	s, err := server.Start(c.cfgs[i], hclog.NewNullLogger(), "test")
	if err != nil {
		c.t.Fatal(err)
	}
	c.up[i] = s
}

func (c *realMasters) kill(i int) {
	if s := c.up[i]; s != nil {
		c.up[i] = nil
		s.Kill()
	}
}

func (c *realMasters) eventually(what string, cond func() error) {
	c.t.Helper()
	end := time.Now().Add(patience)
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ctl runs raftctl against all masters, those that are down included.
func (c *realMasters) ctl(args ...string) result {
	c.t.Helper()
	var ends []string
	for _, cfg := range c.cfgs {
		ends = append(ends, fmt.Sprintf("http://%s:%d", cfg.WebUIHost, cfg.WebUIPort))
	}
	return ctl(c.t, nil, append([]string{"--endpoints", strings.Join(ends, ","), "--timeout", "60s"}, args...)...)
}

// leader gives the number of the leader.
func (c *realMasters) leader() (int, error) {
	r := c.ctl("leader")
	for i, cfg := range c.cfgs {
		if r.code == exitOK && strings.TrimSpace(r.out) == cfg.Advertise().String() {
			return i, nil
		}
	}
	return 0, fmt.Errorf("raftctl leader: exit code %d: %s%s", r.code, r.out, r.err)
}

func (c *realMasters) peers() (webui.PeersAnswer, error) {
	var v webui.PeersAnswer
	r := c.ctl("-o", "json", "peers", "list")
	return v, json.Unmarshal([]byte(r.out), &v)
}

// voters waits until n voters are in contact and no others are configured.
func (c *realMasters) voters(n int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d voters", n), func() error {
		v, err := c.peers()
		if err == nil && (v.Voters != n || v.Reachable != n) {
			err = fmt.Errorf("%d of %d voters in contact: %+v", v.Reachable, v.Voters, v.Peers)
		}
		return err
	})
}

func (c *realMasters) healthy() error {
	if r := c.ctl("health"); r.code != exitOK {
		return fmt.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	return nil
}

// workers lists what one master has in its own copy of the state.
func (c *realMasters) workers(i int) (webui.WorkersAnswer, error) {
	var v webui.WorkersAnswer
	err := newClient([]string{c.up[i].URL()}, patience, "", nil).get(c.t.Context(), c.up[i].URL(), "/v1/workers", &v)
	return v, err
}

// TestAMasterThatLostItsDataIsReplaced is the sequence of the runbook: start the master with an empty directory, remove
// its old id, add its new one. Three voters, the state on the new one, and it can carry the cluster.
func TestAMasterThatLostItsDataIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes three whole masters")
	}
	c := startMasters(t, 3)
	worker := c.worker()
	leader, err := c.leader()
	if err != nil {
		t.Fatal(err)
	}
	lost := (leader + 1) % 3
	address := c.cfgs[lost].Advertise().String()
	c.kill(lost)
	if err := os.RemoveAll(c.cfgs[lost].DataDir); err != nil {
		t.Fatal(err)
	}
	c.start(lost)

	var oldID, newID string
	c.eventually("the new master is seen beside the old one", func() error {
		v, err := c.peers()
		oldID, newID = "", ""
		for _, p := range v.Peers {
			switch {
			case p.Address == address && p.Member:
				oldID = p.NodeID
			case p.Address == address && p.Reachable:
				newID = p.NodeID
			}
		}
		if err == nil && (oldID == "" || newID == "") {
			err = fmt.Errorf("old %q, new %q: %+v", oldID, newID, v.Peers)
		}
		return err
	})
	check(t, c.ctl("peers", "add", newID+"@"+address, "--yes"), exitRefused, "raftctl peers remove "+oldID)
	// Without the third the other two are needed: no other master can go.
	other := 3 - leader - lost
	check(t, c.ctl("peers", "remove", c.cfgs[other].Advertise().String(), "--yes"), exitRefused, "the cluster would stop")
	check(t, c.ctl("peers", "remove", oldID, "--yes"), exitOK, "2 of 2 voters in contact, 2 needed, tolerance left 0", "undo:")
	check(t, c.ctl("peers", "add", newID+"@"+address, "--yes"), exitOK, newID+" at "+address+" is a voter", "tolerance left 1")
	c.voters(3)

	check(t, c.ctl("hash"), exitOK, "3 masters, equal states")
	if v, err := c.workers(lost); err != nil || len(v.Workers) != 1 || v.Workers[0].ID != worker {
		t.Errorf("the state of the new master: %v, %+v", err, v)
	}
	// Nothing is left to complain about.
	c.eventually("good health", c.healthy)
	// The new one counts: it and the other one go on without the leader of before.
	c.kill(leader)
	c.eventually("a leader after the replacement", func() error { _, err := c.leader(); return err })
	c.start(leader)
	c.voters(3)
	check(t, c.ctl("hash"), exitOK, "3 masters, equal states")
}

// worker registers one and gives its id.
func (c *realMasters) worker() string {
	c.t.Helper()
	var masters []frame.Address
	for _, cfg := range c.cfgs {
		masters = append(masters, frame.Address{Host: cfg.AdvertiseHost, Port: int32(cfg.Port)})
	}
	w, err := sparkpeer.NewWorker(sparkpeer.WorkerConfig{Heartbeat: time.Second, RetryShort: time.Second, MaxTries: 500,
		Common: sparkpeer.Common{Host: fmt.Sprintf("127.%d.250.99", 10+os.Getpid()%240), Port: 27078, Masters: masters, Resolve: 5 * time.Second}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(w.Close)
	c.eventually("the registration of a worker", func() error {
		if !w.Registered() {
			return fmt.Errorf("%s is not registered", w.ID())
		}
		return nil
	})
	return w.ID()
}

// TestPeerChangesCanBeUndone follows the undo lines: a member that is removed comes back with its data, without a vote
// first, and is promoted.
func TestPeerChangesCanBeUndone(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes three whole masters")
	}
	c := startMasters(t, 3)
	leader, err := c.leader()
	if err != nil {
		t.Fatal(err)
	}
	check(t, c.ctl("peers", "remove", c.cfgs[leader].Advertise().String(), "--yes"), exitRefused, "raftctl transfer-leadership")
	gone := c.cfgs[(leader+1)%3].Advertise().String()
	id := c.up[(leader+1)%3].Node().NodeID()
	check(t, c.ctl("peers", "remove", gone, "--dry-run"), exitOK, "nothing was changed", "2 of 2 voters")
	c.voters(3)
	check(t, c.ctl("peers", "remove", gone, "--yes"), exitOK, "undo: raftctl peers add "+id+"@"+gone, "stop the master at "+gone)
	c.voters(2)
	check(t, c.ctl("peers", "add", id+"@"+gone, "--non-voter", "--yes"), exitOK, "without a vote")
	c.eventually("the promotion", func() error {
		if r := c.ctl("peers", "promote", id, "--yes"); r.code != exitOK {
			return fmt.Errorf("exit code %d: %s", r.code, r.err)
		}
		return nil
	})
	c.voters(3)
	check(t, c.ctl("peers", "promote", id, "--yes"), exitRefused, "a voter already")
	check(t, c.ctl("hash"), exitOK, "3 masters, equal states")
	check(t, c.ctl("peers", "add", "nobody@"+gone, "--yes"), exitRefused, "belongs to member")
}

// TestTheClusterGrows is the other sequence of the runbook: a master with the longer list joins when it is added, and the
// others take the longer list over one by one.
func TestTheClusterGrows(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes four whole masters")
	}
	c := startMasters(t, 3)
	list := append(slices.Clone(c.cfgs[0].Cluster), c.place())
	c.cfgs[3].Cluster = list
	c.start(3)
	added := c.up[3].Node().NodeID() + "@" + list[3].String()
	check(t, c.ctl("peers", "add", added, "--yes"), exitOK, "4 of 4 voters in contact, 3 needed, tolerance left 1")
	c.voters(4)
	check(t, c.ctl("hash"), exitOK, "4 masters, equal states")
	for i := range 3 {
		if err := c.up[i].Stop(); err != nil {
			t.Logf("stop of master %d: %v", i, err)
		}
		c.up[i] = nil
		c.cfgs[i].Cluster = list
		c.start(i)
		c.voters(4)
	}
	c.eventually("good health", c.healthy)
}
