package rest

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sample is one recorded request to a real master, and its answer.
type sample struct {
	method, path, request string
	status                int
	header                map[string]string
	body                  string
}

func readSample(t *testing.T, file string) sample {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	words := strings.SplitN(strings.TrimPrefix(first, "# "), " ", 3)
	u, err := url.Parse(words[1])
	if err != nil {
		t.Fatal(err)
	}
	s := sample{method: words[0], path: u.Path, header: map[string]string{}}
	if len(words) == 3 {
		_, s.request, _ = strings.Cut(words[2], "-d ")
	}
	head, body, ok := strings.Cut(rest, "\n\n")
	if !ok {
		t.Fatalf("%s: no body", file)
	}
	s.body = strings.TrimSuffix(body, "\n")
	for i, line := range strings.Split(head, "\n") {
		if i == 0 {
			if s.status, err = strconv.Atoi(strings.Fields(line)[1]); err != nil {
				t.Fatal(err)
			}
			continue
		}
		name, value, _ := strings.Cut(line, ": ")
		s.header[name] = value
	}
	return s
}

// differs names the samples that this server answers differently on purpose, and why.
var differs = map[string]string{
	"3.5.9/rest_clear_get":       "3.5.9 has no such call; 4.x refuses the method",
	"3.5.9/rest_clear_post":      "3.5.9 has no such call",
	"3.5.9/rest_killall_get":     "3.5.9 has no such call",
	"3.5.9/rest_killall_post":    "3.5.9 has no such call",
	"3.5.9/rest_readyz_get":      "3.5.9 has no such call",
	"3.5.9/rest_readyz_post":     "3.5.9 has no such call",
	"3.5.9/standby_rest_clear":   "3.5.9 has no such call",
	"3.5.9/standby_rest_killall": "3.5.9 has no such call",
	"3.5.9/standby_rest_readyz":  "3.5.9 has no such call",
	"3.5.9/rest_create_noname":   "3.5.9 wants spark.app.name",
	"3.5.9/rest_v1_sub":          "4.x names more calls",
}

// TestAnswersOfRealMasters: the same request gets the same status, content type and bytes as from a master of either
// release; only what follows the first words of a 400 is our own (G-70).
func TestAnswersOfRealMasters(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*rest_*.txt")
	if err != nil || len(files) < 55 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	compared := 0
	for _, file := range files {
		release := filepath.Base(filepath.Dir(file))
		name := release + "/" + strings.TrimSuffix(filepath.Base(file), ".txt")
		if differs[name] != "" {
			continue
		}
		compared++
		t.Run(name, func(t *testing.T) {
			s := readSample(t, file)
			f := &fake{}
			f.answerAs(t, s)
			if s.request == "" && strings.HasSuffix(name, "standby_rest_create") {
				s.request = minimal // it was not recorded
			}
			opts := options(f)
			opts.SparkVersion = release
			resp, body := ask(t, NewHandler(opts), s.method, s.path, s.request)
			if resp.StatusCode != s.status {
				t.Errorf("status %d, a real master says %d", resp.StatusCode, s.status)
			}
			if got, want := resp.Header.Get("Content-Type"), s.header["Content-Type"]; got != want {
				t.Errorf("content type %q, a real master says %q", got, want)
			}
			if !strings.Contains(s.body, "Malformed request: ") {
				if body != s.body || (s.header["Content-Length"] != "" && strconv.Itoa(len(body)) != s.header["Content-Length"]) {
					t.Errorf("body\n%s\na real master says\n%s", body, s.body)
				}
				return
			}
			got, want := message(t, body), message(t, s.body)
			if i := strings.Index(want, "Exception: "); !strings.HasPrefix(got, want[:i+len("Exception: ")]) {
				t.Errorf("message %q\na real master says %q", got, want)
			}
			if strings.Contains(got, "\n\t") || strings.Contains(got, ".scala:") {
				t.Errorf("G-70: a stack is shown: %q", got)
			}
		})
	}
	if compared < 45 {
		t.Errorf("only %d samples compared", compared)
	}
}

