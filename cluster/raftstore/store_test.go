package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testJournal is the size of a journal file in tests: small, because it is written for each directory.
const testJournal = 128 << 10

func options(dir string) Options {
	return Options{Dir: dir, Logger: hclog.NewNullLogger(), LockWait: 10 * time.Millisecond, journalSize: testJournal}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fill makes a member of a cluster with entries first..last of a term.
func fill(t *testing.T, s *Store, first, last, term uint64) {
	t.Helper()
	if err := s.JoinCluster("c1", nil); err != nil {
		t.Fatal(err)
	}
	var logs []*raft.Log
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: Seal(bytes.Repeat([]byte{byte(i)}, 100))})
	}
	if err := s.Logs().StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	if err := s.Stable().SetUint64([]byte("CurrentTerm"), term); err != nil {
		t.Fatal(err)
	}
}

func snapshot(t *testing.T, s *Store, index, term uint64) string {
	t.Helper()
	_, trans := raft.NewInmemTransport("here")
	sink, err := s.Snapshots().Create(1, index, term, raft.Configuration{}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(sink, "state at %d", index); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return sink.ID()
}

func TestEverythingIsThereAfterAReopening(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, 1, 20, 3)
	snapshot(t, s, 10, 3)
	id := s.Identity()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if got := s.Identity(); got.NodeID != id.NodeID || got.ClusterID != "c1" {
		t.Errorf("identity %+v, was %+v", got, id)
	}
	first, last, err := s.Bounds()
	if err != nil || first != 1 || last != 20 {
		t.Errorf("log %d to %d, %v", first, last, err)
	}
	if term, ok, err := s.Term(20); term != 3 || !ok || err != nil {
		t.Errorf("term %d %v %v", term, ok, err)
	}
	if _, ok, err := s.Term(21); ok || err != nil {
		t.Errorf("entry 21: %v %v", ok, err)
	}
	if term, err := s.Stable().GetUint64([]byte("CurrentTerm")); term != 3 || err != nil {
		t.Errorf("stable term %d, %v", term, err)
	}
	if _, err := s.Stable().Get([]byte("nothing")); err == nil || err.Error() != "not found" {
		t.Errorf("raft knows a missing key by the text %q, got %v", "not found", err)
	}
	meta, err := s.NewestSnapshot()
	if err != nil || meta == nil || meta.Index != 10 {
		t.Fatalf("snapshot %+v, %v", meta, err)
	}
	_, r, err := s.OpenSnapshot(meta.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "state at 10" {
		t.Errorf("snapshot holds %q, %v", b, err)
	}
	if log, snaps, err := s.Sizes(); err != nil || log == 0 || snaps == 0 {
		t.Errorf("sizes %d %d %v", log, snaps, err)
	}
}

func TestASecondProcessIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := Open(options(dir))
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second open: %v", err)
	}
}

