package raftstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// flipInCommand changes one byte inside the command of entry 450, which bbolt and raft's decoder do not notice (F7).
func flipInCommand(t *testing.T, dir string) {
	path := filepath.Join(dir, "raft.db")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data := Seal(bytes.Repeat([]byte{450 & 0xFF}, 100))
	count := 0
	for at := 0; ; count++ { // old pages may hold it, too
		i := bytes.Index(raw[at:], data)
		if i < 0 {
			break
		}
		at += i + len(data)
		raw[at-50] ^= 0x10
	}
	if count == 0 {
		t.Fatal("entry 450 was not found in the file")
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestF7ASealHoldsOnlyForTheSameBytes(t *testing.T) {
	command := []byte("a command")
	sealed := Seal(command)
	if got, err := Unseal(sealed); err != nil || !bytes.Equal(got, command) {
		t.Errorf("unsealed: %q, %v", got, err)
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if _, err := Unseal(bad); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for n := range 4 {
		if _, err := Unseal(sealed[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("only %d bytes: %v", n, err)
		}
	}
}

func TestF7ADamagedCommandIsNotServed(t *testing.T) {
	s := open(t, t.TempDir())
	fill(t, s, 1, 3, 1)
	bad := Seal([]byte("a command"))
	bad[7] ^= 1
	if err := s.Logs().StoreLog(&raft.Log{Index: 4, Term: 1, Type: raft.LogCommand, Data: bad}); err != nil {
		t.Fatal(err)
	}
	var entry raft.Log
	if err := s.Logs().GetLog(3, &entry); err != nil {
		t.Errorf("a good entry: %v", err)
	}
	if err := s.Logs().GetLog(4, &entry); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "log entry 4") {
		t.Errorf("a damaged entry: %v", err)
	}
}

func TestAFailedSnapshotIsRememberedUntilAGoodOne(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, 1, 50, 2)
	_, trans := raft.NewInmemTransport("here")
	create := func() (raft.SnapshotSink, error) {
		return s.Snapshots().Create(1, 40, 2, raft.Configuration{}, 1, trans)
	}
	health := func(want error) {
		t.Helper()
		if err := s.SnapshotHealth(); !errors.Is(err, want) {
			t.Errorf("health: %v, want %v", err, want)
		}
	}
	health(nil)
	snaps := filepath.Join(dir, "snapshots")
	if err := os.RemoveAll(snaps); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(snaps, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := create(); !errors.Is(err, ErrStorage) {
		t.Errorf("create: %v", err)
	}
	health(syscall.ENOTDIR)
	if err := os.Remove(snaps); err != nil {
		t.Fatal(err)
	}
	snapshot(t, s, 40, 2)
	health(nil)
	sink, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Cancel(); err != nil {
		t.Fatal(err)
	}
	if s.SnapshotHealth() == nil {
		t.Error("a snapshot that was given up is not remembered")
	}
	snapshot(t, s, 41, 2)
	health(nil)
}
