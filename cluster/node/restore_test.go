package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"raftmaster/fsm"
)

// impatient gives up when it is waited for a last time.
type impatient struct {
	context.Context
	left   atomic.Int32
	cancel context.CancelFunc
}

// Done implements context.Context.
func (c *impatient) Done() <-chan struct{} {
	if c.left.Add(-1) == 0 {
		c.cancel()
	}
	return c.Context.Done()
}

// TestARestoreThatIsGivenUpLeavesNothing: what was staged would stay in the memory and the snapshots of every master.
func TestARestoreThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	c := startAll(t, 1, nil)
	n := c.leader().node
	c.levelIs(fsm.CommandLevel)
	for i := range 3 {
		cmd := command()
		name := fmt.Sprintf("app-%d", i)
		app := fsm.RegisterApplication{Meta: cmd.Header(), Name: name, User: "u", Driver: fsm.Address{Host: name, Port: 1},
			DefaultCores: 1, DefaultProfile: fsm.Profile{MemoryMB: 512}, Payload: bytes.Repeat([]byte{byte(i)}, 400<<10)}
		if _, err := n.applyNow(context.Background(), app); err != nil {
			t.Fatal(err)
		}
	}
	size := func() int64 {
		t.Helper()
		var b bytes.Buffer
		info, err := n.WriteSnapshot(&b)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size
	}
	var state bytes.Buffer
	if _, err := n.WriteSnapshot(&state); err != nil {
		t.Fatal(err)
	}
	before := size()
	if chunks := before / fsm.MaxStageBytes; chunks < 2 {
		t.Fatalf("a state of %d bytes", before)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	given := &impatient{Context: ctx, cancel: cancel}
	given.left.Store(3)
	if _, err := n.RestoreSnapshot(given, state.Bytes(), n.ClusterID(), false); !errors.Is(err, context.Canceled) {
		t.Fatalf("given up: %v", err)
	}
	if after := size(); after > before+1<<10 {
		t.Errorf("the state has %d bytes, and had %d before the restore that was given up", after, before)
	}
	if _, err := n.RestoreSnapshot(context.Background(), state.Bytes(), n.ClusterID(), false); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if after := size(); after > before+1<<10 {
		t.Errorf("the state has %d bytes after the restore, and had %d", after, before)
	}
}
