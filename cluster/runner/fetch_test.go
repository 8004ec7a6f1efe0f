package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onlyEntries fails if dir holds anything but names.
func onlyEntries(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("directory holds %q, want %q", got, names)
	}
}

func TestFetchFromFile(t *testing.T) {
	source := filepath.Join(t.TempDir(), "my job.jar")
	if err := os.WriteFile(source, []byte("jar"), 0o600); err != nil {
		t.Fatal(err)
	}
	escaped := strings.ReplaceAll(source, " ", "%20")
	for _, u := range []string{"file://" + escaped, "file:" + escaped, "local:" + escaped, "local://" + escaped, "FILE://localhost" + escaped, source, "file://" + escaped + "//"} {
		dir := t.TempDir()
		path, err := Fetch(context.Background(), u, dir)
		if strings.HasSuffix(u, "//") {
			if err == nil {
				t.Errorf("%s: a path that says directory", u)
			}
			onlyEntries(t, dir)
			continue
		}
		if err != nil || path != filepath.Join(dir, "my job.jar") || read(t, path) != "jar" {
			t.Errorf("%s: %s, %v", u, path, err)
		}
		onlyEntries(t, dir, "my job.jar")
	}
}

func TestFetchSkipsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	if path, err := Fetch(context.Background(), "", dir); err != nil || path != dir {
		t.Errorf("empty URL: %s, %v", path, err)
	}
	there := filepath.Join(dir, "a.jar")
	if err := os.WriteFile(there, []byte("first"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, u := range []string{"http://127.0.0.1:1/a.jar", "hdfs://nn/x/a.jar"} {
		if path, err := Fetch(context.Background(), u, dir); err != nil || path != there || read(t, there) != "first" {
			t.Errorf("%s: %s, %v", u, path, err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "b.jar")); err != nil {
		t.Fatal(err)
	}
	if _, err := Fetch(context.Background(), "http://127.0.0.1:1/b.jar", dir); err == nil {
		t.Error("a link was taken for the jar")
	}
}

func TestFetchRefuses(t *testing.T) {
	for u, mention := range map[string]string{
		"http://h":                               "absolute path",
		"http://h/":                              "names no file",
		"http://h/a/..":                          "no file name",
		"http://h/a/%2e%2e":                      "no file name",
		"http://h/a/.":                           "no file name",
		"http://h/%00":                           "no file name",
		"http://h/stderr":                        "worker's own",
		"http://h/" + strings.Repeat("x", 300):   "longer than 255",
		"file:relative.jar":                      "absolute path",
		"relative.jar":                           "absolute path",
		"http://h/%zz":                           "malformed",
		"http://h/\x7f":                          "malformed",
		"hdfs://nn/a.jar":                        `cannot read the scheme "hdfs": give an http(s) URL`,
		"s3a://bucket/a.jar":                     "s3a",
		"spark://h:1/jars/a.jar":                 "spark",
		"file://other/a.jar":                     "not a host",
		"file:///no/such/a.jar":                  "no such file or directory on this worker",
		"file:///dev/zero":                       "not a regular file",
		"file:///tmp":                            "not a regular file",
		"http://h/" + strings.Repeat("x/", 9000): "longer than 16384",
	} {
		dir := t.TempDir()
		path, err := Fetch(context.Background(), u, dir)
		if err == nil || !strings.Contains(err.Error(), mention) {
			t.Errorf("%.60s: %s, %v", u, path, err)
		}
		onlyEntries(t, dir)
	}
}

func TestNameIsLastElementDecoded(t *testing.T) {
	for text, want := range map[string]string{
		"http://h/a%2Fb.jar": "b.jar", "http://h/..%2F..%2Fetc%2Fpasswd": "passwd", "http://h/a.jar?x=/y#/z": "a.jar",
		"http://h/a.jar;v=1": "a.jar;v=1", "http://h/a.jar///": "a.jar", "/x/..a": "..a", "http://h/a\\b": `a\b`,
	} {
		u, err := parseJarURL(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := jarName(u); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func FuzzJarName(f *testing.F) {
	for _, seed := range []string{"http://h/a.jar", "file:///x/%2e%2e", "/a/b", "http://h/%00", "local:/x//", "http://u:p@h/a?b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseJarURL(text)
		if err != nil {
			return
		}
		name, err := jarName(u)
		if err != nil {
			return
		}
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > maxNameBytes {
			t.Errorf("%q gives the name %q", text, name)
		}
		if joined := filepath.Join("/work/driver", name); filepath.Dir(joined) != "/work/driver" {
			t.Errorf("%q leaves its directory: %q", text, joined)
		}
	})
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func TestFetchOverHTTP(t *testing.T) {
	content := strings.Repeat("0123456789", 100_000)
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/redirect.jar":
			http.Redirect(w, r, "/a.jar", http.StatusFound)
		case r.URL.Path == "/loop.jar":
			http.Redirect(w, r, "/loop.jar", http.StatusFound)
		case r.URL.Path == "/away.jar":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case r.URL.Path == "/secret.jar" && (user != "u" || password != "pass"):
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/chunked.jar":
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, content)
		case r.URL.Path == "/a.jar", r.URL.Path == "/secret.jar":
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = io.WriteString(w, content)
		default:
			http.NotFound(w, r)
		}
	})
	fetch := func(u string, o FetchOptions) (string, string, error) {
		dir := t.TempDir()
		path, err := o.Fetch(context.Background(), u, dir)
		return path, dir, err
	}
	for _, u := range []string{base + "/a.jar", base + "/redirect.jar?x=1", base + "/chunked.jar", strings.Replace(base, "//", "//u:pass@", 1) + "/secret.jar"} {
		path, _, err := fetch(u, FetchOptions{})
		if err != nil || read(t, path) != content {
			t.Errorf("%s: %v", u, err)
		}
	}
	for u, mention := range map[string]string{
		"/none.jar?token=tellnobody": "404 Not Found", "/loop.jar?token=tellnobody": "more than 10 redirects",
		"/away.jar?token=tellnobody": `scheme "file"`, "/secret.jar?token=tellnobody": "401",
	} {
		_, dir, err := fetch(strings.Replace(base, "//", "//me:tellnobody@", 1)+u, FetchOptions{})
		if err == nil || !strings.Contains(err.Error(), mention) || strings.Contains(err.Error(), "tellnobody") {
			t.Errorf("%s: %v", u, err)
		}
		onlyEntries(t, dir)
	}
	for _, path := range []string{"/a.jar", "/chunked.jar"} {
		_, dir, err := fetch(base+path, FetchOptions{MaxBytes: 1000})
		if err == nil || !strings.Contains(err.Error(), "limit of 1000 bytes") {
			t.Errorf("too large: %v", err)
		}
		onlyEntries(t, dir)
		_, dir, err = fetch(base+path, FetchOptions{Reserve: 1 << 60})
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "must stay free") {
			t.Errorf("no room: %v", err)
		}
		onlyEntries(t, dir)
	}
}

