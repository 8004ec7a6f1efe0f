package runner

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

func TestParseRolling(t *testing.T) {
	for _, c := range []struct {
		strategy, interval, size string
		want                     *Rolling
		warning                  string
	}{
		{"", "daily", "1048576", nil, ""},
		{"time", "daily", "x", &Rolling{Interval: 24 * time.Hour, Layout: "--2006-01-02"}, ""},
		{"time", "hourly", "", &Rolling{Interval: time.Hour, Layout: "--2006-01-02--15"}, ""},
		{"time", "minutely", "", &Rolling{Interval: time.Minute, Layout: "--2006-01-02--15-04"}, ""},
		{"time", "90", "", &Rolling{Interval: 90 * time.Second, Layout: "--2006-01-02--15-04-05"}, ""},
		{"time", "5", "", &Rolling{Interval: time.Minute, Layout: "--2006-01-02--15-04-05"}, "raised"},
		{"time", "-5", "", &Rolling{Interval: time.Minute, Layout: "--2006-01-02--15-04-05"}, "raised"},
		{"time", "weekly", "", nil, "weekly"},
		{"size", "", "1048576", &Rolling{MaxSize: 1048576, Layout: "--2006-01-02--15-04-05"}, ""},
		{"size", "", "10", &Rolling{MaxSize: 81920, Layout: "--2006-01-02--15-04-05"}, "raised"},
		{"size", "", "1m", nil, "1m"},
		{"size", "", "2147483648", &Rolling{MaxSize: 2147483648, Layout: "--2006-01-02--15-04-05"}, ""}, // more than Spark's worker takes
		{"Size", "", "1048576", nil, "neither"},
	} {
		got, warning := ParseRolling(c.strategy, c.interval, c.size, 3, true)
		if (got == nil) != (c.want == nil) || !strings.Contains(warning, c.warning) || (warning == "") != (c.warning == "") {
			t.Errorf("%+v: %+v, %q", c, got, warning)
			continue
		}
		if c.want != nil {
			c.want.MaxRetained, c.want.Compress = 3, true
			if *got != *c.want {
				t.Errorf("%+v: %+v", c, got)
			}
		}
	}
}

func TestRolledNames(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89*int(time.Millisecond), time.Local)
	size := Rolling{MaxSize: 1, Layout: "--2006-01-02--15-04-05"}
	daily := Rolling{Interval: 24 * time.Hour, Layout: "--2006-01-02"}
	if got := size.suffix(at); got != "--2026-03-04--05-06-07--0089" {
		t.Error(got)
	}
	if got := daily.suffix(at); got != "--2026-03-04" {
		t.Error(got)
	}
	hour := Rolling{Interval: time.Hour}
	if got := hour.after(time.UnixMilli(3_600_001)); got != 7_200_000 {
		t.Error(got)
	}
	if got := hour.after(time.UnixMilli(7_200_000)); got != 7_200_000 {
		t.Error(got)
	}
}

