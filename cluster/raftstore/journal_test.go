package raftstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// left makes a directory whose journal holds entries 1 to 30 in batches of three, as a crash leaves it.
func left(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.JoinCluster("c1", nil); err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= 30; i += 3 {
		if err := s.Logs().StoreLogs(entries(i, i+2, 1, 700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := crash(s); err != nil {
		t.Fatal(err)
	}
	return dir
}

func entries(first, last, term uint64, size int) (logs []*raft.Log) {
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: Seal(bytes.Repeat([]byte{byte(i)}, size)), AppendedAt: time.Unix(int64(i), 0)})
	}
	return logs
}

// edit changes bytes of a journal file.
func edit(t testing.TB, dir, name string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(raw), 0o600); err != nil {
		t.Fatal(err)
	}
}

// batchAt is where a batch of the files that left makes begins: 3 x 750 bytes and its end are six sectors, a page.
func batchAt(n int) int { return dataStart + (n-1)*pageSize }

func TestAJournalLeftByACrashIsRead(t *testing.T) {
	dir := left(t)
	s := open(t, dir)
	if first, last, err := s.Bounds(); first != 1 || last != 30 || err != nil {
		t.Errorf("log %d to %d, %v", first, last, err)
	}
	for i := uint64(1); i <= 30; i++ {
		var a, b raft.Log
		if err := errors.Join(s.bolt.GetLog(i, &a), s.Logs().GetLog(i, &b)); err != nil || a.Index != i || !bytes.Equal(a.Data, b.Data) {
			t.Errorf("entry %d: %v", i, err)
		}
	}
}

// A damaged journal is refused by name, unless what is damaged cannot have been acknowledged.
func TestADamagedJournal(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 0x40; return b }
	}
	zero := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte { clear(b[from:to]); return b }
	}
	header := func(h journalHeader) func([]byte) []byte {
		return func(b []byte) []byte { copy(b, h.encode()); return b }
	}
	for name, tc := range map[string]struct {
		change func([]byte) []byte
		want   error
		text   string
		last   uint64
	}{
		"a byte of the first batch":           {flip(batchAt(1) + 700), ErrDamaged, "batch 1 at byte 8192: the checksum of sector 1 does not hold", 0},
		"a byte of a batch between":           {flip(batchAt(5) + 100), ErrDamaged, "batch 5", 0},
		"a byte of the last batch":            {flip(batchAt(10) + 100), ErrDamaged, "batch 10", 0},
		"a batch between is lost":             {zero(batchAt(5), batchAt(6)), ErrDamaged, "although batch 6 follows", 0},
		"half of a batch between is lost":     {zero(batchAt(5)+1024, batchAt(6)), ErrDamaged, "although batch 6 follows", 0},
		"the last batch was cut off":          {zero(batchAt(10)+1234, batchAt(11)), nil, "", 27},
		"the last batch lacks its beginning":  {zero(batchAt(10), batchAt(10)+1024), nil, "", 27},
		"only one byte of it":                 {func(b []byte) []byte { clear(b[batchAt(10):]); b[batchAt(10)] = 7; return b }, nil, "", 27},
		"the last batch lacks its end only":   {zero(batchAt(10)+5*sectorSize, batchAt(11)), nil, "", 30},
		"a byte of the end of the last batch": {flip(batchAt(10) + 5*sectorSize + 99), nil, "", 30},
		"garbage behind the last batch":       {func(b []byte) []byte { copy(b[batchAt(11):], bytes.Repeat([]byte{0xDB}, 9000)); return b }, nil, "", 30},
		"the header":                          {flip(20), ErrDamaged, "no valid header", 0},
		"an empty file":                       {func([]byte) []byte { return nil }, ErrDamaged, "it has 0 bytes", 0},
		"a shorter file":                      {func(b []byte) []byte { return b[:batchAt(20)] }, ErrDamaged, "truncated", 0},
		"a header of before":                  {header(journalHeader{format: 1, generation: 1, size: testJournal}), ErrForeign, "a journal of node ", 0},
		"a later generation behind it": {func(b []byte) []byte {
			copy(b[batchAt(20):], appendBatch(nil, []byte{1}, 9, 1))
			return b
		}, ErrDamaged, "is of generation 9", 0},
		"a later format": {header(journalHeader{format: 2, generation: 3, size: testJournal}), ErrForeign, "format 2, this release reads format 1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := left(t)
			edit(t, dir, "journal-0", tc.change)
			s, err := Open(options(dir))
			if tc.want != nil {
				if err == nil {
					t.Error(s.Close())
				}
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), "journal-0") || !strings.Contains(err.Error(), tc.text) {
					t.Fatalf("got: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if first, last, err := s.Bounds(); first != 1 || last != tc.last || err != nil {
				t.Errorf("log %d to %d, want it to end at %d, %v", first, last, tc.last, err)
			}
		})
	}
}