func TestFetchOnAFullDisk(t *testing.T) {
	dir := tmpfs(t, "size=1m")
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush() // no length: the disk fills on the way
		_, _ = w.Write(make([]byte, 4<<20))
	})
	_, err := FetchOptions{Reserve: 1}.Fetch(context.Background(), base+"/a.jar", dir)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("full disk: %v", err)
	}
	onlyEntries(t, dir)
}

// TestFetchKeepsTheReserve: the free space is looked at again while a file without a length comes in.
func TestFetchKeepsTheReserve(t *testing.T) {
	dir := tmpfs(t, "size=40m")
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		for block := make([]byte, 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	_, err := FetchOptions{Reserve: 20 << 20}.Fetch(context.Background(), base+"/a.jar", dir)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "must stay free") {
		t.Errorf("reserve: %v", err)
	}
	onlyEntries(t, dir)
}

// TestFetchResumes breaks every connection after some bytes.
func TestFetchResumes(t *testing.T) {
	content := strings.Repeat("abcdefghij", 50_000)
	for _, c := range []struct {
		name              string
		etag              func(request int32) string
		requests, resumed int32
	}{
		{"goes on", func(int32) string { return `"v1"` }, 3, 2},
		{"begins again when the file has changed", func(n int32) string { return fmt.Sprintf(`"v%d"`, n) }, 3, 0},
		{"begins again without a validator", func(int32) string { return `W/"weak"` }, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var requests, resumed atomic.Int32
			base := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := requests.Add(1)
				w.Header().Set("ETag", c.etag(n))
				from := 0
				if r.Header.Get("Range") != "" && r.Header.Get("If-Range") == c.etag(n) {
					resumed.Add(1)
					_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
					w.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
					w.WriteHeader(http.StatusPartialContent)
				} else {
					w.Header().Set("Content-Length", strconv.Itoa(len(content)))
				}
				if n < c.requests {
					_, _ = io.WriteString(w, content[from:from+100_000])
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, content[from:])
			})
			dir := t.TempDir()
			path, err := Fetch(context.Background(), base+"/a.jar", dir)
			if err != nil || read(t, path) != content || requests.Load() != c.requests || resumed.Load() != c.resumed {
				t.Errorf("%v, %d requests, %d resumed", err, requests.Load(), resumed.Load())
			}
			onlyEntries(t, dir, "a.jar")
		})
	}
}

