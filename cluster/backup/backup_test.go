package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"raftmaster/fsm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func machine(t testing.TB) *fsm.Machine {
	t.Helper()
	m := fsm.NewMachine()
	for i, c := range []fsm.Command{
		fsm.RegisterWorker{Meta: fsm.Meta{NowMillis: 5}, ID: "w", Host: "h", Port: 1, Address: fsm.Address{Host: "h", Port: 1}, Cores: 4, MemoryMB: 1024},
		fsm.RegisterApplication{Meta: fsm.Meta{NowMillis: 6, Stamp: "20260102030405"}, Name: "n", User: "u", Driver: fsm.Address{Host: "d", Port: 1},
			DefaultProfile: fsm.Profile{MemoryMB: 64}, Payload: bytes.Repeat([]byte("secret "), 50_000)},
	} {
		if r := m.Apply(uint64(i+1), 3, c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return m
}

func header() Header {
	return Header{ClusterID: "c1", TakenMillis: 1_767_322_985_123, Node: "0123456789abcdef", Address: "h:7077", Release: "1.0"}
}

func file(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := Write(&b, header(), machine(t).Snapshot())
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("%d of %d bytes, %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	m, b := machine(t), file(t)
	info, state, err := Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	want := header()
	want.Index, want.Term, want.StateFormat = 2, 3, fsm.SnapshotFormat
	if info.Header != want || info.Format != Format || info.Size != int64(len(b)) || info.StateSize != int64(len(state)) ||
		info.Digest != m.View().Digest().String() || info.Totals != m.View().Totals() {
		t.Errorf("%+v", info)
	}
	again, err := fsm.Restore(bytes.NewReader(state))
	if err != nil || again.View().Digest() != m.View().Digest() {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(b, file(t)) {
		t.Error("the same state gave other bytes")
	}
}

// TestEveryCutIsNoticed: no prefix of a file passes for a whole one; neither does one with any bit changed.
func TestEveryCutIsNoticed(t *testing.T) {
	t.Parallel()
	b := file(t)
	for i := 0; i < len(b); i += 1 + i/40 {
		_, _, err := Read(bytes.NewReader(b[:i]))
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotOurs) {
			t.Fatalf("%d of %d bytes: %v", i, len(b), err)
		}
		if i >= len(fileMagic)+6 && !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%d bytes: %v", i, err)
		}
		changed := bytes.Clone(b)
		changed[i] ^= 0x10
		if _, _, err := Read(bytes.NewReader(changed)); err == nil {
			t.Fatalf("byte %d was changed, and nobody noticed", i)
		}
	}
	if _, _, err := Read(bytes.NewReader(append(bytes.Clone(b), 0))); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "bytes follow") {
		t.Errorf("%v", err)
	}
	b[len(fileMagic)+1] = Format + 1
	if _, _, err := Read(bytes.NewReader(b)); !errors.Is(err, ErrNewer) {
		t.Errorf("%v", err)
	}
}

// FuzzRead: whatever is uploaded is read or refused, without a panic and without more memory than was sent.
func FuzzRead(f *testing.F) {
	small := fsm.NewMachine()
	var b bytes.Buffer
	if _, err := Write(&b, header(), small.Snapshot()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:30])
	f.Add([]byte(fileMagic + "\x00\x01\xff\xff\xff\xff"))
	f.Add([]byte(fileMagic + "\x00\x01\x00\x00\x00\x02{}\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, state, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		m, err := fsm.Restore(bytes.NewReader(state))
		if err != nil || m.View().Digest().String() != info.Digest || info.Size != int64(len(data)) {
			t.Fatalf("%+v, %v", info, err)
		}
	})
}

func TestSaveFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := file(t)
	for name, data := range map[string][]byte{"cut off": b[:len(b)-1], "nothing": nil} {
		if _, err := SaveFile(path, writeOf(data)); err == nil {
			t.Errorf("%s was saved", name)
		}
	}
	if _, err := SaveFile(path, func(io.Writer) error { return errors.New("the network is gone") }); err == nil {
		t.Error("a download that failed was saved")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("the older file has become %.20q, %v", got, err)
	}
	if _, err := SaveFile(path, writeOf(b)); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 || st.Size() != int64(len(b)) {
		t.Errorf("%v, %v", st, err)
	}
}

// schedule is one under a clock of its own.
type schedule struct {
	*Schedule
	m    *fsm.Machine
	now  time.Time
	free uint64
}

func newSchedule(t *testing.T, keep int, maxAge time.Duration) *schedule {
	s := &schedule{m: machine(t), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), free: 100 << 30}
	s.Schedule = NewSchedule(Options{Dir: filepath.Join(t.TempDir(), "saved"), Interval: time.Hour, Keep: keep, MaxAge: maxAge, Log: hclog.NewNullLogger(),
		Take: func() (Header, fsm.Snapshot, bool) { return header(), s.m.Snapshot(), true },
		now:  func() time.Time { return s.now }, free: func(string) (uint64, uint64, error) { return s.free, 100 << 30, nil }})
	return s
}

