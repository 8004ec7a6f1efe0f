package workerui

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

const stderrOfApp1 = "appId=app-1&executorId=0&logType=stderr"

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	if _, err := zw.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLogEqualsRecordedWorkers: parts, limits and refusals of /log/ as real workers of both releases gave them, over the
// same files. Apart from the words about types, which releases differ in, the one difference is a request without
// identifiers: Spark fails with 500.
func TestLogEqualsRecordedWorkers(t *testing.T) {
	for _, release := range releases {
		f := newFixture(t)
		f.write("app-1/0/stderr--2026-11-30--10-00", "old line\n")
		f.write("app-1/0/stderr--2026-11-30--11-00.gz", gzipped(t, "gz line\n"))
		f.write("app-1/0/stderr_extra", "x")
		f.write("app-1/0/stderr", "now \xff<b>é\n")
		f.write("driver-1/stdout", "d")
		data, err := os.Open("testdata/spark-" + release + "_log.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for in := bufio.NewScanner(data); in.Scan(); lines++ {
			var s struct {
				Query, Type, Body string
				Status            int
			}
			if err := json.Unmarshal(in.Bytes(), &s); err != nil {
				t.Fatal(err)
			}
			w := f.get("/log/?" + s.Query)
			if s.Status != http.StatusOK {
				if w.Code != http.StatusBadRequest {
					t.Errorf("%s %s: %d", release, s.Query, w.Code)
				}
				continue
			}
			want := strings.ReplaceAll(strings.TrimSuffix(s.Body, ", out"), "WORK", f.work)
			if got := strings.ToValidUTF8(w.Body.String(), "\uFFFD"); w.Code != s.Status || got != want || w.Header().Get("Content-Type") != s.Type {
				t.Errorf("%s %s: %d\n got %q\nwant %q", release, s.Query, w.Code, got, want)
			}
		}
		if lines != 20 {
			t.Errorf("%d recorded answers", lines)
		}
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLogIsBounded: however much is asked for, a part is 1 MiB at most, and its first line says so.
func TestLogIsBounded(t *testing.T) {
	f := newFixture(t)
	f.write("app-1/0/stderr", strings.Repeat("x", 3<<20))
	for query, want := range map[string]string{
		"&byteLength=2000000000":           fmt.Sprintf("==== Bytes %d-%d of %d of ", 2<<20, 3<<20, 3<<20),
		"&byteLength=9223372036854775807":  fmt.Sprintf("==== Bytes %d-%d of %d of ", 2<<20, 3<<20, 3<<20),
		"&byteLength=2000000000&offset=10": fmt.Sprintf("==== Bytes 10-%d of %d of ", 10+1<<20, 3<<20),
		"&offset=9223372036854775807":      fmt.Sprintf("==== Bytes %d-%d of %d of ", 3<<20, 3<<20, 3<<20),
		"&offset=-9223372036854775808":     fmt.Sprintf("==== Bytes 0-%d of %d of ", 100<<10, 3<<20),
		"":                                 fmt.Sprintf("==== Bytes %d-%d of %d of ", 3<<20-100<<10, 3<<20, 3<<20),
	} {
		if head, _ := f.logOf(stderrOfApp1 + query); !strings.HasPrefix(head, want) {
			t.Errorf("%q: %s, want %s", query, head, want)
		}
	}
	for _, bad := range []string{"&byteLength=-1", "&byteLength=99999999999999999999", "&offset=1.5", "&offset=99999999999999999999"} {
		if w := f.get("/log/?" + stderrOfApp1 + bad); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
}

// TestLogPage: the tail by default, links to what is before and after, everything escaped.
func TestLogPage(t *testing.T) {
	f := newFixture(t)
	f.write("app-1/0/stderr", strings.Repeat("-", 100)+"<script>alert('x')</script>\x1b[31m\xff\x00end\r\n")
	body := f.get("/logPage/?" + stderrOfApp1 + "&byteLength=45").Body.String()
	mustContain(t, body, "<!DOCTYPE html>", "stderr of executor app-1/0", "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;", "␛[31m\uFFFD␀end\n",
		`href="?appId=app-1&amp;executorId=0&amp;logType=stderr&amp;offset=49&amp;byteLength=45"`, "Load More", "Load New",
		`href="?appId=app-1&amp;executorId=0&amp;logType=stderr&amp;offset=139&amp;byteLength=45"`, `href="?appId=app-1&amp;executorId=0&amp;logType=stdout"`,
		`src="../static/log.js"`, `href="../download/?appId=app-1&amp;executorId=0&amp;logType=stderr"`, `href="http://localhost:22380"`)
	mustNotContain(t, body, "<script>alert", "\x1b", "\x00", "\r")
	body = f.get("/logPage/?" + stderrOfApp1 + "&offset=10&byteLength=45").Body.String()
	mustContain(t, body, `offset=0&amp;byteLength=10"`)
	body = f.get("/logPage/?" + stderrOfApp1).Body.String()
	mustContain(t, body, "Beginning of the log")
	mustNotContain(t, body, "Load More")
	// A line break that begins the text is not the one that HTML drops after <pre>.
	f.write("app-1/0/stdout", "\n\nx")
	mustContain(t, f.get("/logPage/?appId=app-1&executorId=0&logType=stdout").Body.String(), "data-length=\"102400\">\n\n\nx</pre>")
	mustContain(t, f.get("/logPage/?"+stderrOfApp1+"&byteLength=0").Body.String(), "offset=139&amp;byteLength=102400")
	// What a caller wrote comes back escaped.
	for _, q := range []string{"appId=<b>&executorId=%3Cscript%3E&logType=%22%3E", "driverId=%22%3E%3Cimg+src=x%3E&logType=<i>"} {
		body := f.get("/logPage/?" + q).Body.String()
		mustContain(t, body, "Error: ")
		mustNotContain(t, body, "<b>&", "<script>%", "<img", "<i>", `">"`)
	}
	body = f.get("/log/?driverId=a%0a====+Bytes&logType=stdout").Body.String()
	if strings.Count(body, "\n") != 1 {
		t.Errorf("a forged line: %q", body)
	}
}

// TestShowText: every text becomes valid, keeps its lines and holds no control character.
func TestShowText(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\r\nc\rd\n": "a\tb\nc␍d\n", "\xc3": "\uFFFD", "é\x7f": "é␡", "\xff\xfe": "\uFFFD\uFFFD", "": "", "\r\n\r\n": "\n\n", "\u0085": "\u0085",
	} {
		if got := showText([]byte(in)); got != want || !utf8.ValidString(got) {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// TestG75_OwnLog: the worker's own log, wherever it goes (Spark's page works only inside the work directory, G-75).
func TestG75_OwnLog(t *testing.T) {
	f := newFixture(t)
	other := t.TempDir() + "/worker.out"
	if err := os.WriteFile(other, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.opts.LogFiles = func() map[string]string { return map[string]string{"out": other} }
	if head, body := f.logOf("self&logType=out"); body != "hello\n" || head != "==== Bytes 0-6 of 6 of "+other+" ====" {
		t.Errorf("%q %q", head, body)
	}
	mustContain(t, f.get("/").Body.String(), `href="logPage/?logType=out&amp;self="`)
	mustContain(t, f.get("/logPage/?logType=out&self=").Body.String(), "hello\n", "out of this worker")
	_, body := f.logOf("self&logType=stderr")
	mustContain(t, body, "Error: the stderr of this worker is no file")
	_, body = f.logOf("self&logType=../x")
	mustContain(t, body, "Error: Log type must be one of stderr, stdout, out")
	_, body = f.logOf("appId=app-1&executorId=0&logType=out")
	mustContain(t, body, "Error: Log type must be one of stderr, stdout")
	f.opts.LogFiles = func() map[string]string { return map[string]string{"out": "/dev/null", "stdout": other + ".gone"} }
	for _, logType := range []string{"out", "stdout"} {
		_, body = f.logOf("self&logType=" + logType)
		mustContain(t, body, "Error getting logs")
	}
}

// TestDownload: the whole log as one file, parts of it by Range, and nothing where there is nothing.
func TestDownload(t *testing.T) {
	f := newFixture(t)
	f.write("app-1/0/stdout--1", "first\n")
	f.write("app-1/0/stdout--2.gz", gzipped(t, "second\n"))
	f.write("app-1/0/stdout", "third\n")
	target := "/download/?appId=app-1&executorId=0&logType=stdout"
	const whole = "first\nsecond\nthird\n"
	w := f.get(target)
	if w.Code != http.StatusOK || w.Body.String() != whole || w.Header().Get("Content-Length") != fmt.Sprint(len(whole)) ||
		w.Header().Get("Content-Disposition") != `attachment; filename="app-1-0-stdout.txt"` || w.Header().Get("Content-Type") != plainText {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	for ranges, want := range map[string]string{"bytes=4-8": whole[4:9], "bytes=-7": whole[len(whole)-7:], "bytes=10-": whole[10:], "bytes=0-0": "f"} {
		if w := f.do(http.MethodGet, target, "Range", ranges); w.Code != http.StatusPartialContent || w.Body.String() != want {
			t.Errorf("%s: %d %q", ranges, w.Code, w.Body)
		}
	}
	if w := f.do(http.MethodGet, target, "Range", "bytes=1000-"); w.Code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("beyond the end: %d", w.Code)
	}
	if w := f.do(http.MethodGet, target, "Range", "bytes=0-1,11-12"); w.Code != http.StatusPartialContent || !strings.Contains(w.Body.String(), "\r\n\r\nfi\r\n") {
		t.Errorf("two ranges: %d %q", w.Code, w.Body)
	}
	if w := f.do(http.MethodHead, target); w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") != fmt.Sprint(len(whole)) {
		t.Errorf("HEAD: %d %v", w.Code, w.Header())
	}
	for query, want := range map[string]int{"appId=app-2&executorId=0&logType=stdout": 404, "appId=..&executorId=..&logType=stdout": 404,
		"appId=app-1&executorId=0&logType=passwd": 404, "logType=stdout": 400} {
		if w := f.get("/download/?" + query); w.Code != want || w.Header().Get("Content-Disposition") != "" {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
	name := url.QueryEscape("a\"b\r\nX: y/é")
	f.write("x/stdout", "")
	if w := f.get("/download/?driverId=" + name + "&logType=stdout"); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
	if got := downloadName(logQuery{names: []string{"a\"b\r\nX: é"}, logType: "stdout"}); got != "a_b__X___-stdout.txt" {
		t.Errorf("%q", got)
	}
}

// TestManyRangesAreNotServed: a request for hundreds of parts in the wrong order would unpack a compressed log as many times;
// it gets the whole log once.
func TestManyRangesAreNotServed(t *testing.T) {
	f := newFixture(t)
	whole := strings.Repeat("0123456789abcdef", 64<<10)
	f.write("app-1/0/stdout--1.gz", gzipped(t, whole))
	target := "/download/?appId=app-1&executorId=0&logType=stdout"
	var ranges []string
	for i := range 400 {
		at := len(whole) - 1 - i%2*1000
		ranges = append(ranges, fmt.Sprintf("%d-%d", at, at))
	}
	if w := f.do(http.MethodGet, target, "Range", "bytes="+strings.Join(ranges, ",")); w.Code != http.StatusOK || w.Body.String() != whole {
		t.Errorf("status %d and %d bytes", w.Code, w.Body.Len())
	}
	if w := f.do(http.MethodGet, target, "Range", "bytes="+strings.Join(ranges[:maxRanges], ",")); w.Code != http.StatusPartialContent {
		t.Errorf("a few ranges: status %d", w.Code)
	}
}
