package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

// Member is a voter of a configuration.
type Member struct{ NodeID, Address string }

// RecoverOptions say how to rewrite the configuration of a stopped master whose cluster has lost its majority for good.
type RecoverOptions struct {
	DataDir string
	// Members is the new configuration: every surviving master gets the same one. Empty means this node alone.
	Members []Member
	// Address is this node's own, for a configuration of this node alone; "" keeps the one of the old configuration.
	Address string
	// BackupDir is where the copy of the data directory goes; "" is the directory that it is in, which is of no use when the
	// data directory is a file system of its own, as in a container.
	BackupDir string
	// DryRun only reports what would be done.
	DryRun bool
	// TLS is how the masters of that cluster prove who they are; nil: they do not.
	TLS *raftnet.Security
	// Force skips the question whether one of the old members still knows a leader.
	Force  bool
	Logger hclog.Logger
}

// RecoverReport is what a recovery found and did.
type RecoverReport struct {
	NodeID, ClusterID    string
	Before, After        []Member
	LastIndex            uint64 // every entry up to here counts as committed afterwards
	Digest               string
	Workers, Active      int // workers and active applications in the recovered state
	Drivers              int // unfinished drivers there
	Backup               string
	Reachable, NotAnswer []string // addresses of old members

	voters []string // node ids of the old voters
}

// recoverDial bounds the question to one old member.
const recoverDial = 2 * time.Second

// Recover rewrites the raft configuration offline. It refuses (ErrUnsafe) while an old member that it can reach knows a
// leader, and makes a copy of the data directory first. Entries that were never committed become so: that is the price
// of a lost majority.
func Recover(ctx context.Context, o RecoverOptions) (report RecoverReport, err error) {
	store, err := raftstore.Open(raftstore.Options{Dir: o.DataDir, Logger: o.Logger})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, store.Close(), giveBack(o.DataDir, o.DataDir)) }()
	id := store.Identity()
	report.NodeID, report.ClusterID = id.NodeID, id.ClusterID
	_, trans := raft.NewInmemTransport("")
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = raft.ServerID(id.NodeID), o.Logger
	if err := inspectForRecovery(store, conf, trans, &report); err != nil {
		return report, err
	}
	if report.After, err = newMembers(o, report); err != nil {
		return report, err
	}
	if err := refuseReachableLeader(ctx, o, store, &report); err != nil || o.DryRun {
		return report, err
	}
	if report.Backup, err = backUp(o.DataDir, o.BackupDir, time.Now()); err != nil {
		return report, err
	}
	var c raft.Configuration
	for _, m := range report.After {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(m.NodeID), Address: raft.ServerAddress(m.Address)})
	}
	machine, fatal := offlineMachine(o.Logger)
	if err := raft.RecoverCluster(conf, machine, store.Logs(), store.Stable(), store.Snapshots(), trans, c); err != nil {
		return report, errors.Join(fmt.Errorf("recover: %w", err), *fatal)
	}
	return report, *fatal
}

// offlineMachine is a state machine that tells nobody. The error is set when it had to halt.
func offlineMachine(log hclog.Logger) (*adapter, *error) {
	fatal := new(error)
	hooks := Hooks{Applied: func([]Applied) {}, Restored: func() {}}
	return newAdapter(log, hooks, func(err error) { *fatal = err }, fsm.CommandLevel, func(uint64, uint64, string) {}), fatal
}