// logs reads the rolled files of a log in order, then the active one.
func logs(t *testing.T, active string) (names []string, contents []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(active))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(active)+"--") {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	for _, name := range append(slices.Clone(names), filepath.Base(active)) {
		path := filepath.Join(filepath.Dir(active), name)
		if !strings.HasSuffix(name, gzipSuffix) {
			contents = append(contents, read(t, path))
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		unpacker, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(unpacker)
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		contents = append(contents, string(text))
	}
	return names, contents
}

func TestRollingBySizeLosesNothing(t *testing.T) {
	for _, compress := range []bool{false, true} {
		r := newRunner(t, Options{})
		s := shell(r, "app/0", `i=0; while [ $i -lt 40000 ]; do echo "line $i"; i=$((i+1)); done; echo done >&2`)
		s.Header, s.TruncateStderr = "header\n", true
		s.Rolling = &Rolling{MaxSize: minRollSize, Layout: "--2006-01-02--15-04-05", Compress: compress}
		if e := end(t, start(t, r, s)); e.Code != 0 {
			t.Fatalf("exit %+v", e)
		}
		eventually(t, "reaped", func() bool { return r.Running() == 0 })
		names, contents := logs(t, s.Stdout)
		all := strings.Split(strings.TrimSpace(strings.Join(contents, "")), "\n")
		if len(names) < 4 || len(all) != 40000 {
			t.Fatalf("compress %v: files %q, %d lines", compress, names, len(all))
		}
		// Two rolls in the same millisecond may sort in another order than they were made: "--0" is appended.
		seen := map[string]bool{}
		for _, line := range all {
			seen[line] = true
		}
		if len(seen) != 40000 {
			t.Errorf("%d different lines", len(seen))
		}
		for i, text := range contents {
			if len(text) > minRollSize {
				t.Errorf("file %d has %d bytes", i, len(text))
			}
		}
		for _, name := range names {
			if strings.HasSuffix(name, gzipSuffix) != compress {
				t.Errorf("name %s", name)
			}
		}
		if got := read(t, s.Stderr); got != "header\ndone\n" {
			t.Errorf("stderr %q", got)
		}
	}
}

// newTestCopier runs no goroutine: the test is the pipe.
func newTestCopier(t *testing.T, path string, policy Rolling, clock Clock) *copier {
	t.Helper()
	fd, err := openLog(path, &undo{})
	if err != nil {
		t.Fatal(err)
	}
	c, writer, err := newCopier(path, fd, policy, clock, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if policy.Interval > 0 {
		c.nextRoll = policy.after(clock.Now())
	}
	t.Cleanup(func() {
		<-c.compressing
		_ = unix.Close(writer)
		_ = c.pipe.Close()
		if c.file != nil {
			_ = c.file.Close()
		}
	})
	return c
}

func TestRollingByTimeKeepsTheNewest(t *testing.T) {
	clock := newFakeClock()
	path := filepath.Join(t.TempDir(), "stdout")
	for _, own := range []string{path + "-of-the-user", path + "--0000.txt"} {
		if err := os.WriteFile(own, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := newTestCopier(t, path, Rolling{Interval: time.Minute, Layout: "--2006-01-02--15-04", MaxRetained: 2}, clock)
	for i := range 6 {
		c.append([]byte{'a' + byte(i), '\n'})
		clock.Advance(61 * time.Second)
	}
	_, contents := logs(t, path)
	if !slices.Equal(contents, []string{"d\n", "e\n", "f\n"}) {
		t.Errorf("contents %q", contents)
	}
	if !exists(path + "-of-the-user") {
		t.Error("a user's file was removed")
	}
}

func TestRollingNameClash(t *testing.T) {
	clock := newFakeClock()
	path := filepath.Join(t.TempDir(), "stdout")
	policy := Rolling{MaxSize: 4, Layout: "--2006"}
	c := newTestCopier(t, path, policy, clock)
	if err := os.WriteFile(path+policy.suffix(clock.Now())+gzipSuffix, []byte("taken"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"1111", "2222", "3333"} {
		c.append([]byte(text))
	}
	base := path + policy.suffix(clock.Now())
	if read(t, base+"--0") != "1111" || read(t, base+"--1") != "2222" || read(t, path) != "3333" || exists(base) {
		t.Error("names clash in another way")
	}
}

// TestFullDiskDropsAndSaysSo: a full disk neither stops the child nor hides what is missing.
func TestFullDiskDropsAndSaysSo(t *testing.T) {
	dir := tmpfs(t, "size=1m")
	r := newRunner(t, Options{})
	s := shell(r, "app/0", `while [ ! -e go ]; do sleep 0.01; done; i=0; while [ $i -lt 3000 ]; do echo "lost lost lost lost lost lost lost lost lost lost $i"; i=$((i+1)); done; touch lost
while [ ! -e on ]; do sleep 0.01; done; echo found`)
	s.Stdout, s.Stderr = filepath.Join(dir, "stdout"), filepath.Join(dir, "stderr")
	s.Rolling = &Rolling{MaxSize: minRollSize, Layout: "--2006-01-02--15-04-05"}
	p := start(t, r, s)
	ballast := fill(t, dir)
	touch := func(name string) {
		if err := os.WriteFile(filepath.Join(s.Dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	touch("go")
	eventually(t, "the child has written everything", func() bool { return exists(filepath.Join(s.Dir, "lost")) })
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	touch("on")
	if e := end(t, p); e.Code != 0 {
		t.Fatalf("exit %+v", e)
	}
	_, contents := logs(t, s.Stdout)
	all := strings.Join(contents, "")
	if !strings.Contains(all, "bytes of output were dropped here: no space left on device") || !strings.HasSuffix(all, "found\n") {
		t.Errorf("log ends with %q", all[max(0, len(all)-200):])
	}
}

// TestPipeHeldByAnother: a daemon that left the session keeps the pipe open; neither the end nor Close waits for it.
func TestPipeHeldByAnother(t *testing.T) {
	r := newRunner(t, Options{})
	s := shell(r, "app/0", `setsid sh -c 'echo $$ > daemon; exec sleep 600' & while [ ! -s daemon ]; do sleep 0.01; done; echo bye; exit 4`)
	s.Rolling = &Rolling{MaxSize: minRollSize, Layout: "--2006"}
	p := start(t, r, s)
	daemon := pidIn(t, filepath.Join(s.Dir, "daemon"))
	defer func() { _ = unix.Kill(daemon, unix.SIGKILL) }()
	if e := end(t, p); e.Code != 4 || read(t, s.Stdout) != "bye\n" {
		t.Errorf("exit %+v", e)
	}
	eventually(t, "reaped", func() bool { return r.Running() == 0 })
	for _, c := range p.copiers {
		select {
		case <-c.ended:
		case <-time.After(30 * time.Second):
			t.Fatal("a copier waits for a stranger")
		}
	}
}

// The directory of logs is the child's: a pipe that it puts in the place of a rolled file must not stop its compression, and
// with it the copying, for ever; nor is a link followed.
func TestPipeInPlaceOfARolledFile(t *testing.T) {
	dir := t.TempDir()
	fifo, link, other := filepath.Join(dir, "stdout--1"), filepath.Join(dir, "stdout--2"), filepath.Join(dir, "other")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link} {
		ended := make(chan error, 1)
		go func() { ended <- gzipFile(path) }()
		select {
		case err := <-ended:
			if err == nil || exists(path+gzipSuffix) {
				t.Errorf("%s was compressed", path)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the compression of %s hangs", path)
		}
	}
}
