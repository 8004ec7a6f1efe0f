package fsm

import "slices"

// leaderElected remembers the election and takes over the new leader's settings.
func (t *tx) leaderElected(c LeaderElected) (any, error) {
	s := c.Settings
	if err := firstError(checkID("node id", c.NodeID), checkText("reason", c.Reason),
		checkAmount("retained applications", s.RetainedApplications), checkAmount("retained drivers", s.RetainedDrivers),
		checkAmount("retained executors", s.RetainedExecutors), checkAmount("leader history", s.LeaderHistory)); err != nil {
		return nil, invalid(c, "%v", err)
	}
	g := t.editGlobals()
	g.Settings = s
	g.Leaders = append(slices.Clone(g.Leaders), LeaderRecord{Term: t.term, Index: t.index, NodeID: c.NodeID,
		AtMillis: t.meta.NowMillis, Reason: c.Reason})
	if over := len(g.Leaders) - min(max(s.LeaderHistory, 1), maxLeaders); over > 0 {
		g.Leaders = slices.Clone(g.Leaders[over:])
	}
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