// inspectForRecovery reads the configuration and replays everything into a state machine, which proves that it can be.
func inspectForRecovery(store *raftstore.Store, conf *raft.Config, trans raft.Transport, report *RecoverReport) error {
	machine, fatal := offlineMachine(conf.Logger)
	c, err := raft.GetConfiguration(conf, machine, store.Logs(), store.Stable(), store.Snapshots(), trans)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	for _, s := range c.Servers {
		report.Before = append(report.Before, Member{NodeID: string(s.ID), Address: string(s.Address)})
		if s.Suffrage == raft.Voter {
			report.voters = append(report.voters, string(s.ID))
		}
	}
	if len(report.Before) == 0 {
		return fmt.Errorf("%w: %s has no configuration: this master was never part of a cluster", ErrUnsafe, store.Dir())
	}
	first, last, err := store.Bounds()
	if err != nil {
		return storageError("read the log", err)
	}
	snap, err := store.NewestSnapshot()
	if err != nil {
		return storageError("list the snapshots", err)
	}
	if snap != nil {
		report.LastIndex, first = snap.Index, snap.Index+1
	}
	for i := first; i > 0 && i <= last; i++ {
		var l raft.Log
		if err := store.Logs().GetLog(i, &l); err != nil {
			return storageError(fmt.Sprintf("read entry %d", i), err)
		}
		machine.Apply(&l)
		report.LastIndex = i
	}
	v := *machine.view.Load()
	report.Digest = v.Digest().String()
	v.Workers(func(*fsm.Worker) bool { report.Workers++; return true })
	v.ActiveApplications(func(*fsm.Application) bool { report.Active++; return true })
	v.Drivers(func(*fsm.Driver) bool { report.Drivers++; return true })
	return *fatal
}

// newMembers checks the new configuration: this node must be in it.
func newMembers(o RecoverOptions, report RecoverReport) ([]Member, error) {
	if len(o.Members) > 0 {
		if !slices.ContainsFunc(o.Members, func(m Member) bool { return m.NodeID == report.NodeID }) {
			return nil, fmt.Errorf("%w: this node, %s, is not among the new members", ErrUnsafe, report.NodeID)
		}
		return slices.Clone(o.Members), nil
	}
	self := Member{NodeID: report.NodeID, Address: o.Address}
	for _, m := range report.Before {
		if m.NodeID == self.NodeID && self.Address == "" {
			self.Address = m.Address
		}
	}
	if self.Address == "" {
		return nil, fmt.Errorf("%w: the old configuration does not name this node, %s: say its address", ErrUnsafe, self.NodeID)
	}
	return []Member{self}, nil
}

// refuseReachableLeader asks the old members, under the addresses old and new, whether they know a leader. It refuses as well
// when those that answer are a majority together with this one: they elect a leader at any moment, beside the new cluster.
func refuseReachableLeader(ctx context.Context, o RecoverOptions, store *raftstore.Store, report *RecoverReport) error {
	seen := make(map[string]bool)
	var there []string // voters that answered
	self := o.Address
	for _, m := range report.Before {
		if m.NodeID == report.NodeID && self == "" {
			self = m.Address
		}
	}
	for _, m := range append(slices.Clone(report.Before), report.After...) {
		if m.NodeID == report.NodeID || seen[m.Address] {
			continue
		}
		seen[m.Address] = true
		theirs, err := askOldMember(ctx, o, self, store, m.Address)
		if cannotTell(err) && !o.Force {
			return fmt.Errorf("%w: a master runs at %s, and whether it knows a leader cannot be asked: %w; recover with the same files for TLS between masters as those masters have", ErrUnsafe, m.Address, err)
		}
		if err != nil && !ofCluster(err, store.Identity().ClusterID) {
			report.NotAnswer = append(report.NotAnswer, m.Address)
			continue
		}
		report.Reachable = append(report.Reachable, m.Address)
		if theirs.LeaderID != "" && !o.Force {
			return fmt.Errorf("%w: %s (node %s) knows a leader, %s: the cluster is alive; start this master instead", ErrUnsafe, m.Address, theirs.NodeID, theirs.LeaderID)
		}
		if err == nil && slices.Contains(report.voters, theirs.NodeID) && !slices.Contains(there, theirs.NodeID) {
			there = append(there, theirs.NodeID)
		}
	}
	alive := len(there)
	if slices.Contains(report.voters, report.NodeID) {
		alive++
	}
	if len(there) > 0 && alive > len(report.voters)/2 && !o.Force && !sameVoters(report) {
		return fmt.Errorf("%w: %s answered, and with this master %d of %d voters are there, a majority: they elect a leader when this master is started; start it instead",
			ErrUnsafe, strings.Join(report.Reachable, ", "), alive, len(report.voters))
	}
	return nil
}

