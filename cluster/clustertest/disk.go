package clustertest

import (
	"bytes"

	"raftmaster/fsm"
)

// disk is what a master's process leaves for the next one: its last snapshot. The log is everybody's.
type disk struct {
	snapshot []byte
	index    int // entries in the snapshot
}

// saveSnapshot writes a master's state to its disk now and then.
func (m *masterNode) saveSnapshot() {
	s := m.s
	if m.applied == 0 || !s.chance(s.opt.Snapshots) {
		return
	}
	s.disks[m.number] = &disk{snapshot: m.snapshot(), index: m.applied}
	m.note("has a snapshot of %d entries", m.applied)
}

func (m *masterNode) snapshot() []byte {
	var b bytes.Buffer
	if err := m.machine.Snapshot().Write(&b); err != nil {
		m.s.fail("%s cannot write a snapshot: %v", m.name, err)
	}
	return b.Bytes()
}

// restore brings a master to the state of a snapshot.
func (m *masterNode) restore(snapshot []byte, index int) {
	machine, err := fsm.Restore(bytes.NewReader(snapshot))
	if err != nil {
		m.s.fail("%s cannot restore a snapshot of %d entries: %v", m.name, index, err)
		return
	}
	if m.s.opt.Plant.StaleSnapshot && index > 1 {
		index--
	}
	m.machine, m.applied = machine, index
	m.note("restores a snapshot of %d entries", index)
	if digest := machine.View().Digest(); digest != m.s.check.digests[index-1] {
		m.s.fail("%s has another digest than the others after it restored a snapshot at index %d", m.name, index)
	}
	if digest := fsm.RecomputeDigest(machine.View()); digest != m.s.check.digests[index-1] {
		m.s.fail("%s: the digest of a restored snapshot at index %d does not fit its records", m.name, index)
	}
	if err := fsm.Check(machine.View()); err != nil {
		m.s.fail("%s restored a snapshot at index %d: %v", m.name, index, err)
	}
}

// install gives a follower that is far behind the leader's state instead of the log.
func (m *masterNode) install() {
	leader := m.s.raft.leader
	if leader == nil || leader == m || leader.applied-m.applied < 5 || !m.s.chance(m.s.opt.Snapshots*4) {
		return
	}
	m.restore(leader.snapshot(), leader.applied)
}

// fromLog gives an entry as a master reads it back: after a restart, from its bytes.
func (m *masterNode) fromLog(cmd fsm.Command) fsm.Command {
	if !m.restarted {
		return cmd
	}
	raw, err := fsm.EncodeCommand(cmd)
	if err != nil {
		m.s.fail("%T cannot be encoded: %v", cmd, err)
		return cmd
	}
	again, err := fsm.DecodeCommand(raw)
	if err != nil {
		m.s.fail("%T cannot be decoded: %v", cmd, err)
		return cmd
	}
	return again
}
