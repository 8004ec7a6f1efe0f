package fsm_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"raftmaster/fsm"
)

func TestR10_LevelRisesAndNeverFalls(t *testing.T) {
	m := fsm.NewMachine()
	if got := m.View().Level(); got != fsm.LevelFirst {
		t.Fatalf("an empty state has level %d", got)
	}
	digest := m.View().Digest()
	for i, c := range []struct{ raise, want fsm.Level }{{1, 1}, {2, 2}, {1, 2}, {2, 2}} {
		r := m.Apply(uint64(i+1), 1, fsm.RaiseLevel{Level: c.raise})
		if r.Err != nil || r.Value != c.want || m.View().Level() != c.want {
			t.Errorf("raise to %d: %+v, level %d", c.raise, r, m.View().Level())
		}
		if i == 0 && m.View().Digest() != digest {
			t.Error("a level that was there already has changed the state")
		}
	}
	if r := m.Apply(9, 1, fsm.RaiseLevel{}); !errors.Is(r.Err, fsm.ErrInvalidCommand) {
		t.Errorf("level 0: %+v", r)
	}
	var b bytes.Buffer
	if err := m.Snapshot().Write(&b); err != nil {
		t.Fatal(err)
	}
	back, err := fsm.Restore(&b)
	if err != nil || back.View().Level() != 2 {
		t.Errorf("after a restore: %v", err)
	}
}

// An older release meets what it does not know by name, never by a guess.
func TestR10_OlderReleaseRefusesNewerLogAndSnapshot(t *testing.T) {
	for _, cmd := range sampleCommands() {
		entry, err := fsm.EncodeCommand(cmd)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fsm.DecodeCommandAt(entry, fsm.LevelFirst)
		var unknown *fsm.UnknownCommandError
		if newer := fsm.LevelOf(cmd.Type()) > fsm.LevelFirst; newer != errors.As(err, &unknown) || (!newer && err != nil) {
			t.Errorf("%s, of level %d, read by a release of level 1: %v", cmd.Type(), fsm.LevelOf(cmd.Type()), err)
		}
	}
	raise := fsm.RaiseLevel{Level: fsm.CommandLevel + 1}
	entry, err := fsm.EncodeCommand(raise)
	if err != nil {
		t.Fatal(err)
	}
	var level *fsm.LevelError
	if _, err := fsm.DecodeCommand(entry); !errors.As(err, &level) || level.Needed != fsm.CommandLevel+1 || level.Known != fsm.CommandLevel {
		t.Errorf("log: %v", err)
	}
	if !strings.Contains(level.Error(), "install the release") {
		t.Errorf("the error does not say what to do: %v", level)
	}
	m := fsm.NewMachine()
	if r := m.Apply(1, 1, raise); r.Err != nil {
		t.Fatal(r.Err)
	}
	var b bytes.Buffer
	if err := m.Snapshot().Write(&b); err != nil {
		t.Fatal(err)
	}
	level = nil
	if _, err := fsm.Restore(&b); !errors.Is(err, fsm.ErrSnapshot) || !errors.As(err, &level) {
		t.Errorf("snapshot: %v", err)
	}
}

func TestSkippableCommandsNeedNoLevel(t *testing.T) {
	if got := fsm.LevelOf(fsm.TypeRaiseLevel | fsm.CommandSkippable); got != fsm.LevelFirst {
		t.Errorf("level %d", got)
	}
}

// A snapshot of a cluster with newer commands is refused by every replica alike, also by those that could read it.
func TestRestoreOfANewerLevelIsRefused(t *testing.T) {
	from, to := fsm.NewMachine(), fsm.NewMachine()
	from.Apply(1, 1, fsm.RaiseLevel{Level: fsm.LevelRestore})
	var b bytes.Buffer
	if err := from.Snapshot().Write(&b); err != nil {
		t.Fatal(err)
	}
	snapshot := b.Bytes()
	var level *fsm.LevelError
	if _, err := fsm.PlanRestore(to.View(), bytes.NewReader(snapshot), fsm.CommitRestore{}); !errors.As(err, &level) || level.Known != fsm.LevelFirst {
		t.Errorf("refusal: %v", err)
	}
	to.Apply(1, 1, fsm.RaiseLevel{Level: fsm.LevelRestore})
	if _, err := fsm.PlanRestore(to.View(), bytes.NewReader(snapshot), fsm.CommitRestore{}); err != nil {
		t.Error(err)
	}
}