// cannotTell: a master is there, and does not say whether it knows a leader, because one side could not prove what it is.
func cannotTell(err error) bool {
	var r *raftnet.RefusedError
	return raftnet.DisagreesOnTLS(err) || errors.Is(err, raftnet.ErrNotProven) || errors.As(err, &r) && r.By.NodeID == ""
}

// ofCluster: a master of that cluster wants nothing of this node any more, which was removed, or whose data were copied. It
// has answered all the same.
func ofCluster(err error, cluster string) bool {
	var r *raftnet.RefusedError
	return errors.As(err, &r) && r.By.ClusterID == cluster
}

// sameVoters: the voters only move to other addresses, so that no two majorities of them can be apart.
func sameVoters(report *RecoverReport) bool {
	return len(report.After) == len(report.voters) && !slices.ContainsFunc(report.After, func(m Member) bool { return !slices.Contains(report.voters, m.NodeID) })
}

// askOldMember asks under an address that is none, but on the host that a certificate is for.
func askOldMember(ctx context.Context, o RecoverOptions, self string, store *raftstore.Store, address string) (raftnet.Hello, error) {
	if o.TLS.Strict() {
		self = net.JoinHostPort(hostOf(self), "0")
	} else {
		self = "offline"
	}
	ctx, cancel := context.WithTimeout(ctx, recoverDial)
	defer cancel()
	id := store.Identity()
	c, theirs, err := raftnet.DialSecure(ctx, address, raftnet.Hello{
		Kind: raftnet.KindWatch, ClusterID: id.ClusterID, NodeID: id.NodeID, BootID: raftstore.NewID(), Address: self, Level: uint8(fsm.CommandLevel),
	}, raftnet.Faults{}, o.TLS)
	if err != nil {
		return theirs, err
	}
	return theirs, c.Close()
}

// LogEntry is one entry of a stopped master's log, for people.
type LogEntry struct {
	Index, Term uint64
	Type        string // raft's type: LogCommand, LogConfiguration, LogNoop, LogBarrier
	Command     string // the command's name, for LogCommand
	RequestID   string
	NowMillis   int64
	AppendedAt  time.Time
	Size        int
	Detail      any    // the decoded command, or the configuration's servers
	Problem     string // why it cannot be decoded
}

// DumpLog reads the log of a stopped master, from an index to another (0: to the end).
func DumpLog(dataDir string, from, to uint64, log hclog.Logger, each func(LogEntry) error) (err error) {
	store, err := raftstore.Open(raftstore.Options{Dir: dataDir, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(), giveBack(dataDir, dataDir)) }()
	first, last, err := store.Bounds()
	if err != nil {
		return storageError("read the log", err)
	}
	if to == 0 || to > last {
		to = last
	}
	for i := max(first, from, 1); i <= to; i++ {
		var l raft.Log
		if err := store.Logs().GetLog(i, &l); err != nil {
			if errors.Is(err, raft.ErrLogNotFound) {
				continue
			}
			return storageError(fmt.Sprintf("read entry %d", i), err)
		}
		if err := each(describe(&l)); err != nil {
			return err
		}
	}
	return nil
}

func describe(l *raft.Log) LogEntry {
	e := LogEntry{Index: l.Index, Term: l.Term, Type: l.Type.String(), AppendedAt: l.AppendedAt, Size: len(l.Data)}
	switch l.Type {
	case raft.LogCommand:
		data, err := raftstore.Unseal(l.Data)
		if err != nil {
			e.Problem = err.Error()
			break
		}
		cmd, err := fsm.DecodeCommand(data)
		if err != nil {
			e.Problem = err.Error()
			break
		}
		m := cmd.Header()
		e.Command, e.RequestID, e.NowMillis, e.Detail = cmd.Type().String(), m.RequestID, m.NowMillis, cmd
	case raft.LogConfiguration:
		e.Detail = raft.DecodeConfiguration(l.Data).Servers
	}
	return e
}
