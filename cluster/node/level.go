package node

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

// A release may know commands that an older one does not. Masters tell each other in their handshakes which level of
// commands they know (fsm.Level); the level that the cluster uses is replicated. The leader raises it once every member of
// raft's configuration, learners included, has announced a higher one, and appends no command beyond it.
//
// The word of a member counts until it says something else: who is down keeps the level that it had when this leader last
// heard of it. A member that this process has never heard of might be of any release, so that it holds the level down. Once
// the level is raised, a master that knows less is refused by name, whichever side dials.

// level is what this node knows; tests make it older.
func (c Config) level() fsm.Level {
	if c.seams.level != 0 {
		return c.seams.level
	}
	return fsm.CommandLevel
}

// announced is the level that a peer knows by its last word; 0 when it has not been heard of.
func announced(h raftnet.Hello) fsm.Level {
	if h.NodeID == "" {
		return 0
	}
	return max(fsm.Level(h.Level), fsm.LevelFirst)
}

// tooOld says why a caller, or who was called, is of too old a release for the cluster, or this node for theirs; "" when
// neither is.
func tooOld(mine, theirs raftnet.Hello) string {
	const text = "%s (release %s) knows commands of level %d, but the cluster uses those of level %d, which a cluster never takes back: " +
		"install there the release that the other masters have"
	switch {
	case announced(theirs) < fsm.Level(mine.UsedLevel):
		return fmt.Sprintf(text, theirs.Address, theirs.Version, announced(theirs), mine.UsedLevel)
	case announced(mine) < fsm.Level(theirs.UsedLevel):
		return fmt.Sprintf(text, mine.Address, mine.Version, announced(mine), theirs.UsedLevel)
	}
	return ""
}

// commonLevel is the level that every member knows, and who holds it down when that is less than this node's.
func (n *Node) commonLevel(in *instance) (common fsm.Level, who string) {
	common = n.cfg.level()
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		if string(s.ID) == n.nodeID {
			continue
		}
		level, text := fsm.LevelFirst, fmt.Sprintf("%s (%s) has not been heard of since this master started", s.Address, s.ID)
		if p, ok := n.peers.byID(string(s.ID)); ok && announced(p.hello) > 0 {
			level, text = announced(p.hello), fmt.Sprintf("%s (%s), release %s, knows level %d", p.addr, s.ID, p.hello.Version, announced(p.hello))
		}
		if level < common {
			common, who = level, text
		}
	}
	return common, who
}

// gate lets a command through that every member knows. It raises the cluster's level first, when all are upgraded: raft keeps
// the order of what one goroutine hands to it.
func (n *Node) gate(in *instance, cmd fsm.Command) error {
	need := fsm.LevelOf(cmd.Type())
	if need <= n.View().Level() {
		return nil
	}
	if in.raft.State() != raft.Leader {
		return ErrNotLeader
	}
	common, who := n.commonLevel(in)
	if need > common {
		if who == "" {
			who = fmt.Sprintf("this master knows level %d", common)
		}
		return fmt.Errorf("%w: %s is a command of level %d, but %s; nothing was changed", ErrLevel, cmd.Type(), need, who)
	}
	if _, ok := cmd.(fsm.RaiseLevel); ok {
		return nil
	}
	data, err := fsm.EncodeCommand(fsm.RaiseLevel{Meta: fsm.Meta{NowMillis: time.Now().UnixMilli()}, Level: common})
	if err != nil {
		return fmt.Errorf("encode the new level: %w", err)
	}
	in.raft.Apply(raftstore.Seal(data), 0) // it fails where the command behind it fails
	return nil
}

// raiseLevel lets the leader raise the cluster's level when every member knows a higher one.
func (n *Node) raiseLevel() {
	in, err := n.leading()
	if err != nil {
		return
	}
	used := n.View().Level()
	if common, _ := n.commonLevel(in); common > used {
		n.log.Info("every master knows the commands of a higher level: the cluster uses them from now on; older releases are refused", "level", common, "before", used)
		ctx, cancel := context.WithTimeout(n.ctx, 2*time.Second)
		defer cancel()
		if _, err := n.applyNow(ctx, fsm.RaiseLevel{Meta: fsm.Meta{NowMillis: time.Now().UnixMilli()}, Level: common}); err != nil {
			n.log.Warn("the level of commands is not raised yet", "error", err)
		}
	}
}
