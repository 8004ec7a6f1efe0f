package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
)

// ErrBusy: another call of the same kind is under way.
var ErrBusy = errors.New("another one is under way")

// Snapshot is the state as of the last applied entry, for writing, in O(1).
func (n *Node) Snapshot() fsm.Snapshot { return n.fsm.machine.Load().Snapshot() }

// PlanRestore tells what RestoreSnapshot would do to the state as it is here, and changes nothing.
func (n *Node) PlanRestore(state []byte, ofCluster string, otherCluster bool) (fsm.RestoreOutcome, error) {
	return fsm.PlanRestore(n.View(), bytes.NewReader(state), fsm.CommitRestore{Meta: restoreMeta("plan"), SameCluster: ofCluster == n.ClusterID(), OtherCluster: otherCluster})
}

// RestoreSnapshot puts a snapshot (fsm's format) in the place of the state of the whole cluster, see fsm.CommitRestore: its
// bytes go through the log, and one entry makes all masters change over at the same place of it. Before that entry nothing
// has changed; ofCluster is the id of the cluster that it was taken from. When the outcome of that entry is unknown, so is
// whether it was restored. Leader only, one at a time (ErrBusy).
//
// The leader service must take over again afterwards: what it knows beside the state is of the state before.
func (n *Node) RestoreSnapshot(ctx context.Context, state []byte, ofCluster string, otherCluster bool) (fsm.RestoreOutcome, error) {
	var none fsm.RestoreOutcome
	if !n.restoring.TryLock() {
		return none, ErrBusy
	}
	defer n.restoring.Unlock()
	if len(state) > fsm.MaxRestoreBytes {
		return none, fmt.Errorf("%w: the snapshot has more than %d bytes", ErrUnsafe, fsm.MaxRestoreBytes)
	}
	n.raiseLevel() // a cluster that has just been upgraded may be about to
	if _, err := n.PlanRestore(state, ofCluster, otherCluster); err != nil {
		return none, err
	}
	id, chunks := "restore-"+raftstore.NewID(), 0
	committed := false
	defer func() {
		if !committed && chunks > 0 {
			n.unstage(id)
		}
	}()
	for rest := state; len(rest) > 0; chunks++ {
		size := min(len(rest), fsm.MaxStageBytes)
		if _, err := n.applyNow(ctx, fsm.StageRestore{Meta: restoreMeta(id), RestoreID: id, Seq: chunks, Data: rest[:size]}); err != nil {
			return none, fmt.Errorf("nothing was restored: %w", err)
		}
		rest = rest[size:]
	}
	v, err := n.applyNow(ctx, fsm.CommitRestore{Meta: restoreMeta(id), RestoreID: id, Chunks: chunks, SameCluster: ofCluster == n.ClusterID(), OtherCluster: otherCluster})
	if err != nil {
		return none, err
	}
	committed = true
	outcome, ok := v.(fsm.RestoreOutcome)
	if !ok {
		return none, fmt.Errorf("a restore gave %T", v)
	}
	return outcome, nil
}

// unstageTimeout bounds unstage.
const unstageTimeout = 5 * time.Second

// unstage frees what a restore that is given up has staged, which every master holds in memory and in its snapshots: another
// one begins, of a single byte. Behind a commit whose outcome is unknown it changes nothing; without leadership the next
// leader drops all of it.
func (n *Node) unstage(id string) {
	ctx, cancel := context.WithTimeout(n.ctx, unstageTimeout)
	defer cancel()
	id += "-given-up"
	if _, err := n.applyNow(ctx, fsm.StageRestore{Meta: restoreMeta(id), RestoreID: id, Data: []byte{0}}); err != nil {
		n.log.Warn("what was staged for a restore stays until the next restore or leader", "error", err)
	}
}

func restoreMeta(id string) fsm.Meta {
	now := time.Now()
	return fsm.Meta{NowMillis: now.UnixMilli(), Stamp: now.Format("20060102150405"), RequestID: id}
}

// applyNow proposes a command and waits until it is applied here. The error is one of this package's, or the command's own.
func (n *Node) applyNow(ctx context.Context, cmd fsm.Command) (any, error) {
	in, err := n.leading()
	if err != nil {
		return nil, err
	}
	data, err := fsm.EncodeCommand(cmd)
	if err != nil {
		return nil, err
	}
	if err := n.gate(in, cmd); err != nil {
		return nil, err
	}
	future := in.raft.Apply(raftstore.Seal(data), timeLeft(ctx))
	if err := await(ctx, future); err != nil {
		return nil, mapError(err)
	}
	result, ok := future.Response().(fsm.Result)
	if !ok {
		return nil, fmt.Errorf("%w: %s was not applied here", ErrUnknownOutcome, cmd.Type())
	}
	return result.Value, result.Err
}