// change gives the state another index, and an hour passes.
func (s *schedule) change(t *testing.T) {
	t.Helper()
	v := s.m.View()
	if r := s.m.Apply(v.Index()+1, v.Term(), fsm.CheckDigest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	s.now = s.now.Add(time.Hour)
}

func (s *schedule) files(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadDir(s.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func TestScheduleKeepsWhatItShould(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, 3, 0)
	for range 5 {
		s.change(t)
		if _, err := s.Save(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Save(); err != nil { // nothing has changed
			t.Fatal(err)
		}
	}
	got := s.files(t)
	want := []string{"raftmaster-20260102T060405Z-000000000005-01234567.snapshot", "raftmaster-20260102T070405Z-000000000006-01234567.snapshot", "raftmaster-20260102T080405Z-000000000007-01234567.snapshot"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for _, name := range got {
		path := filepath.Join(s.o.Dir, name)
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", st.Mode(), err)
		}
		if _, err := Inspect(path); err != nil {
			t.Error(err)
		}
	}
	if st, err := os.Stat(s.o.Dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if st := s.Stats(); st.Files != 3 || st.Failures != 0 || st.Age != 0 || st.Bytes == 0 {
		t.Errorf("%+v", st)
	}
}

// TestScheduleAfterAClockThatWasAhead: files with times to come are the older ones all the same, and so are those with higher
// indices, of before a cold copy was put back.
func TestScheduleAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, 2, 0)
	save := func() {
		t.Helper()
		if _, err := s.Save(); err != nil {
			t.Fatal(err)
		}
	}
	for _, ahead := range []time.Duration{1e4 * time.Hour, 0, -1e4 * time.Hour} {
		s.now = s.now.Add(ahead)
		for range 2 {
			s.change(t)
			save()
		}
	}
	last := func() {
		t.Helper()
		got, index := s.files(t), s.m.View().Index()
		if len(got) != 2 || !strings.Contains(fmt.Sprint(got), fmt.Sprintf("-%012d-", index)) {
			t.Errorf("at index %d: %v", index, got)
		}
	}
	last()
	s.m, s.now = machine(t), s.now.Add(-1e4*time.Hour)
	s.Schedule = NewSchedule(s.o)
	save()
	last()
	s.change(t)
	save()
	last()
}

// TestScheduleTouchesOnlyItsOwn: files of other nodes, of people, and unfinished ones of others stay; its own unfinished
// ones go. The newest stays, however old.
func TestScheduleTouchesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, 1, 90*time.Minute)
	if _, err := s.Save(); err != nil {
		t.Fatal(err)
	}
	others := []string{"raftmaster-20200102T060405Z-000000000005-99999999.snapshot", "before-upgrade.snapshot", ".raftmaster-20200102T060405Z-000000000005-99999999.snapshot.tmp-1"}
	left := ".raftmaster-20200102T060405Z-000000000005-01234567.snapshot.tmp-1"
	for _, name := range append(others, left) {
		if err := os.WriteFile(filepath.Join(s.o.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.now = s.now.Add(100 * time.Hour)
	if _, err := s.Save(); err != nil { // nothing has changed: the old file stays
		t.Fatal(err)
	}
	if got := s.files(t); len(got) != 4 || strings.Contains(fmt.Sprint(got), left) {
		t.Errorf("%v", got)
	}
	s.change(t)
	if _, err := s.Save(); err != nil {
		t.Fatal(err)
	}
	if got := s.files(t); len(got) != 4 || !strings.Contains(fmt.Sprint(got), "000000000003-01234567") {
		t.Errorf("%v", got)
	}
}

func TestScheduleLeavesTheReserve(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, 3, 0)
	s.free = reserveBytes
	if _, err := s.Save(); err == nil || !strings.Contains(err.Error(), "reserve") {
		t.Fatalf("%v", err)
	}
	if s.Alarm() == "" || s.Stats().Failures != 1 || len(s.files(t)) != 0 {
		t.Errorf("%q, %+v, %v", s.Alarm(), s.Stats(), s.files(t))
	}
	s.now = s.now.Add(time.Minute)
	if age := s.Stats().Age; age != time.Minute {
		t.Errorf("age %v without a success", age)
	}
	s.free = 2 * reserveBytes
	if _, err := s.Save(); err != nil || s.Alarm() != "" || len(s.files(t)) != 1 {
		t.Errorf("%v, %q", err, s.Alarm())
	}
}

func TestScheduleRunEnds(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, 3, 0)
	s.o.Interval = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); s.Stats().Files == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no file was saved")
		}
	}
	cancel()
	<-done
}

func writeOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}