func TestFetchGivesUp(t *testing.T) {
	var requests atomic.Int32
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Path == "/broken.jar" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	dir := t.TempDir()
	_, err := FetchOptions{Attempts: 2}.Fetch(context.Background(), base+"/broken.jar", dir)
	if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "tried 2 times") || requests.Load() != 2 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
	_, err = FetchOptions{Attempts: 2, StallTimeout: 50 * time.Millisecond}.Fetch(context.Background(), base+"/slow.jar", dir)
	if err == nil || !strings.Contains(err.Error(), "no progress for 50ms") {
		t.Errorf("stalled: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err = Fetch(ctx, base+"/slow.jar", dir); !errors.Is(err, context.Canceled) {
		t.Errorf("killed: %v", err)
	}
	if _, err = Fetch(context.Background(), "http://127.0.0.1:1/a.jar", dir); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("refused: %v", err)
	}
	onlyEntries(t, dir)
}

// stuckSource neither reads nor obeys its context, like a dead network file system.
type stuckSource struct{ release chan struct{} }

func (s stuckSource) Open(context.Context, *url.URL, int64, string) (Source, error) {
	<-s.release
	return Source{}, permanent("at last")
}

func TestStuckSourceIsLeftBehind(t *testing.T) {
	s := stuckSource{make(chan struct{})}
	defer close(s.release)
	dir := t.TempDir()
	_, err := FetchOptions{StallTimeout: time.Millisecond, Schemes: map[string]Fetcher{"nfs": s}}.Fetch(context.Background(), "nfs:///a.jar", dir)
	if err == nil || !strings.Contains(err.Error(), "no progress") {
		t.Errorf("stalled: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (FetchOptions{Schemes: map[string]Fetcher{"nfs": s}}).Fetch(ctx, "nfs:///a.jar", dir); !errors.Is(err, context.Canceled) {
		t.Errorf("killed: %v", err)
	}
}

// memory is a scheme added by a user of the package.
type memory string

func (m memory) Open(_ context.Context, _ *url.URL, offset int64, _ string) (Source, error) {
	return Source{Body: io.NopCloser(strings.NewReader(string(m)[offset:])), Offset: offset, Size: int64(len(m))}, nil
}

func TestOtherSchemesCanBeAdded(t *testing.T) {
	dir := t.TempDir()
	path, err := FetchOptions{Schemes: map[string]Fetcher{"mem": memory("hello")}}.Fetch(context.Background(), "MEM://x/a.jar", dir)
	if err != nil || read(t, path) != "hello" {
		t.Errorf("%s, %v", path, err)
	}
}

func TestContentRange(t *testing.T) {
	for text, want := range map[string][2]int64{"bytes 5-9/10": {5, 10}, "bytes 0-0/*": {0, -1}} {
		if start, size, err := parseContentRange(text); err != nil || start != want[0] || size != want[1] {
			t.Errorf("%s: %d %d %v", text, start, size, err)
		}
	}
	for _, bad := range []string{"", "bytes", "bytes 5/10", "bytes 9-5/10", "bytes 5-9/9", "bytes a-9/10", "items 1-2/3", "bytes -1-2/3"} {
		if _, _, err := parseContentRange(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
