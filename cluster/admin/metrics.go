package admin

import (
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

const namespace = "raftmaster"

// Metrics are the counters that others feed. The gauges are read from a Backend when they are gathered.
type Metrics struct {
	apply        prometheus.Histogram
	commit       *prometheus.HistogramVec
	plan         prometheus.Histogram
	decodeErrors *prometheus.CounterVec
	connections  *prometheus.GaugeVec
	leaders      leaderCount

	mu      sync.Mutex
	reasons map[string]bool // the label values of decodeErrors so far
}

// maxReasons bounds the label values of decode_errors_total: a class name comes from whoever connects, and every new
// value costs memory for ever, here and in the monitoring.
const maxReasons = 32

// otherReason counts what has no label of its own.
const otherReason = "other"

// latencyBuckets span a disk sync (0.2 ms) to an election that went wrong (several seconds).
var latencyBuckets = prometheus.ExponentialBuckets(0.0001, 2, 17)

// applyBuckets span one map lookup to a stall.
var applyBuckets = prometheus.ExponentialBuckets(0.000001, 4, 12)

// NewMetrics registers the fed metrics and the gauges of b with reg.
func NewMetrics(reg prometheus.Registerer, b *Backend) (*Metrics, error) {
	m := &Metrics{
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "apply_duration_seconds",
			Help: "Time to apply one batch of committed commands to the state machine.", Buckets: applyBuckets}),
		commit: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: "commit_duration_seconds",
			Help: "Time from the proposal of a command until it was applied on the leader.", Buckets: latencyBuckets},
			[]string{"command"}),
		plan: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "plan_duration_seconds",
			Help: "Time of one planning pass of the leader.", Buckets: applyBuckets}),
		decodeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "decode_errors_total",
			Help: "Messages that could not be decoded, by kind of failure."}, []string{"reason"}),
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "connections",
			Help: "Open connections on the cluster port, by kind."}, []string{"kind"}),
		leaders: leaderCount{b: b},
	}
	m.reasons = make(map[string]bool, maxReasons)
	// Both kinds exist from the start, so that a scrape of an idle master shows them as 0.
	m.connections.WithLabelValues("spark")
	m.connections.WithLabelValues("internal")
	m.decodeErrors.WithLabelValues("frame")
	m.decodeErrors.WithLabelValues("message")
	m.reasons["frame"], m.reasons["message"] = true, true
	for _, c := range []prometheus.Collector{m.apply, m.commit, m.plan, m.decodeErrors, m.connections,
		&gauges{b: b, leaders: &m.leaders}} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Applied records the time that one batch took in the state machine.
func (m *Metrics) Applied(took time.Duration) { m.apply.Observe(took.Seconds()) }

// Committed records the time from proposal to application; command must come from a fixed set of names.
func (m *Metrics) Committed(command string, took time.Duration) {
	m.commit.WithLabelValues(command).Observe(took.Seconds())
}

// Planned records the time of one planning pass.
func (m *Metrics) Planned(took time.Duration) { m.plan.Observe(took.Seconds()) }

// DecodeError counts a message or frame that could not be decoded. reason may come from a peer: only the first few
// different ones that are plain class names get a label of their own.
func (m *Metrics) DecodeError(reason string) {
	m.decodeErrors.WithLabelValues(m.reasonLabel(reason)).Inc()
}

func (m *Metrics) reasonLabel(reason string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.reasons[reason]:
		return reason
	case len(m.reasons) >= maxReasons, !plainName(reason):
		return otherReason
	}
	m.reasons[reason] = true
	return reason
}

// plainName: the characters of a Java class name and of a few words, and no more than a line of them.
func plainName(s string) bool {
	const maxName = 128
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._$- ", r))
	})
}

// ConnectionOpened and ConnectionClosed keep the number of connections of a kind ("spark", "internal").
func (m *Metrics) ConnectionOpened(kind string) { m.connections.WithLabelValues(kind).Inc() }

// ConnectionClosed undoes ConnectionOpened.
func (m *Metrics) ConnectionClosed(kind string) { m.connections.WithLabelValues(kind).Dec() }

// LeaderChanged looks whether there is a new leader, whichever master that is. Each scrape looks as well; a call at an
// election keeps the count right although nobody scrapes for longer than the replicated history reaches back. It costs
// no more than reading that history.
func (m *Metrics) LeaderChanged() { m.leaders.look() }

// leaderCount counts the leaders that the replicated history names, of all masters.
type leaderCount struct {
	b *Backend

	mu   sync.Mutex
	term uint64 // of the last leader that was looked at
	n    uint64
}

// look takes up what is new in the history and returns the count. Elections of before this process started, which a
// follower reads when it comes back, are told apart by their time on their leader's clock.
func (c *leaderCount) look() uint64 {
	history := c.b.node.View().LeaderHistory()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range history {
		if r.Term <= c.term {
			continue
		}
		c.term = r.Term
		if r.AtMillis >= c.b.id.StartedMillis {
			c.n++
		}
	}
	return c.n
}

