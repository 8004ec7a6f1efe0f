package workerui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestNoPathLeavesTheWorkDirectory: dots, slashes, encodings and links that a job has made.
func TestNoPathLeavesTheWorkDirectory(t *testing.T) {
	f := newFixture(t)
	outside := t.TempDir()
	const secret = "a secret outside"
	for _, name := range []string{"stdout", "stderr", "0/stdout"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(outside, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outside, name), []byte(secret), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.write("app-1/0/stderr", "fine")
	f.write("app-2/0/stderr", "of another application")
	f.write("stderr", secret)
	for link, to := range map[string]string{"link": outside, "app-1/up": "..", "app-1/out": outside, "app-1/0/stdout": filepath.Join(outside, "stdout"),
		"app-1/0/stdout--1": filepath.Join(outside, "stdout"), "app-1/0/stdout--2": "../../app-2/0/stderr", "app-1/other": "../app-2/0"} {
		if err := os.Symlink(to, filepath.Join(f.work, link)); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"..", ".", "", "link", "app-1/..", "..%2f", "%2e%2e", "%252e%252e", "..%5c..", "/etc", "app-1%00", "up", "out", "other", "../app-2",
		outside, "%c0%ae%c0%ae", strings.Repeat("a", 300), "app-1", "0"}
	for _, a := range names {
		for _, page := range []string{"/log/", "/logPage/", "/download/"} {
			for _, q := range []string{"driverId=" + a, "appId=" + a + "&executorId=0", "appId=app-1&executorId=" + a, "appId=" + a + "&executorId=" + a} {
				for _, logType := range []string{"stdout", "stderr"} {
					w := f.get(page + "?" + q + "&logType=" + logType)
					if w.Code == http.StatusInternalServerError || strings.Contains(w.Body.String(), secret) || strings.Contains(w.Body.String(), "of another") {
						t.Errorf("%s %s %s: %d %s", page, q, logType, w.Code, w.Body)
					}
				}
			}
		}
	}
	if _, body := f.logOf(stderrOfApp1); body != "fine" {
		t.Errorf("%q", body)
	}
	if _, body := f.logOf("appId=app-1&executorId=0&logType=stdout"); body != "" {
		t.Errorf("links count as parts of a log: %q", body)
	}
}

// TestOnlyRegularFiles: a FIFO would hold up its reader for ever, a device might do anything.
func TestOnlyRegularFiles(t *testing.T) {
	f := newFixture(t)
	f.write("app-1/0/stderr--1", "before\n")
	if err := syscall.Mkfifo(filepath.Join(f.work, "app-1/0/stderr"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.work, "app-1/0/stderr--dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if head, body := f.logOf(stderrOfApp1); body != "before\n" || !strings.HasPrefix(head, "==== Bytes 0-7 of 7 of") {
		t.Errorf("%q %q", head, body)
	}
	// A FIFO, and a link, that take the place of a file after it was listed.
	for _, replace := range []func(string) error{
		func(p string) error { return syscall.Mkfifo(p, 0o644) },
		func(p string) error { return os.Symlink("/etc/hostname", p) },
	} {
		path := f.write("app-1/1/stdout--1", "text")
		l := f.list("app-1", "1", "stdout")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := replace(path); err != nil {
			t.Fatal(err)
		}
		r := l.reader(context.Background())
		if n, err := r.Read(make([]byte, 10)); n != 0 || err == nil {
			t.Errorf("%d bytes of it were read, %v", n, err)
		}
		r.close()
		l.close()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// list lists a log of an executor.
func (f *fixture) list(app, executor, logType string) *logFiles {
	f.t.Helper()
	l, _, err := f.handler().openLog(context.Background(), logQuery{names: []string{app, executor}, logType: logType})
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// TestHugeLog: of a log of 10 GB only the part that is shown is read, and a part of the whole comes by Range.
func TestHugeLog(t *testing.T) {
	f := newFixture(t)
	const size = 10 << 30
	path := f.write("app-1/0/stderr", "beginning")
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("the end"), size-7); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	head, body := f.logOf(stderrOfApp1 + "&byteLength=7")
	if body != "the end" || !strings.Contains(head, fmt.Sprintf("Bytes %d-%d of %d of", size-7, size, size)) {
		t.Errorf("%q %q", head, body)
	}
	if _, body := f.logOf(stderrOfApp1 + "&offset=0&byteLength=9"); body != "beginning" {
		t.Errorf("%q", body)
	}
	if w := f.do(http.MethodGet, "/download/?"+stderrOfApp1, "Range", "bytes=-7"); w.Body.String() != "the end" ||
		w.Header().Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", size-7, size-1, size) {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	mustContain(t, f.get("/logPage/?"+stderrOfApp1+"&byteLength=7").Body.String(), "the end")
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

// TestLogThatChanges: a file that grows, is truncated, is rolled or is removed while it is read gives what it held when it
// was listed, or less, and never anything else.
func TestLogThatChanges(t *testing.T) {
	f := newFixture(t)
	path := f.write("app-1/0/stderr", "0123456789")
	read := func(change func()) (string, error) {
		l := f.list("app-1", "0", "stderr")
		defer l.close()
		r := l.reader(context.Background())
		defer r.close()
		change()
		b, err := io.ReadAll(r)
		return string(b), err
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := read(func() { check(os.WriteFile(path, []byte("0123456789abc"), 0o644)) }); got != "0123456789" || err != nil {
		t.Errorf("grown: %q %v", got, err)
	}
	if got, err := read(func() { check(os.Truncate(path, 4)) }); got != "0123" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("truncated: %q %v", got, err)
	}
	rolled := filepath.Join(filepath.Dir(path), "stderr--2026")
	if got, err := read(func() {
		check(os.Rename(path, rolled))
		check(os.WriteFile(path, []byte("newer"), 0o644))
	}); got != "0123" || err != nil {
		t.Errorf("rolled: %q %v", got, err)
	}
	if _, body := f.logOf(stderrOfApp1); body != "0123newer" {
		t.Errorf("after that: %q", body)
	}
	if got, err := read(func() { check(os.Remove(rolled)) }); got != "" || err == nil {
		t.Errorf("removed: %q %v", got, err)
	}
}

// TestLogUnderRolling: while a log is rolled without a pause, every answer is a piece of it.
func TestLogUnderRolling(t *testing.T) {
	f := newFixture(t)
	dir := filepath.Dir(f.write("app-1/0/stderr", ""))
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			active := filepath.Join(dir, "stderr")
			if err = os.WriteFile(active, []byte(fmt.Sprintf("%08d\n", i)), 0o644); err == nil {
				err = os.Rename(active, filepath.Join(dir, fmt.Sprintf("stderr--%08d", i)))
			}
			if i >= 20 && err == nil {
				err = os.Remove(filepath.Join(dir, fmt.Sprintf("stderr--%08d", i-20)))
			}
		}
		done <- err
	}()
	shown := 0
	for range 300 {
		_, body := f.logOf(stderrOfApp1)
		if strings.HasPrefix(body, "Error getting logs") {
			continue
		}
		last := ""
		for _, line := range strings.SplitAfter(body, "\n") {
			if len(line) == 9 && line <= last {
				t.Fatalf("out of order: %q", body)
			}
			last = line
			shown++
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if shown == 0 {
		t.Error("nothing was ever shown")
	}
}

// TestCompressedParts: what is compressed is counted once, a damaged file gives what it holds, and an original that is still
// there counts alone.
func TestCompressedParts(t *testing.T) {
	f := newFixture(t)
	whole := gzipped(t, strings.Repeat("compressed line\n", 1000))
	f.write("app-1/0/stderr--1.gz", whole)
	f.write("app-1/0/stderr--2.gz", "no gzip at all")
	f.write("app-1/0/stderr--3", "plain\n")
	f.write("app-1/0/stderr--3.gz", gzipped(t, "plain\n"))
	f.write("app-1/0/stderr", "end\n")
	h := f.handler()
	for range 2 {
		body := serve(h, http.MethodGet, "/log/?"+stderrOfApp1).Body.String()
		mustContain(t, body, "==== Bytes 0-16010 of 16010 of ", "compressed line\nplain\nend\n")
	}
	if n := len(h.lengths.kept); n != 2 {
		t.Errorf("%d lengths are kept", n)
	}
	f.write("app-1/0/stderr--1.gz", whole[:len(whole)-12])
	body := serve(h, http.MethodGet, "/log/?"+stderrOfApp1).Body.String()
	mustContain(t, body, "end\n")
	f.opts.CompressedLogLengths = 1
	h = f.handler()
	serve(h, http.MethodGet, "/log/?"+stderrOfApp1)
	if n := len(h.lengths.kept); n != 1 {
		t.Errorf("%d lengths are kept", n)
	}
}

// TestUnpackingEnds: a file that unpacks to more than there is time for is not read on.
func TestUnpackingEnds(t *testing.T) {
	f := newFixture(t)
	f.write("app-1/0/stderr--1.gz", gzipped(t, strings.Repeat("\x00", 1<<20)))
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	l, _, err := f.handler().openLog(ctx, logQuery{names: []string{"app-1", "0"}, logType: "stderr"})
	if l != nil || err == nil || !strings.Contains(err.Error(), "too long to be unpacked") {
		t.Errorf("%v %v", l, err)
	}
}

// TestFullDirectory: a job that fills its directory with names of logs costs itself its log page, and nobody else anything.
func TestFullDirectory(t *testing.T) {
	f := newFixture(t)
	h := f.handler()
	h.maxFiles = 20
	for i := range h.maxFiles + 1 {
		f.write(fmt.Sprintf("app-1/0/stderr-%02d", i), "")
	}
	f.write("app-1/1/stderr", "fine")
	mustContain(t, serve(h, http.MethodGet, "/log/?"+stderrOfApp1).Body.String(), "Error getting logs", "too many files")
	mustContain(t, serve(h, http.MethodGet, "/log/?appId=app-1&executorId=1&logType=stderr").Body.String(), "\nfine")
	if err := os.Remove(filepath.Join(f.work, "app-1/0/stderr-00")); err != nil {
		t.Fatal(err)
	}
	mustNotContain(t, serve(h, http.MethodGet, "/log/?"+stderrOfApp1).Body.String(), "Error")
}

// TestPartsMakeTheWhole: however a log is cut into files and parts, the parts put together are the log.
func TestPartsMakeTheWhole(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFixture(t)
		var whole []byte
		for i := range rapid.IntRange(0, 4).Draw(r, "rolled") {
			b := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(r, "file")
			name, content := fmt.Sprintf("driver-1/stdout--%d", i), string(b)
			if rapid.Bool().Draw(r, "compressed") {
				name, content = name+".gz", gzipped(t, content)
			}
			f.write(name, content)
			whole = append(whole, b...)
		}
		active := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(r, "active")
		f.write("driver-1/stdout", string(active))
		whole = append(whole, active...)
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(whole)), 0, 5).Draw(r, "cuts")
		cuts = append(cuts, 0, len(whole))
		slices.Sort(cuts)
		h := f.handler()
		var parts, downloaded []byte
		for i, from := range cuts[:len(cuts)-1] {
			to := cuts[i+1]
			w := serve(h, http.MethodGet, fmt.Sprintf("/log/?driverId=driver-1&logType=stdout&offset=%d&byteLength=%d", from, to-from))
			head, body, _ := strings.Cut(w.Body.String(), "\n")
			if want := fmt.Sprintf("==== Bytes %d-%d of %d of ", from, to, len(whole)); !strings.HasPrefix(head, want) {
				r.Fatalf("%s, want %s", head, want)
			}
			parts = append(parts, body...)
			if to > from {
				w := serve(h, http.MethodGet, "/download/?driverId=driver-1&logType=stdout", "Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
				downloaded = append(downloaded, w.Body.Bytes()...)
			}
		}
		if string(parts) != string(whole) || string(downloaded) != string(whole) {
			r.Fatalf("parts %q, downloads %q, log %q", parts, downloaded, whole)
		}
		if err := os.RemoveAll(f.work); err != nil {
			r.Fatal(err)
		}
	})
}

// FuzzLogRequests: whatever the parameters are, nothing outside the work directory is shown, nothing fails, and the page is
// free of what the caller wrote.
func FuzzLogRequests(f *testing.F) {
	fix := newFixture(f)
	fix.write("app-1/0/stderr", "inside")
	fix.write("stderr", "a secret beside")
	for _, s := range [][5]string{{"app-1", "0", "", "stderr", "3"}, {"..", "..", "", "stderr", "-1"}, {"", "", "../../x", "stdout", ""},
		{"app-1", "./0", "", "stderr", "x"}, {"a\x00", "<b>", "", "<i>", "99999999999"}, {"app-1", "0/../0", "", "stderr", "0"}} {
		f.Add(s[0], s[1], s[2], s[3], s[4], uint8(7))
	}
	h := fix.handler()
	f.Fuzz(func(t *testing.T, app, executor, driver, logType, number string, given uint8) {
		q := url.Values{}
		for i, p := range []struct{ name, value string }{{"appId", app}, {"executorId", executor}, {"driverId", driver}, {"logType", logType},
			{"offset", number}, {"byteLength", number}} {
			if given&(1<<i) != 0 {
				q.Set(p.name, p.value)
			}
		}
		for _, page := range []string{"/log/?", "/logPage/?", "/download/?"} {
			w := serve(h, http.MethodGet, page+q.Encode())
			body := w.Body.String()
			if w.Code >= 500 || strings.Contains(body, "a secret") {
				t.Fatalf("%s%s: %d %s", page, q.Encode(), w.Code, body)
			}
			if strings.Contains(body, "inside") && (app != "app-1" || executor != "0") && page != "/logPage/?" && !strings.Contains(q.Encode(), "inside") {
				t.Fatalf("%s%s shows a log under another name", page, q.Encode())
			}
		}
	})
}
