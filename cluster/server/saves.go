package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"raftmaster/cluster/admin"
	"raftmaster/cluster/backup"
	"raftmaster/fsm"
)

// newSaves prepares snapshots on a schedule. Every master with a directory saves its own copy of the state, so that
// backups need no leader and no single disk.
func (s *Server) newSaves() {
	c := s.cfg.Snapshots
	if c.Dir == "" {
		return
	}
	s.saves = backup.NewSchedule(backup.Options{Dir: c.Dir, Interval: c.Interval, Keep: c.Keep, MaxAge: c.MaxAge, Log: s.log.Named("snapshots"),
		Take: func() (backup.Header, fsm.Snapshot, bool) {
			return s.snapshotHeader(), s.node.Snapshot(), s.node.ClusterID() != ""
		}})
}

// watched adds the alarm of the schedule to those of the process's own files.
type watched struct {
	admin.Security
	saves *backup.Schedule // nil: none
}

// Alarms implements admin.Security.
func (w watched) Alarms() []string {
	out := w.Security.Alarms()
	if w.saves == nil {
		return out
	}
	if text := w.saves.Alarm(); text != "" {
		out = append(out, text)
	}
	return out
}

// registerSaves registers the metrics of the schedule, when there is one.
func (s *Server) registerSaves(reg prometheus.Registerer) error {
	if s.saves == nil {
		return nil
	}
	gauge := func(name, help string, of func(backup.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "raftmaster", Name: name, Help: help}, func() float64 { return of(s.saves.Stats()) })
	}
	for _, c := range []prometheus.Collector{
		gauge("saved_snapshot_age_seconds", "Time since a snapshot was last saved on the schedule, or since the start.", func(st backup.Stats) float64 { return st.Age.Seconds() }),
		gauge("saved_snapshots", "Snapshots of this master in its directory.", func(st backup.Stats) float64 { return float64(st.Files) }),
		gauge("saved_snapshot_bytes", "Their size.", func(st backup.Stats) float64 { return float64(st.Bytes) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "raftmaster", Name: "saved_snapshot_failures_total", Help: "Snapshots on the schedule that could not be saved."},
			func() float64 { return float64(s.saves.Stats().Failures) }),
	} {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}