// Raft removes entries before it stores others in their place; a batch that passes the journal by does not depend on it.
func TestALargeBatchCountsAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1, 10, 1)
	if err := s.Logs().StoreLogs(entries(5, 6, 2, testJournal/batchShare)); err != nil {
		t.Fatal(err)
	}
	if err := crash(s); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	for index, want := range map[uint64]uint64{4: 1, 5: 2, 6: 2, 7: 1, 10: 1} {
		if term, ok, err := s.Term(index); term != want || !ok || err != nil {
			t.Errorf("entry %d has term %d, want %d (%t, %v)", index, term, want, ok, err)
		}
	}
}

func TestFilesOfAJournalBelongTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, dir string)
		text   string
	}{
		"one is missing": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "journal-1")); err != nil {
				t.Fatal(err)
			}
		}, "journal-1: missing"},
		"an identity that knows of none": {func(t *testing.T, dir string) {
			edit(t, dir, "identity.json", func(b []byte) []byte {
				b = bytes.Replace(b, []byte(`"format": 2`), []byte(`"format": 1`), 1)
				return bytes.Replace(b, []byte(`"journal": true`), []byte(`"journal": false`), 1)
			})
		}, "it holds entries"},
		"one is older": {func(t *testing.T, dir string) {
			s := open(t, dir) // carries over: generations 3 and 2
			owner := s.Identity().NodeID
			if err := crash(s); err != nil {
				t.Fatal(err)
			}
			edit(t, dir, "journal-1", func(b []byte) []byte {
				copy(b[headerSlot(6):], journalHeader{format: 1, generation: 6, size: testJournal, owner: owner}.encode())
				return b
			})
		}, "of generation 3 beside 6"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := left(t)
			tc.change(t, dir)
			s, err := Open(options(dir))
			if err == nil {
				t.Error(s.Close())
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("got: %v", err)
			}
		})
	}
}

