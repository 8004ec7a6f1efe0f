package fsm

// A restore replaces the state by that of a snapshot, through the log: the leader stages the snapshot's bytes, chunk by
// chunk, and commits them with one command. Until then nothing has changed; a new leader drops what another staged.

// Command types of a restore.
const (
	TypeStageRestore  CommandType = 20
	TypeCommitRestore CommandType = 21
)

// MaxStageBytes bounds the bytes of one StageRestore, so that it fits into MaxCommandBytes; MaxRestoreBytes those of a
// whole snapshot that is restored: every master holds them in memory until the restore is committed.
const (
	MaxStageBytes   = 480 << 10
	MaxRestoreBytes = 512 << 20
)

// StageRestore adds a chunk of a snapshot. Seq 0 begins afresh; any other must follow the one before, of the same
// RestoreID. Value: int, the bytes staged so far.
type StageRestore struct {
	Meta
	RestoreID string
	Seq       int
	Data      []byte
}

// CommitRestore puts the staged snapshot in the place of the state, see restoring. Chunks is their number. SameCluster: the
// leader knows that the snapshot is of its own cluster. One of another is refused (ErrOtherSnapshot) unless OtherCluster, or
// unless nothing has ever run here. Value: RestoreOutcome.
type CommitRestore struct {
	Meta
	RestoreID    string
	Chunks       int
	SameCluster  bool
	OtherCluster bool
}

// Type implements Command.
func (StageRestore) Type() CommandType  { return TypeStageRestore }
func (CommitRestore) Type() CommandType { return TypeCommitRestore }

// RestoreOutcome tells what a restore does to the state, in numbers of entities.
type RestoreOutcome struct {
	// Before is the state that is replaced, Snapshot what the snapshot holds, After the new state.
	Before, Snapshot, After Totals
	// SnapshotIndex is that of the snapshot.
	SnapshotIndex uint64
	// Later: the state knows all that happened since the snapshot was taken.
	Later bool
	// Kept counts the applications and drivers that stay although the snapshot does not know them; Ended those which run
	// in the snapshot and end at once, because they have ended since.
	KeptApps, KeptDrivers, EndedApps, EndedDrivers int
	// Unbooked counts the executors that run now and that the new state does not know: their workers are told to kill them.
	Unbooked int
}