// answerAs makes the backend say what the master of the sample knew.
func (f *fake) answerAs(t *testing.T, s sample) {
	t.Helper()
	var a struct {
		Success                                                              bool
		Message, SubmissionID, DriverState, WorkerID, WorkerHostPort, Action string
	}
	if err := json.Unmarshal([]byte(s.body), &a); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(a.Message, "Current state is not alive: STANDBY") {
		f.err = &NotAliveError{State: "STANDBY"}
		return
	}
	f.submit = Submitted{ID: a.SubmissionID, Success: a.Success, Message: a.Message}
	f.killed = Killed{Success: a.Success, Message: a.Message}
	f.status = DriverStatus{Found: a.Success, State: a.DriverState, WorkerID: a.WorkerID, WorkerHostPort: a.WorkerHostPort}
}

func message(t *testing.T, body string) string {
	t.Helper()
	var a struct{ Message string }
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return a.Message
}

// TestDriverCommandsOfRealMasters: the same submission starts the same driver, but for the list of masters (S12) and the
// order of properties, which is that of a hash table in Spark.
func TestDriverCommandsOfRealMasters(t *testing.T) {
	for _, release := range []string{"3.5.9", "4.3.0"} {
		s := readSample(t, "testdata/"+release+"/rest_create_ok.txt")
		f := &fake{submit: Submitted{ID: "driver-1", Success: true}}
		if resp, body := ask(t, NewHandler(options(f)), s.method, s.path, s.request); resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		text, err := os.ReadFile("testdata/" + release + "/driver_cmdline.txt")
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Split(strings.TrimSpace(string(text)), "\n")
		d := f.submitted[0].Description
		if d.Mem != 500 || d.Cores != 1 || d.Supervise || d.JarURL != "" || d.Graph != nil {
			t.Errorf("%s: %+v", release, d)
		}
		// java -cp PATH -Xmx500M OPTIONS... WRAPPER WORKER_URL USER_JAR ARGUMENTS...
		split := 0
		for i, w := range words {
			if w == d.Command.MainClass {
				split = i
			}
		}
		if split == 0 {
			t.Fatalf("%s: %s is not what a real master runs", release, d.Command.MainClass)
		}
		if got, want := strings.Join(d.Command.Arguments[2:], "\n"), strings.Join(words[split+3:], "\n"); got != want {
			t.Errorf("%s: arguments\n%s\na real master has\n%s", release, got, want)
		}
		if d.Command.Arguments[0] != "{{WORKER_URL}}" || d.Command.Arguments[1] != "{{USER_JAR}}" {
			t.Errorf("%s: %v", release, d.Command.Arguments[:2])
		}
		compareOptions(t, release, d.Command.JavaOpts, words[4:split])
		want := map[string]string{"SPARK_SAMPLE": "1", "PYSPARK_PYTHON": "/usr/bin/python3"}
		for _, e := range d.Command.Environment {
			if want[e.Name] != e.Value {
				t.Errorf("%s: variable %s=%s", release, e.Name, e.Value)
			}
			delete(want, e.Name)
		}
		if len(want) > 0 {
			t.Errorf("%s: variables missing: %v", release, want)
		}
	}
}

func compareOptions(t *testing.T, release string, got, want []string) {
	t.Helper()
	left := map[string]int{}
	for i, o := range want {
		if strings.HasPrefix(o, "-Dspark.master=") {
			o = "-Dspark.master=" + cluster
		}
		left[o]++
		if !strings.HasPrefix(o, "-Dspark.") && (i >= len(got) || got[i] != o) {
			t.Errorf("%s: option %d is not %s", release, i, o)
		}
	}
	for _, o := range got {
		left[o]--
	}
	for o, n := range left {
		if n != 0 {
			t.Errorf("%s: option %s is there %+d times too seldom", release, o, n)
		}
	}
}

func TestErrorsSatisfyTheInterface(t *testing.T) {
	var err error = &InvalidError{Reason: "no."}
	var invalid *InvalidError
	if !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), "Malformed request: "+protocolException) {
		t.Errorf("%v", err)
	}
}