// gauges reads a Backend at each scrape.
type gauges struct {
	b       *Backend
	leaders *leaderCount
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	descInfo       = desc("info", "Identity of this master; always 1.", "version", "node_id", "address", "cluster_id")
	descRole       = desc("role", "1 for the present Raft role, 0 for the others.", "role")
	descAlive      = desc("alive", "1 while this master is the ALIVE one and holds a valid lease.")
	descReady      = desc("ready", "1 while /readyz answers 200.")
	descTerm       = desc("term", "Raft term.")
	descLeaders    = desc("leader_changes_total", "Leaders elected since this process started, itself or another master.")
	descCommit     = desc("commit_index", "Index of the last committed log entry known here.")
	descApplied    = desc("applied_index", "Index of the last applied log entry.")
	descLastLog    = desc("last_log_index", "Index of the last log entry on disk.")
	descWorkers    = desc("workers", "Workers, by state.", "state")
	descApps       = desc("apps", "Applications, by state.", "state")
	descDrivers    = desc("drivers", "Drivers in cluster mode, by state.", "state")
	descExecutors  = desc("executors", "Executors booked on a worker, by state.", "state")
	descCores      = desc("cores", "Cores of ALIVE workers.")
	descCoresUsed  = desc("cores_used", "Cores in use on ALIVE workers.")
	descMemory     = desc("memory_bytes", "Memory of ALIVE workers.")
	descMemoryUsed = desc("memory_used_bytes", "Memory in use on ALIVE workers.")
	descVoters     = desc("quorum_voters", "Voters of the cluster.")
	descReachable  = desc("quorum_reachable_voters", "Voters in contact, this one included.")
	descTolerance  = desc("quorum_tolerance", "Voters that may still be lost; negative without a majority.")
	descContact    = desc("peer_last_contact_seconds", "Age of a peer's last sign of life.", "peer")
	descLag        = desc("peer_lag_entries", "Log entries that a peer is behind; on the leader only.", "peer")
	descLogBytes   = desc("log_bytes", "Size of the replicated log on disk.")
	descLogEntries = desc("log_entries", "Entries of the replicated log on disk.")
	descUncovered  = desc("log_uncovered_bytes", "Bytes of the log entries behind the last snapshot.")
	descSnapBytes  = desc("snapshot_bytes", "Size of the snapshots on disk.")
	descDiskFree   = desc("disk_free_bytes", "Space left on the file system of the data directory.")
	descAwaited    = desc("take_over_awaited_peers", "Peers that have not answered the new leader yet.")
	descAlarms     = desc("alarms", "Conditions that need an operator.")
)

// Describe sends nothing: which peers exist changes, so the collector is an unchecked one.
func (g *gauges) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	st, totals := g.b.Status(), g.b.node.View().Totals()
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	put(descInfo, 1, st.Version, st.NodeID, st.Address, st.ClusterID)
	for _, role := range []string{webui.RoleLeader, webui.RoleFollower, webui.RoleCandidate} {
		put(descRole, oneIf(st.Role == role), role)
	}
	put(descAlive, oneIf(st.State == webui.StateAlive && st.LeaseValid))
	put(descReady, oneIf(webui.HealthOf(st).Ready))
	put(descTerm, float64(st.Term))
	ch <- prometheus.MustNewConstMetric(descLeaders, prometheus.CounterValue, float64(g.leaders.look()))
	put(descCommit, float64(st.CommitIndex))
	put(descApplied, float64(st.AppliedIndex))
	put(descLastLog, float64(st.LastLogIndex))
	put(descLogBytes, float64(st.LogBytes))
	put(descLogEntries, float64(st.LogEntries))
	put(descUncovered, float64(st.UncoveredBytes))
	put(descSnapBytes, float64(st.SnapshotBytes))
	put(descDiskFree, float64(st.DiskFreeBytes))
	putCluster(put, st, totals)
	putQuorum(put, st)
}

func putCluster(put func(*prometheus.Desc, float64, ...string), st webui.Status, t fsm.Totals) {
	for state, n := range st.Counts.WorkersByState {
		put(descWorkers, float64(n), state)
	}
	for state, n := range st.Counts.AppsByState {
		put(descApps, float64(n), state)
	}
	for state, n := range st.Counts.DriversByState {
		put(descDrivers, float64(n), state)
	}
	put(descExecutors, float64(t.ExecutorsLaunching), fsm.ExecutorLaunching.String())
	put(descExecutors, float64(t.ExecutorsRunning), fsm.ExecutorRunning.String())
	put(descExecutors, float64(t.ExecutorsDecommissioned), fsm.ExecutorDecommissioned.String())
	put(descCores, float64(t.Cores))
	put(descCoresUsed, float64(t.CoresUsed))
	put(descMemory, float64(t.MemoryMB)*(1<<20))
	put(descMemoryUsed, float64(t.MemoryUsedMB)*(1<<20))
}

func putQuorum(put func(*prometheus.Desc, float64, ...string), st webui.Status) {
	put(descVoters, float64(st.Quorum.Voters))
	put(descReachable, float64(st.Quorum.Reachable))
	put(descTolerance, float64(st.Quorum.Tolerance))
	for _, p := range st.Quorum.Peers {
		if p.Self {
			continue
		}
		if p.LastContactMillis != webui.Unknown {
			put(descContact, float64(p.LastContactMillis)/1000, p.Address)
		}
		if p.Lag != webui.Unknown {
			put(descLag, float64(p.Lag), p.Address)
		}
	}
	awaited := 0
	if st.TakeOver != nil {
		awaited = len(st.TakeOver.Awaited)
	}
	put(descAwaited, float64(awaited))
	put(descAlarms, float64(len(st.Alarms)))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
