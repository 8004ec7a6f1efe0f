package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"raftmaster/cluster/backup"
	"raftmaster/cluster/node"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// leadership is the term that this master leads in, as the leader service was told. Unlike Server.term it is 0 on a standby, and
// its lock keeps what is told in order.
type leadership struct {
	mu   sync.Mutex
	term uint64
}

// elected and deposed tell the leader service of a change of leadership.
func (s *Server) elected(term uint64, why string) {
	s.leads.mu.Lock()
	defer s.leads.mu.Unlock()
	s.leads.term = term
	s.svc.Elected(term, why)
}

func (s *Server) deposed(term uint64) {
	s.leads.mu.Lock()
	defer s.leads.mu.Unlock()
	s.leads.term = 0
	s.svc.Deposed(term)
}

// takeOverAgain has the leader service begin anew when a snapshot has taken the place of the state: all that it knows beside
// the state is of the one before. It is called on the goroutine of the state machine, behind what was applied before.
func (s *Server) takeOverAgain(batch []node.Applied) {
	for i := range batch {
		if _, restore := batch[i].Cmd.(fsm.CommitRestore); !restore || batch[i].Result.Err != nil {
			continue
		}
		outcome, _ := batch[i].Result.Value.(fsm.RestoreOutcome)
		s.log.Warn("THE STATE WAS RESTORED from a snapshot", "index", batch[i].Index, "snapshot_index", outcome.SnapshotIndex,
			"kept_apps", outcome.KeptApps, "ended_apps", outcome.EndedApps, "unbooked_executors", outcome.Unbooked)
		s.leads.mu.Lock()
		if term := s.leads.term; term != 0 {
			s.svc.Deposed(term)
			s.svc.Elected(term, "a snapshot was restored")
		}
		s.leads.mu.Unlock()
	}
}

// snapshots saves and restores the state for operators.
type snapshots struct{ s *Server }

// header says where a snapshot is taken.
func (s *Server) snapshotHeader() backup.Header {
	return backup.Header{ClusterID: s.node.ClusterID(), TakenMillis: time.Now().UnixMilli(), Node: s.node.NodeID(), Address: s.cfg.Advertise().String(), Release: s.version}
}

// SaveSnapshot implements webui.Snapshots.
func (a snapshots) SaveSnapshot(_ context.Context, w io.Writer, begin func(webui.SnapshotHead)) error {
	if a.s.node.ClusterID() == "" {
		return &webui.Error{Code: webui.CodeRefused, Message: "this master is not part of a cluster yet: it has no state to save"}
	}
	state := a.s.node.Snapshot()
	t := state.View().Totals()
	begin(webui.SnapshotHead{Index: state.View().Index(), AboutBytes: aboutBytes(t)})
	_, err := backup.Write(w, a.s.snapshotHeader(), state)
	return err
}

// aboutBytes guesses the size of a snapshot, for a progress bar: averages of real states.
func aboutBytes(t fsm.Totals) int64 {
	counts := countsOf(t)
	return int64(2048+512*(counts.WorkersLive+counts.WorkersDead)+3072*counts.AppsActive+512*counts.AppsCompleted+
		256*counts.Executors+512*(counts.DriversActive+counts.DriversCompleted)) + int64(t.DriverPayloadBytes)
}

func countsOf(t fsm.Totals) webui.RestoreCounts {
	return webui.RestoreCounts{
		WorkersLive: t.Workers.Alive + t.Workers.Decommissioned, WorkersDead: t.Workers.Dead,
		AppsActive: t.AppsWaiting + t.AppsRunning, AppsCompleted: t.AppsCompleted, Executors: t.ExecutorsLaunching + t.ExecutorsRunning + t.ExecutorsDecommissioned,
		DriversActive: t.DriversWaiting + t.DriversRunning, DriversCompleted: t.DriversCompleted,
	}
}

// RestoreSnapshot implements webui.Snapshots.
func (a snapshots) RestoreSnapshot(ctx context.Context, req webui.RestoreRequest, body io.Reader) (webui.Restore, error) {
	if err := a.mayRestore(); err != nil {
		return webui.Restore{}, err
	}
	info, state, err := backup.Read(body)
	if err != nil {
		return webui.Restore{}, restoreFailed(err)
	}
	out := webui.Restore{Index: info.Index, Cluster: info.ClusterID, TakenMillis: info.TakenMillis, Release: info.Release,
		OtherCluster: info.ClusterID != a.s.node.ClusterID(), DryRun: req.DryRun}
	var done fsm.RestoreOutcome
	if req.DryRun {
		done, err = a.s.node.PlanRestore(state, info.ClusterID, req.ForceOtherCluster)
	} else {
		done, err = a.s.node.RestoreSnapshot(ctx, state, info.ClusterID, req.ForceOtherCluster)
	}
	if err != nil {
		return webui.Restore{}, restoreFailed(err)
	}
	out.Later, out.Before, out.Snapshot, out.After = done.Later, countsOf(done.Before), countsOf(done.Snapshot), countsOf(done.After)
	out.KeptApps, out.KeptDrivers, out.EndedApps, out.EndedDrivers = done.KeptApps, done.KeptDrivers, done.EndedApps, done.EndedDrivers
	out.Unbooked = done.Unbooked
	return out, nil
}

// mayRestore: only the leader restores, and only while all members that answer run its release, since each of them must read
// the snapshot alike.
func (a snapshots) mayRestore() error {
	st := a.s.backend.Brief()
	if st.State != webui.StateAlive {
		if st.Leader == nil {
			return &webui.Error{Code: webui.CodeNoLeader, Message: "there is no leader to restore a snapshot"}
		}
		return &webui.Error{Code: webui.CodeNotLeader, Leader: st.Leader, Message: "this master is not the leader; the leader is " + st.Leader.Address}
	}
	var others []string
	for _, p := range st.Quorum.Peers {
		if p.Member && p.Reachable && !p.Self && p.Version != "" && p.Version != st.Version {
			others = append(others, p.Address+" ("+p.Version+")")
		}
	}
	if len(others) > 0 {
		return &webui.Error{Code: webui.CodeRefused, Message: fmt.Sprintf("masters of several releases are running: this one is %s, others are %s; finish the upgrade first",
			st.Version, strings.Join(others, ", "))}
	}
	return nil
}

// restoreFailed gives an error its code.
func restoreFailed(err error) error {
	code := webui.CodeInternal
	switch {
	case errors.Is(err, backup.ErrDamaged), errors.Is(err, backup.ErrNotOurs):
		code = webui.CodeBadRequest
	case errors.Is(err, fsm.ErrOtherSnapshot):
		return &webui.Error{Code: webui.CodeRefused, Message: err.Error() + "; nothing was changed: give the other cluster's endpoints, or --force-other-cluster"}
	case errors.Is(err, backup.ErrNewer), errors.Is(err, fsm.ErrInvalidCommand), errors.Is(err, node.ErrUnsafe), errors.Is(err, node.ErrLevel), errors.Is(err, node.ErrBusy):
		code = webui.CodeRefused
	case errors.Is(err, node.ErrUnknownOutcome):
		return &webui.Error{Code: webui.CodeTimeout, Message: err.Error() + "; it may have been restored, or be restored yet: look with raftctl events"}
	case errors.Is(err, node.ErrNotLeader), errors.Is(err, node.ErrTransferring):
		code = webui.CodeNoLeader
	case errors.Is(err, context.DeadlineExceeded):
		code = webui.CodeTimeout
	}
	return &webui.Error{Code: code, Message: err.Error()}
}
