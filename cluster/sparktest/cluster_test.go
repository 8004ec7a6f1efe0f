package sparktest

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Two clusters at once never share a subnet, and a closed one gives its back.
func TestSubnetsAreExclusive(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	first, release, err := takeSubnet()
	if err != nil {
		t.Fatal(err)
	}
	second, releaseSecond, err := takeSubnet()
	if err != nil {
		t.Fatal(err)
	}
	defer releaseSecond()
	if first == second {
		t.Errorf("both got %s", first)
	}
	release()
	third, releaseThird, err := takeSubnet()
	if err != nil {
		t.Fatal(err)
	}
	defer releaseThird()
	if third != first {
		t.Errorf("got %s, want %s again", third, first)
	}
}

// Close ends a process of the cluster, its child, and a grandchild that left the
// process group.
func TestCloseReapsDescendants(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	if _, err := JavaHome(); err != nil {
		t.Skipf("LEFT OUT: %v", err)
	}
	c := NewCluster(t, Options{Kind: KindRaft})
	pids := filepath.Join(c.Dir(), "pids")
	p, err := c.start("parent", "127.0.0.1", nil,
		[]string{"/bin/sh", "-c", fmt.Sprintf("sleep 600 & echo $! >>%s; setsid sleep 600 & echo $! >>%s; wait", pids, pids)})
	if err != nil {
		t.Fatal(err)
	}
	var children [2]int
	Eventually(t, 10*time.Second, "two children", func() error {
		data, err := os.ReadFile(pids)
		if err != nil {
			return err
		}
		_, err = fmt.Sscan(string(data), &children[0], &children[1])
		return err
	})
	c.Close()
	if p.Running() {
		t.Error("the process still runs")
	}
	for _, pid := range children {
		Eventually(t, 10*time.Second, "end of the children", func() error {
			if syscall.Kill(pid, 0) == nil && !isZombie(pid) {
				return fmt.Errorf("process %d lives", pid)
			}
			return nil
		})
	}
	if _, err := os.Stat(c.Dir()); !isMissing(err) {
		t.Errorf("the directory of a passed test is still there: %v", err)
	}
}

func isZombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // gone
	}
	var n int
	var name, state string
	_, err = fmt.Sscan(string(data), &n, &name, &state)
	return err == nil && state == "Z"
}
