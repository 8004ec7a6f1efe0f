package node

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/raftstore"
)

// R09: two of three disks are gone.
func TestTheSurvivorRecoversAlone(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	id := c.propose()
	c.converge()
	ctx := context.Background()
	log := hclog.NewNullLogger()
	last := c.members[2]
	opts := RecoverOptions{DataDir: last.dir, Logger: log}
	if _, err := Recover(ctx, opts); !errors.Is(err, raftstore.ErrInUse) {
		t.Errorf("recovery of a running master: %v", err)
	}
	last.kill()
	c.propose()
	if _, err := Recover(ctx, opts); !errors.Is(err, ErrUnsafe) {
		t.Errorf("recovery beside a healthy majority: %v", err)
	}
	for _, m := range c.members[:2] {
		m.kill()
		m.dir = t.TempDir()
	}
	opts.DryRun = true
	dry, err := Recover(ctx, opts)
	if err != nil || len(dry.Before) != 3 || len(dry.After) != 1 || dry.Backup != "" || dry.Workers == 0 {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	opts.DryRun = false
	r, err := Recover(ctx, opts)
	if err != nil || r.Digest != dry.Digest {
		t.Fatalf("recovery: %+v, %v", r, err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(r.Backup); err != nil {
			t.Error(err)
		}
	})
	var entries int
	if err := DumpLog(r.Backup, 0, 0, log, func(e LogEntry) error {
		if e.RequestID == id && e.Command != "" {
			entries++
		}
		return nil
	}); err != nil || entries != 1 {
		t.Errorf("the copy holds the entry %d times, %v", entries, err)
	}
	last.start()
	if got := c.leader().node.View().Digest().String(); got != r.Digest {
		t.Errorf("state %s after the recovery, want %s", got, r.Digest)
	}
	c.propose()
	for _, m := range c.members[:2] {
		m.start()
		if err := c.leader().node.AddPeer(ctx, m.node.NodeID(), m.addr, true); err != nil {
			t.Fatal(err)
		}
	}
	c.propose()
	c.converge()
}

// A member that was removed is refused by those that go on: their answer counts, or it would be a second cluster of the same id.
func TestARemovedMemberDoesNotRecoverBesideItsCluster(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	c.propose()
	c.converge()
	removed := c.followers()[0]
	id := removed.node.NodeID()
	removed.kill()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.leader().node.RemovePeer(ctx, id, false); err != nil {
		t.Fatal(err)
	}
	opts := RecoverOptions{DataDir: removed.dir, Logger: hclog.NewNullLogger(), DryRun: true}
	if _, err := Recover(ctx, opts); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "knows a leader") {
		t.Errorf("recovery beside the cluster that goes on: %v", err)
	}
	opts.Force = true
	if _, err := Recover(ctx, opts); err != nil {
		t.Errorf("by force: %v", err)
	}
}
