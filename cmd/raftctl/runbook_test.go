package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The procedures of docs/OPERATIONS.md are run as they stand there. A block is
//
//	<!-- runbook: NAME [after OTHER] -->
//	```console
//	m1,m2$ command        # on these machines, one after the other; "$ command": on none in particular
//	> its next line
//	expected line         # "..." stands for anything, a run of blanks for any other
//	```
//
// "# exit code N" at the end of a command says that it does not end with 0. The commands of a procedure, after those of OTHER, run in
// one shell. Expected lines must be in the output, in this order; others may be between them.

// runbookHosts are the machines that a procedure may name.
var runbookHosts = []string{"m1", "m2", "m3", "m4", "m5", "m6"}

type runbookStep struct {
	line     int // in the document
	hosts    []string
	command  string
	code     int
	expected []string
}

type runbook struct {
	name, after string
	steps       []runbookStep
}

var (
	runbookMarker = regexp.MustCompile(`^<!-- runbook: (\S+)(?: after (\S+))? -->$`)
	runbookPrompt = regexp.MustCompile(`^((?:m[1-9],)*m[1-9])?\$ (.*)$`)
	runbookCode   = regexp.MustCompile(`\s+# exit code (\d+)$`)
	runbookHost   = regexp.MustCompile(`\bm[1-6]\b`)
)

// readRunbooks finds the procedures of a document.
func readRunbooks(text string) ([]runbook, error) {
	var out []runbook
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		m := runbookMarker.FindStringSubmatch(lines[i])
		if m == nil {
			if strings.HasPrefix(lines[i], "<!-- runbook") {
				return nil, fmt.Errorf("line %d: no marker: %s", i+1, lines[i])
			}
			continue
		}
		if i++; i >= len(lines) || lines[i] != "```console" {
			return nil, fmt.Errorf("line %d: no block of console follows the marker of %s", i+1, m[1])
		}
		b := runbook{name: m[1], after: m[2]}
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			if err := b.add(i+1, lines[i]); err != nil {
				return nil, err
			}
		}
		out = append(out, b)
	}
	return out, nil
}

func (b *runbook) add(number int, line string) error {
	last := len(b.steps) - 1
	if m := runbookPrompt.FindStringSubmatch(line); m != nil {
		s := runbookStep{line: number, command: m[2]}
		if m[1] != "" {
			s.hosts = strings.Split(m[1], ",")
		}
		if c := runbookCode.FindStringSubmatch(s.command); c != nil {
			s.code, _ = strconv.Atoi(c[1])
			s.command = runbookCode.ReplaceAllString(s.command, "")
		}
		b.steps = append(b.steps, s)
		return nil
	}
	if last < 0 {
		return fmt.Errorf("line %d: an output before any command: %s", number, line)
	}
	if more, ok := strings.CutPrefix(line, "> "); ok {
		b.steps[last].command += "\n" + more
		return nil
	}
	b.steps[last].expected = append(b.steps[last].expected, line)
	return nil
}

// runbookMachines stands for the machines: what the commands of an administrator do there. A machine is a directory and a
// loopback address.
const runbookMachines = `
exec 2>&1
name_of() { for n in m1 m2 m3 m4 m5 m6; do [ "$(address_of $n)" != "$1" ] || echo $n; done; }
address_of() { echo "$SUBNET.${1#m}"; }
hostname() { echo "$HOST"; }
ssh() { local HOST=$1 AT; AT=$ROOT/$(name_of $HOST); shift; "$@"; }
systemctl() {
  case $1 in
    start)
      (
        set -a; . "$AT/etc/raftmaster/master.env"; set +a
        export SPARK_LOCAL_IP=$HOST
        exec raftmaster server --rest-port 0 < /dev/null >> "$AT/log" 2>&1
      ) &
      echo $! > "$AT/pid" ;;
    stop)
      local pid; pid=$(cat "$AT/pid")
      kill -TERM $pid && wait $pid
      rm "$AT/pid" ;;
    restart) systemctl stop raftmaster && systemctl start raftmaster ;;
  esac
}
`

