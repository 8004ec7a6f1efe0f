package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"raftmaster/fsm"
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

// WriteSnapshot writes the state as of now, in fsm's snapshot format, which has its own checksum.
func (n *Node) WriteSnapshot(w io.Writer) (SnapshotInfo, error) {
	counter := &countingWriter{w: w}
	v := n.View()
	if err := n.fsm.machine.Load().Snapshot().Write(counter); err != nil {
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

// maxRestore bounds a snapshot that is restored through the admin API, in bytes.
const maxRestore = 1 << 30

// RestoreSnapshot replaces the state of the whole cluster by that of a snapshot. It is checked completely first: raft
// panics on one that it cannot restore. Leader only.
func (n *Node) RestoreSnapshot(ctx context.Context, r io.Reader) error {
	in, err := n.leading()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxRestore+1))
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	if len(data) > maxRestore {
		return fmt.Errorf("%w: the snapshot has more than %d bytes", ErrUnsafe, maxRestore)
	}
	if _, err := fsm.Restore(bytes.NewReader(data)); err != nil {
		return err
	}
	meta := &raft.SnapshotMeta{Version: 1, Size: int64(len(data))}
	done := make(chan error, 1)
	go func() { done <- in.raft.Restore(meta, bytes.NewReader(data), timeLeft(ctx)) }()
	select {
	case err := <-done:
		return mapError(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, ctx.Err())
	}
}