// A directory of a release without a journal opens, and one whose journal is empty is again one for such a release.
func TestDirectoriesOfAReleaseWithoutAJournal(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, 1, 20, 1)
	raw, err := os.ReadFile(filepath.Join(dir, "identity.json"))
	if err != nil || !bytes.Contains(raw, []byte(`"format": 2`)) {
		t.Errorf("in use: %s, %v", raw, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err = os.ReadFile(filepath.Join(dir, "identity.json"))
	if err != nil || !bytes.Contains(raw, []byte(`"format": 1`)) || bytes.Contains(raw, []byte("journal")) {
		t.Errorf("after a clean stop: %s, %v", raw, err)
	}
	for _, name := range journalFiles {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir)
	if _, last, err := s.Bounds(); last != 20 || err != nil {
		t.Errorf("the log ends at %d, %v", last, err)
	}
	if err := s.Logs().StoreLogs(entries(21, 22, 1, 10)); err != nil {
		t.Error(err)
	}
}

func openFaulty(t *testing.T, dir string, d *faultyDisk, log hclog.Logger) *Store {
	t.Helper()
	o := options(dir)
	o.disk, o.journalSize, o.Logger = d, smallJournal, log
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWithoutRoomForAJournalAllGoesToBolt(t *testing.T) {
	d := newFaultyDisk()
	d.alloc = syscall.ENOSPC
	dir := t.TempDir()
	var text bytes.Buffer
	s := openFaulty(t, dir, d, hclog.New(&hclog.LoggerOptions{Output: &text}))
	fill(t, s, 1, 20, 1)
	var l raft.Log
	if err := s.bolt.GetLog(20, &l); err != nil || !strings.Contains(text.String(), "the journal cannot be made") {
		t.Errorf("entry 20: %v; logged: %s", err, text.String())
	}
	if _, _, err := s.Sizes(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.alloc = nil
	s = openFaulty(t, dir, d, hclog.NewNullLogger())
	if err := errors.Join(s.Logs().StoreLogs(entries(21, 21, 1, 10)), s.Close()); err != nil || d.bytes == 0 {
		t.Errorf("%d bytes written, %v", d.bytes, err)
	}
}

// After a failed write the log is as it was, the node is unwell, and a probe repairs it.
func TestAFailedWriteOfTheJournal(t *testing.T) {
	for name, tc := range map[string]struct{ fail, heal func(*faultyDisk) }{
		"write":       {func(d *faultyDisk) { d.budget = 0 }, func(d *faultyDisk) { d.budget = -1 }},
		"short write": {func(d *faultyDisk) { d.budget = 1000 }, func(d *faultyDisk) { d.budget = -1 }},
		"sync":        {func(d *faultyDisk) { d.sync = syscall.EIO }, func(d *faultyDisk) { d.sync = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFaultyDisk()
			s := openFaulty(t, t.TempDir(), d, hclog.NewNullLogger())
			defer s.Close()
			fill(t, s, 1, 20, 1)
			d.set(tc.fail)
			err := s.Logs().StoreLogs(entries(21, 40, 1, 100))
			if !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.EIO) || s.Health() == nil {
				t.Errorf("write: %v, health: %v", err, s.Health())
			}
			if _, last, err := s.Bounds(); last != 20 || err != nil {
				t.Errorf("the log ends at %d, %v", last, err)
			}
			if s.Probe() == nil {
				t.Error("the probe does not notice")
			}
			d.set(tc.heal)
			if err := s.Probe(); err != nil || s.Health() != nil {
				t.Errorf("healed: %v, %v", err, s.Health())
			}
			if err := s.Logs().StoreLogs(entries(21, 40, 2, 100)); err != nil {
				t.Error(err)
			}
		})
	}
}

// What cannot be carried over when a directory is opened can be read, and is carried over later.
func TestACarryThatFailsAtTheStart(t *testing.T) {
	dir, d := t.TempDir(), newFaultyDisk()
	s := openFaulty(t, dir, d, hclog.NewNullLogger())
	fill(t, s, 1, 20, 1)
	if err := crash(s); err != nil {
		t.Fatal(err)
	}
	d.budget = 2*sectorSize + pageSize + 1 // the confirmation, not the recycling
	s = openFaulty(t, dir, d, hclog.NewNullLogger())
	defer s.Close()
	var l raft.Log
	if err := s.Logs().GetLog(20, &l); err != nil || s.Health() == nil {
		t.Errorf("entry 20: %v; health: %v", err, s.Health())
	}
	if err := s.Logs().StoreLogs(entries(21, 22, 1, 10)); !errors.Is(err, syscall.EIO) {
		t.Errorf("write: %v", err)
	}
	d.set(func(d *faultyDisk) { d.budget = -1 })
	if err := s.Logs().StoreLogs(entries(21, 22, 1, 10)); err != nil || s.Health() != nil {
		t.Errorf("write: %v; health: %v", err, s.Health())
	}
}

// The memory of entries is bounded by bytes, and a batch that is too long for the journal passes it by.
func TestMemoryIsBoundedByBytes(t *testing.T) {
	o := options(t.TempDir())
	o.journalSize = journalSize
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	most := int64(0)
	for i := uint64(1); i <= 100; i++ {
		size := 300 << 10
		if i == 70 {
			size = 3 << 20
		}
		if err := s.Logs().StoreLogs(entries(i, i, 1, size)); err != nil {
			t.Fatal(err)
		}
		s.log.mu.Lock()
		most = max(most, s.log.memory.bytes)
		s.log.mu.Unlock()
	}
	if most > cacheBytes+2*journalSize {
		t.Errorf("%d bytes were in memory", most)
	}
	if got := s.BytesAfter(0); got < 99*(300<<10)+(3<<20) {
		t.Errorf("%d bytes are counted", got)
	}
	if err := s.TrimTo(10<<20, 1000); err != nil {
		t.Fatal(err)
	}
	if first, _, err := s.Bounds(); first < 60 || first > 80 || err != nil || s.BytesAfter(0) > 10<<20 {
		t.Errorf("after the trimming the log begins at %d and has %d bytes, %v", first, s.BytesAfter(0), err)
	}
	if err := s.TrimTo(1, 80); err != nil {
		t.Fatal(err)
	}
	if first, _, err := s.Bounds(); first > 81 || err != nil {
		t.Errorf("entries that no snapshot covers are gone: %d, %v", first, err)
	}
}

// Raft appends on one goroutine, compacts on another, and reads on several.
func TestTheLogIsUsedByManyGoroutines(t *testing.T) {
	d := newFaultyDisk()
	s := openFaulty(t, t.TempDir(), d, hclog.NewNullLogger())
	defer s.Close()
	const last = 1500
	fill(t, s, 1, 1, 1)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	work := func(f func() error) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		work(func() error {
			first, last, err := s.Bounds()
			var l raft.Log
			for i := first; i <= last && err == nil; i += 1 + (last-first)/20 {
				if err = s.Logs().GetLog(i, &l); errors.Is(err, raft.ErrLogNotFound) {
					err = nil // compacted meanwhile
				} else if err == nil && l.Index != i {
					return errors.New("another entry")
				}
			}
			return err
		})
	}
	work(func() error {
		first, last, err := s.Bounds()
		if err == nil && last > first+400 {
			err = s.Logs().DeleteRange(first, last-300)
		}
		_, _, _ = s.BytesAfter(first), s.Health(), s.TrimTo(1<<40, last)
		return err
	})
	for i := uint64(2); i < last; i += 10 {
		if err := s.Logs().StoreLogs(entries(i, i+9, 1, 200)); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 2 { // the end goes, and comes again
			if err := errors.Join(s.Logs().DeleteRange(i+5, i+9), s.Logs().StoreLogs(entries(i+5, i+9, 2, 200))); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
}

// FuzzJournal: whatever is in the file, the reader neither panics nor gives entries that were not there.
func FuzzJournal(f *testing.F) {
	raw, err := os.ReadFile(filepath.Join(left(f), "journal-0"))
	if err != nil {
		f.Fatal(err)
	}
	raw = raw[:batchAt(12)]
	f.Add(uint32(9000), []byte{1}, uint32(0))
	f.Add(uint32(batchAt(10)), make([]byte, 600), uint32(1))
	f.Add(uint32(batchAt(3)), raw[batchAt(4):batchAt(5)], uint32(2))
	f.Fuzz(func(t *testing.T, at uint32, change []byte, generation uint32) {
		data := bytes.Clone(raw)
		copy(data[int(at)%len(data):], change)
		if _, err := checkHeaders("journal-0", "", data); err == nil {
			t.Log("the header is intact")
		}
		s, err := scanJournal(data, uint64(generation%3))
		if err != nil {
			return
		}
		for i, l := range s.logs {
			if l.Index != uint64(i+1) || l.Term != 1 || len(l.Data) != 700+sealSize {
				t.Fatalf("entry %d at place %d", l.Index, i)
			}
		}
	})
}
