package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// TakeSnapshot makes a snapshot now, on any node, and describes the newest one.
func (n *Node) TakeSnapshot(ctx context.Context) (SnapshotInfo, error) {
	err := await(ctx, n.inst.Load().raft.Snapshot())
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return SnapshotInfo{}, fmt.Errorf("take a snapshot: %w", err)
	}
	meta, err := n.store.NewestSnapshot()
	switch {
	case err != nil:
		return SnapshotInfo{}, storageError("list the snapshots", err)
	case meta == nil:
		return SnapshotInfo{}, errors.New("there is nothing to take a snapshot of yet")
	}
	return SnapshotInfo{ID: meta.ID, Index: meta.Index, Term: meta.Term, Size: meta.Size}, nil
}

// boundLog keeps the log from growing in bytes where raft counts entries: entries of hundreds of KiB would have it grow to
// many GiB. It is called by housekeeping, with what it returned before.
func (n *Node) boundLog(wanted time.Time) time.Time {
	in := n.inst.Load()
	covered := stat(in.raft.Stats(), "last_snapshot_index")
	if err := n.store.TrimTo(n.cfg.TrailingBytes, covered); err != nil && n.noise.allow("trim") {
		n.log.Warn("the log cannot be trimmed", "error", err)
	}
	if n.store.BytesAfter(covered) <= n.cfg.SnapshotBytes || time.Since(wanted) < snapshotPause || n.snapshotting.Swap(true) {
		return wanted
	}
	n.spawn(func() {
		defer n.snapshotting.Store(false)
		n.log.Info("taking a snapshot: the log has become long in bytes", "bytes", n.store.BytesAfter(covered), "behind", covered)
		if err := in.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			n.log.Warn("no snapshot was taken", "error", err) // the reason is an alarm, too: see watchHealth
		}
	})
	return time.Now()
}

// WriteSnapshot writes the state as of now, in fsm's snapshot format, which has its own checksum.
func (n *Node) WriteSnapshot(w io.Writer) (SnapshotInfo, error) {
	counter := &countingWriter{w: w}
	snapshot := n.Snapshot()
	v := snapshot.View()
	if err := snapshot.Write(counter); err != nil {
		return SnapshotInfo{}, fmt.Errorf("write the snapshot: %w", err)
	}
	return SnapshotInfo{Index: v.Index(), Term: v.Term(), Size: counter.n}, nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	k, err := c.w.Write(p)
	c.n += int64(k)
	return k, err
}
