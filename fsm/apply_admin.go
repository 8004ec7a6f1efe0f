package fsm

import (
	"fmt"
	"slices"
)

// leaderElected remembers the election and takes over the new leader's settings.
func (t *tx) leaderElected(c LeaderElected) (any, error) {
	s := c.Settings
	if err := firstError(checkID("node id", c.NodeID), checkText("reason", c.Reason),
		checkAmount("retained applications", s.RetainedApplications), checkAmount("retained drivers", s.RetainedDrivers),
		checkAmount("retained executors", s.RetainedExecutors), checkAmount("leader history", s.LeaderHistory),
		checkDelay(s.DriverRelaunchDelayMillis)); err != nil {
		return nil, invalid(c, "%v", err)
	}
	t.dropStaged() // the leader that staged it leads no more
	g := t.editGlobals()
	g.Settings = s
	g.Leaders = append(slices.Clone(g.Leaders), LeaderRecord{Term: t.term, Index: t.index, NodeID: c.NodeID,
		AtMillis: t.meta.NowMillis, Reason: c.Reason})
	if over := len(g.Leaders) - min(max(s.LeaderHistory, 1), maxLeaders); over > 0 {
		g.Leaders = slices.Clone(g.Leaders[over:])
	}
	t.clampPauses()
	return nil, nil
}

// initCluster names the cluster once; saying the same again is harmless.
func (t *tx) initCluster(c InitCluster) (any, error) {
	if err := checkID("cluster id", c.ClusterID); err != nil {
		return nil, invalid(c, "%v", err)
	}
	switch t.globals.ClusterID {
	case "":
		t.editGlobals().ClusterID = c.ClusterID
	case c.ClusterID:
	default:
		return nil, ErrClusterID
	}
	return c.ClusterID, nil
}

// MaxRelaunchDelayMillis bounds Settings.DriverRelaunchDelayMillis: a day. A LeaderElected beyond it is refused as a whole.
const MaxRelaunchDelayMillis = 24 * 60 * 60 * 1000

func checkDelay(millis int64) error {
	if millis < 0 || millis > MaxRelaunchDelayMillis {
		return fmt.Errorf("relaunch delay of %d ms is out of range", millis)
	}
	return nil
}

// clampPauses shortens pauses that a former leader's clock makes longer than any can be: that clock was ahead of this
// one's.
func (t *tx) clampPauses() {
	now := t.meta.NowMillis
	for _, d := range t.listDrivers(&t.tables.driverQueue, nil) {
		if latest := now + max(t.globals.Settings.DriverRelaunchDelayMillis, maxLoopDelayMillis); d.NotBeforeMillis > latest {
			changed := *d
			changed.NotBeforeMillis = latest
			t.putDriver(&changed)
		}
	}
	for _, id := range t.tables.queue.collect(nil) {
		if a := t.activeApp(id); a != nil && a.NotBeforeMillis > now+maxLoopDelayMillis {
			t.editApp(id).NotBeforeMillis = now + maxLoopDelayMillis
		}
	}
}
