package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Snapshots are the settings of snapshots on a schedule.
type Snapshots struct {
	// Dir is where files go; "" saves none.
	Dir string
	// Interval is from one file to the next; Keep files stay at most, and none older than MaxAge (0: whatever their age).
	Interval time.Duration
	Keep     int
	MaxAge   time.Duration
}

// Defaults and bounds of Snapshots.
const (
	DefaultSnapshotInterval = time.Hour
	DefaultSnapshotKeep     = 48
	minSnapshotInterval     = 10 * time.Second
	maxSnapshotInterval     = 7 * 24 * time.Hour
	maxSnapshotKeep         = 10_000
	maxSnapshotAge          = 10 * 365 * 24 * time.Hour
)

// SnapshotFlags are the flags of Snapshots that were given; nil: not given.
type SnapshotFlags struct {
	Dir              *string
	Interval, MaxAge *time.Duration
	Keep             *int
}

const (
	keySnapshotDir      = "spark.raftmaster.snapshot.dir"
	keySnapshotInterval = "spark.raftmaster.snapshot.interval"
	keySnapshotKeep     = "spark.raftmaster.snapshot.keep"
	keySnapshotMaxAge   = "spark.raftmaster.snapshot.maxAge"
	envSnapshotDir      = "RAFTMASTER_SNAPSHOT_DIR"
)

func defaultSnapshots() Snapshots {
	return Snapshots{Interval: DefaultSnapshotInterval, Keep: DefaultSnapshotKeep}
}

// setSnapshotTime reads one of the times.
func setSnapshotTime(key string, field func(*Config) *time.Duration) setting {
	return setting{key, func(c *Config, v string) (err error) {
		*field(c), err = parseTime(key, v, time.Second)
		return err
	}}
}

// snapshots takes the flags, which win, and the directory from wherever it is.
func (l *loader) snapshots(f SnapshotFlags) {
	s := &l.cfg.Snapshots
	s.Dir = l.text(f.Dir, keySnapshotDir, envSnapshotDir)
	if f.Interval != nil {
		s.Interval = *f.Interval
	}
	if f.Keep != nil {
		s.Keep = *f.Keep
	}
	if f.MaxAge != nil {
		s.MaxAge = *f.MaxAge
	}
	if s.Dir == "" && (f.Interval != nil || f.Keep != nil || f.MaxAge != nil) {
		l.warn("--snapshot-interval, --snapshot-keep and --snapshot-max-age have no effect without --snapshot-dir: no snapshots are saved")
	}
}

func (s Snapshots) validate(dataDir string) error {
	switch {
	case s.Interval < minSnapshotInterval || s.Interval > maxSnapshotInterval:
		return invalid("snapshot-interval", s.Interval.String(), fmt.Sprintf("from %v to %v", minSnapshotInterval, maxSnapshotInterval))
	case s.Keep < 1 || s.Keep > maxSnapshotKeep:
		return invalid("snapshot-keep", strconv.Itoa(s.Keep), fmt.Sprintf("from 1 to %d", maxSnapshotKeep))
	case s.MaxAge < 0 || s.MaxAge > maxSnapshotAge:
		return invalid("snapshot-max-age", s.MaxAge.String(), fmt.Sprintf("from 0 (no limit) to %v", maxSnapshotAge))
	case s.Dir != "" && inside(s.Dir, dataDir):
		return invalid("snapshot-dir", strconv.Quote(s.Dir), "a directory outside the data directory: best on another disk")
	}
	return nil
}

func inside(dir, parent string) bool {
	dir, parent = strings.TrimRight(dir, "/"), strings.TrimRight(parent, "/")
	return parent != "" && (dir == parent || strings.HasPrefix(dir, parent+"/"))
}
