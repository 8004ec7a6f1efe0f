package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
)

// F7: a command whose bytes have changed on the way from the proposal is not applied; the master halts and says where.
func TestF7ADamagedCommandHaltsTheStateMachine(t *testing.T) {
	t.Parallel()
	data, err := fsm.EncodeCommand(command())
	if err != nil {
		t.Fatal(err)
	}
	good := raftstore.Seal(data)
	machine, fatal := offlineMachine(hclog.NewNullLogger())
	machine.Apply(&raft.Log{Index: 6, Term: 1, Type: raft.LogCommand, Data: good})
	before := machine.view.Load().Index()
	if *fatal != nil || before != 6 {
		t.Fatalf("a good entry: %v, index %d", *fatal, before)
	}
	bad := append([]byte{}, good...)
	bad[len(bad)/2] ^= 0x20
	machine.Apply(&raft.Log{Index: 7, Term: 1, Type: raft.LogCommand, Data: bad})
	if !errors.Is(*fatal, raftstore.ErrDamaged) || !strings.Contains((*fatal).Error(), "the data directory is damaged at log entry 7") ||
		!strings.Contains((*fatal).Error(), "raftctl peers remove") {
		t.Errorf("it ends with: %v", *fatal)
	}
	if machine.view.Load().Index() != before {
		t.Error("it was applied")
	}
}
