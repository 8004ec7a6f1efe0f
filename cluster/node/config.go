package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

// Defaults and limits.
const (
	defaultFailoverTimeout   = 500 * time.Millisecond
	minFailoverTimeout       = 50 * time.Millisecond
	defaultSnapshotThreshold = 8192
	defaultSnapshotInterval  = 30 * time.Second
	defaultTrailingLogs      = 10240
	defaultSnapshotBytes     = 256 << 20
	defaultTrailingBytes     = 128 << 20
	defaultMaxInflight       = 8192
	defaultDigestInterval    = time.Minute

	// maxAppendEntries is how many entries travel in one RPC and reach the FSM in one batch.
	maxAppendEntries = 256
	// maxCommitTimeout is how long a follower of an idle leader may lag behind its commit index.
	maxCommitTimeout = 50 * time.Millisecond
	// minRPCTimeout bounds one raft RPC; a slow disk needs more than a failover time-out.
	minRPCTimeout = 2 * time.Second
	// rankDelay keeps two followers from campaigning at once after the same failure.
	rankDelay = 50 * time.Millisecond
	// snapshotPause is the least time between two snapshots that the bytes of the log call for.
	snapshotPause = 5 * time.Second
	// lowDiskBytes of free space raise an alarm.
	lowDiskBytes = 256 << 20
)

// seams switch guards off, so that a test can prove that they are needed.
type seams struct {
	noSnapshotGuard    bool
	noTransferWatchdog bool
	noFastFailover     bool
	corruptDigest      func(digest string) string
	writeFault         func() error
	level              fsm.Level // of an older release
}

// withDefaults checks a configuration and fills in what was left out.
func (c Config) withDefaults() (Config, error) {
	if c.Logger == nil || c.Fatal == nil {
		return c, errors.New("node: Logger and Fatal are required")
	}
	n := 0
	for i, e := range c.Cluster {
		if e == c.Self {
			n++
		}
		if slices.Contains(c.Cluster[:i], e) {
			return c, fmt.Errorf("node: %q is twice in the cluster list %s", e, raftnet.ListString(c.Cluster))
		}
	}
	if n != 1 {
		return c, fmt.Errorf("node: this master, %q, must be in the cluster list exactly once, but %s has it %d times", c.Self, raftnet.ListString(c.Cluster), n)
	}
	c.Cluster = slices.Clone(c.Cluster)
	slices.Sort(c.Cluster)
	setDefault(&c.FailoverTimeout, defaultFailoverTimeout)
	if c.FailoverTimeout < minFailoverTimeout {
		return c, fmt.Errorf("node: a failover time-out of %s is below the minimum of %s", c.FailoverTimeout, minFailoverTimeout)
	}
	setDefault(&c.SnapshotThreshold, defaultSnapshotThreshold)
	setDefault(&c.SnapshotInterval, defaultSnapshotInterval)
	setDefault(&c.TrailingLogs, defaultTrailingLogs)
	setDefault(&c.SnapshotBytes, defaultSnapshotBytes)
	setDefault(&c.TrailingBytes, defaultTrailingBytes)
	setDefault(&c.MaxInflight, defaultMaxInflight)
	setDefault(&c.DigestInterval, defaultDigestInterval)
	if c.BootTime == nil {
		c.BootTime = raftnet.BootTime
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	return c, nil
}

// writeFault is the one hook in front of all writes: that of a test, else that of a drill.
func (c Config) writeFault() func() error {
	if c.seams.writeFault != nil {
		return c.seams.writeFault
	}
	return c.Disk.WriteFault
}

func setDefault[T int | int64 | uint64 | time.Duration](p *T, value T) {
	if *p == 0 {
		*p = value
	}
}

// raftConfig derives raft's configuration.
func (n *Node) raftConfig(notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.nodeID)
	c.HeartbeatTimeout = n.cfg.FailoverTimeout
	c.ElectionTimeout = n.cfg.FailoverTimeout
	c.LeaderLeaseTimeout = n.cfg.FailoverTimeout
	c.CommitTimeout = min(n.cfg.FailoverTimeout/10, maxCommitTimeout)
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = true
	c.ShutdownOnRemove = false
	c.SnapshotThreshold = n.cfg.SnapshotThreshold
	c.SnapshotInterval = n.cfg.SnapshotInterval
	c.TrailingLogs = n.cfg.TrailingLogs
	c.NoLegacyTelemetry = true
	c.NotifyCh = notify
	c.Logger = newQuietLogger(n.cfg.Logger.Named("raft"))
	return c
}