// script makes the shell script of steps.
func runbookScript(steps []runbookStep, root, subnet string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ROOT=%s\nSUBNET=%s\n%s", root, subnet, runbookMachines)
	at := regexp.MustCompile(`(/etc/raftmaster|/var/lib/raftmaster)\b`)
	for i, s := range steps {
		hosts := s.hosts
		if hosts == nil {
			hosts = runbookHosts[:1]
		}
		fmt.Fprintf(&b, "echo '@@ %d'\n", i)
		for _, h := range hosts {
			command := at.ReplaceAllString(s.command, root+"/"+h+"$1")
			command = strings.ReplaceAll(command, "/srv/", root+"/srv/")
			command = strings.ReplaceAll(command, "$(hostname).tgz", h+".tgz")
			fmt.Fprintf(&b, "HOST=%s.%s AT=%s/%s\n%s\n", subnet, h[1:], root, h, runbookNames(command, root, subnet))
			fmt.Fprintf(&b, "code=$?; [ $code = %d ] || { echo '@@ code' $code; exit 1; }\n", s.code)
		}
	}
	b.WriteString("echo '@@ end'\n")
	return b.String()
}

// runbookNames puts addresses in the place of names of machines, but not in paths.
func runbookNames(text, root, subnet string) string {
	parts := strings.Split(text, root)
	for i, p := range parts {
		keep := ""
		if i > 0 { // the rest of a path
			end := strings.IndexAny(p, " ;\n\"")
			if end < 0 {
				end = len(p)
			}
			keep, p = p[:end], p[end:]
		}
		parts[i] = keep + runbookHost.ReplaceAllStringFunc(p, func(h string) string { return subnet + "." + h[1:] })
	}
	return strings.Join(parts, root)
}

// runbookMissing gives the first expected line that is not in an output.
func runbookMissing(expected []string, output, subnet string) string {
	rest := strings.Split(output, "\n")
next:
	for _, want := range expected {
		want = strings.Join(strings.Fields(runbookNames(want, "\x00", subnet)), " ")
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, ".*") + "$")
		for len(rest) > 0 {
			line := strings.Join(strings.Fields(rest[0]), " ")
			rest = rest[1:]
			if pattern.MatchString(line) {
				continue next
			}
		}
		return want
	}
	return ""
}

// runbookSubnet finds a /24 of loopback addresses for a procedure.
func runbookSubnet(t *testing.T, number int) string {
	t.Helper()
	for i := range 100 {
		subnet := fmt.Sprintf("127.%d.%d", 140+os.Getpid()%100, 1+(number*7+i*31+os.Getpid()/100)%250)
		free := true
		for _, port := range []string{"7077", "8080", "7177", "8180"} {
			ln, err := net.Listen("tcp", net.JoinHostPort(subnet+".1", port))
			if err != nil {
				free = false
				break
			}
			if err := ln.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if free {
			return subnet
		}
	}
	t.Fatal("no free loopback addresses")
	return ""
}

// buildPrograms builds raftctl and raftmaster and gives their directory.
func buildPrograms(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir+"/", "raftmaster/cmd/raftctl", "raftmaster/cmd/raftmaster").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func runProcedure(t *testing.T, programs string, number int, steps []runbookStep) {
	root, subnet := t.TempDir(), runbookSubnet(t, number)
	for _, h := range append([]string{"srv/backup"}, runbookHosts...) {
		if err := os.MkdirAll(filepath.Join(root, h), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { endMachines(t, root) })
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", runbookScript(steps, root, subnet))
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SPARK_") && !strings.HasPrefix(e, "RAFT") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+programs+":"+os.Getenv("PATH"))
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // masters of the procedure run on
	}
	parts := strings.Split("\n"+out.String(), "\n@@ ")
	for i, s := range steps {
		if i+1 >= len(parts) {
			break
		}
		_, output, _ := strings.Cut(parts[i+1], "\n")
		if missing := runbookMissing(s.expected, output, subnet); missing != "" {
			t.Errorf("docs/OPERATIONS.md:%d: %s\nprints no line %q:\n%s", s.line, s.command, missing, output)
		}
	}
	if last := parts[len(parts)-1]; err != nil || strings.TrimSpace(last) != "end" {
		at := steps[min(max(len(parts)-3, 0), len(steps)-1)]
		t.Errorf("%v; stopped at or after docs/OPERATIONS.md:%d (%s):\n%s", err, at.line, at.command, tailOf(out.String(), 3000))
	}
}

func tailOf(text string, n int) string { return text[max(0, len(text)-n):] }

// endMachines ends the masters that a procedure has left running.
func endMachines(t *testing.T, root string) {
	t.Helper()
	for _, h := range runbookHosts {
		if t.Failed() {
			if b, err := os.ReadFile(filepath.Join(root, h, "log")); err == nil {
				t.Logf("log of %s:\n%s", h, tailOf(string(b), 3000))
			}
		}
		b, err := os.ReadFile(filepath.Join(root, h, "pid"))
		if err != nil {
			continue // it is stopped, or never ran
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Error(err)
			continue
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		for end := time.Now().Add(10 * time.Second); runs(pid) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond) // its data directory is about to be removed
		}
	}
}