func TestAnotherClusterIsRefusedNamingBoth(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.JoinCluster("one", []Server{{"n", "a:1"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.JoinCluster("one", nil); err != nil {
		t.Errorf("joining again: %v", err)
	}
	err := s.JoinCluster("two", nil)
	if !errors.Is(err, ErrOtherCluster) || !strings.Contains(err.Error(), "cluster one") || !strings.Contains(err.Error(), "cluster two") {
		t.Errorf("joining another: %v", err)
	}
	if id := s.Identity(); id.ClusterID != "one" || len(id.Bootstrap) != 1 {
		t.Errorf("identity %+v", id)
	}
}

// TestDamageIsRefusedByName damages a good directory in one way each and expects the error to name the file.
func TestDamageIsRefusedByName(t *testing.T) {
	overwrite := func(name string, offset int64, b []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(b, offset); err != nil {
				t.Fatal(err)
			}
		}
	}
	truncate := func(name string, size int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	garbage := bytes.Repeat([]byte{0xDB}, 64<<10)
	for name, tc := range map[string]struct {
		damage func(*testing.T, string)
		want   error
		file   string
	}{
		"log: no bolt file":           {overwrite("raft.db", 0, garbage[:16384]), ErrDamaged, "raft.db"},
		"log: text file":              {overwrite("raft.db", 0, bytes.Repeat([]byte("hello "), 4000)), ErrDamaged, "raft.db"},
		"log: pages overwritten":      {overwrite("raft.db", 16384, garbage), ErrDamaged, "raft.db"},
		"log: truncated":              {truncate("raft.db", 12288), ErrDamaged, "raft.db"},
		"log: a byte of a command":    {flipInCommand, ErrDamaged, "raft.db: damaged at log entry 450"},
		"log: missing":                {remove("raft.db"), ErrDamaged, "raft.db"},
		"log: empty":                  {truncate("raft.db", 0), ErrDamaged, "raft.db"},
		"vote: missing":               {remove("stable.db"), ErrDamaged, "stable.db"},
		"vote: no bolt file":          {overwrite("stable.db", 0, garbage[:16384]), ErrDamaged, "stable.db"},
		"identity: missing":           {remove("identity.json"), ErrDamaged, "identity.json"},
		"identity: no JSON":           {overwrite("identity.json", 0, []byte("xx")), ErrDamaged, "identity.json"},
		"snapshots: all missing":      {remove("snapshots"), ErrDamaged, "raft.db"},
		"identity: of a later format": {func(t *testing.T, dir string) { writeIdentity(t, dir, `{"format":3,"node_id":"x"}`) }, ErrForeign, "identity.json"},
		"log: of something else":      {foreignBolt, ErrForeign, "raft.db"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			fill(t, s, 1, 500, 2)
			snapshot(t, s, 400, 2)
			if err := s.Logs().DeleteRange(1, 390); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			tc.damage(t, dir)
			s, err := Open(options(dir))
			if err == nil {
				t.Error(s.Close())
			}
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.file) {
				t.Fatalf("got: %v", err)
			}
		})
	}
}

func writeIdentity(t *testing.T, dir, text string) {
	if err := os.WriteFile(filepath.Join(dir, "identity.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func foreignBolt(t *testing.T, dir string) {
	path := filepath.Join(dir, "raft.db")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("users"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func damageSnapshot(t *testing.T, dir, id string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "snapshots", id, "state.bin"), []byte("rotten"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedNewestSnapshotIsReplacedOnlyIfTheLogCoversIt(t *testing.T) {
	for name, tc := range map[string]struct {
		firstKept uint64 // the log is compacted up to here
		both      bool   // the older one is damaged, too
		ok        bool
	}{
		"covered":          {firstKept: 21, ok: true},
		"log too short":    {firstKept: 22},
		"both damaged":     {firstKept: 21, both: true},
		"log from the top": {firstKept: 1, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			fill(t, s, 1, 50, 2)
			old := snapshot(t, s, 20, 2)
			newest := snapshot(t, s, 40, 2)
			if tc.firstKept > 1 {
				if err := s.Logs().DeleteRange(1, tc.firstKept-1); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			damageSnapshot(t, dir, newest)
			if tc.both {
				damageSnapshot(t, dir, old)
			}
			s, err := Open(options(dir))
			if !tc.ok {
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), newest) {
					t.Fatalf("got: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			meta, err := s.NewestSnapshot()
			if err != nil || meta == nil || meta.Index != 20 {
				t.Errorf("newest snapshot %+v, %v", meta, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "damaged", newest)); err != nil {
				t.Errorf("the damaged snapshot was not kept: %v", err)
			}
		})
	}
}

func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "snapshots", "2-9-1.tmp")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

func TestAnInstalledSnapshotClearsALogThatLacksItsLastEntry(t *testing.T) {
	for name, tc := range map[string]struct {
		index, term uint64
		expected    bool
		kept        bool
	}{
		"entry matches":            {30, 2, true, true},
		"other term":               {30, 3, true, false},
		"beyond the log":           {60, 3, true, false},
		"taken here":               {60, 3, false, true},
		"older than our own":       {5, 1, true, true},
		"our own at the same time": {30, 2, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			fill(t, s, 1, 50, 2)
			snapshot(t, s, 10, 2)
			if tc.expected {
				if err := s.ExpectInstall(tc.index, tc.term); err != nil {
					t.Fatal(err)
				}
			}
			snapshot(t, s, tc.index, tc.term)
			_, last, err := s.Bounds()
			if err != nil || (last == 50) != tc.kept {
				t.Errorf("the log ends at %d, %v", last, err)
			}
		})
	}
}

func TestTruncateFromRemovesTheEnd(t *testing.T) {
	s := open(t, t.TempDir())
	fill(t, s, 1, 50, 2)
	for _, step := range []struct{ from, last uint64 }{{60, 50}, {50, 49}, {10, 9}} {
		if err := s.TruncateFrom(step.from); err != nil {
			t.Fatal(err)
		}
		if _, last, err := s.Bounds(); last != step.last || err != nil {
			t.Errorf("after TruncateFrom(%d) the log ends at %d, %v", step.from, last, err)
		}
	}
}

func TestAFullDiskSurfacesAndHeals(t *testing.T) {
	var fault error
	o := options(t.TempDir())
	o.WriteFault = func() error { return fault }
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fault = syscall.ENOSPC
	err = s.Logs().StoreLog(&raft.Log{Index: 1, Term: 1})
	if !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "raft.db") {
		t.Errorf("write: %v", err)
	}
	if err := s.Probe(); !errors.Is(err, syscall.ENOSPC) || s.Health() == nil {
		t.Errorf("probe: %v, health: %v", err, s.Health())
	}
	fault = nil
	if err := s.Probe(); err != nil || s.Health() != nil {
		t.Errorf("after the disk has space: probe %v, health %v", err, s.Health())
	}
}

func TestAVoteIsSavedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	vote := func(term uint64, candidate string) {
		t.Helper()
		if err := s.Stable().SetUint64([]byte("LastVoteTerm"), term); err != nil {
			t.Fatal(err)
		}
		if candidate == "" {
			return
		}
		if err := s.Stable().Set([]byte("LastVoteCand"), []byte(candidate)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(term uint64, candidate string) {
		t.Helper()
		gotTerm, err := s.Stable().GetUint64([]byte("LastVoteTerm"))
		got, err2 := s.Stable().Get([]byte("LastVoteCand"))
		if gotTerm != term || string(got) != candidate || err != nil || err2 != nil {
			t.Errorf("vote of term %d for %q, want %d for %q (%v, %v)", gotTerm, got, term, candidate, err, err2)
		}
	}
	vote(4, "a:1")
	check(4, "a:1")
	vote(5, "") // the process ends between the two halves
	check(5, "a:1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	check(4, "a:1")
	vote(6, "b:1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	check(6, "b:1")
}