// runs tells whether a process has not ended; one that nobody has waited for yet has no command line.
func runs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(b) > 0
}

// TestRunbook runs the procedures of docs/OPERATIONS.md.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	books, err := readRunbooks(string(text))
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]runbook)
	for _, b := range books {
		if _, twice := byName[b.name]; twice || len(b.steps) == 0 {
			t.Errorf("the procedure %s is there twice, or empty", b.name)
		}
		byName[b.name] = b
	}
	for _, name := range []string{"quorum", "upgrade", "replace", "replace-machine", "address", "stop-all", "backup", "lost-quorum", "new-numbers", "alarm", "zookeeper"} {
		if _, ok := byName[name]; !ok {
			t.Errorf("docs/OPERATIONS.md has no procedure %s", name)
		}
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("LEFT OUT: the procedures need bash")
	}
	programs := ""
	if !testing.Short() {
		programs = buildPrograms(t)
	}
	for i, b := range books {
		t.Run(b.name, func(t *testing.T) {
			steps := b.steps
			if b.after != "" {
				if len(byName[b.after].steps) == 0 {
					t.Fatalf("it comes after %s, which is no procedure", b.after)
				}
				steps = slices.Concat(byName[b.after].steps, steps)
			}
			if out, err := exec.Command("bash", "-n", "-c", runbookScript(steps, "/nowhere", "127.1.1")).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if testing.Short() {
				t.Skip("LEFT OUT under -short: the procedure is read, but not run: the programs would have to be built")
			}
			runProcedure(t, programs, i, steps)
		})
	}
}

// A runbook that is wrong must be noticed.
func TestRunbookNoticesWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"<!-- runbook: x y -->":              "no marker",
		"<!-- runbook: x -->\ntext":          "no block",
		"<!-- runbook: x -->\n```console\nz": "before any command",
	} {
		if _, err := readRunbooks(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	books, err := readRunbooks("<!-- runbook: x after y -->\n```console\nm1,m2$ a <<END\n> b\n> END\n$ c   # exit code 4\nm1:7077 ... yes\nlast\n```\n")
	if err != nil || len(books) != 1 || books[0].after != "y" || len(books[0].steps) != 2 {
		t.Fatalf("%+v, %v", books, err)
	}
	s := books[0].steps
	if s[0].command != "a <<END\nb\nEND" || len(s[0].hosts) != 2 || s[1].command != "c" || s[1].code != 4 || len(s[1].expected) != 2 {
		t.Errorf("%+v", s)
	}
	for output, want := range map[string]string{
		"127.9.9.1:7077   a b  yes\nmore\nlast\n": "",
		"127.9.9.1:7077 a no\nlast":               "127.9.9.1:7077 ... yes",
		"last\n127.9.9.1:7077 a yes":              "last",
	} {
		if got := runbookMissing(s[1].expected, output, "127.9.9"); got != want {
			t.Errorf("%q: missing %q, want %q", output, got, want)
		}
	}
}
