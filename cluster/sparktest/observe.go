package sparktest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// For makes tb the test that failures of the cluster's methods belong to, such as a subtest of the one that made it,
// until the returned function is called.
func (c *Cluster) For(tb TB) (restore func()) {
	before := c.tb
	c.tb = tb
	return func() { c.tb = before }
}

// Strays lists the processes of the cluster that are none of the given ones: what somebody has started and not ended. Each
// is its process id and the beginning of its command line.
func (c *Cluster) Strays(except ...*Process) []string {
	known := map[int]bool{}
	for _, p := range except {
		known[p.PID()] = true
	}
	var out []string
	for _, pid := range marked(c.mark) {
		if !known[pid] {
			out = append(out, fmt.Sprintf("%d %s", pid, commandLine(pid)))
		}
	}
	return out
}

// ExecutorPIDs lists the process ids of the application's executors, lowest first.
func (c *Cluster) ExecutorPIDs(appID string) []int {
	var out []int
	for _, pid := range marked(c.mark) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has ended
		}
		arguments := strings.Split(string(data), "\x00")
		if slices.Contains(arguments, "org.apache.spark.executor.CoarseGrainedExecutorBackend") && slices.Contains(arguments, appID) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

// Daemons are the processes of all masters and workers that run.
func (c *Cluster) Daemons() []*Process {
	var out []*Process
	for _, m := range c.masters {
		if m.Running() {
			out = append(out, m.proc)
		}
	}
	for _, w := range c.workers {
		if w.Running() {
			out = append(out, w.Process)
		}
	}
	return out
}

const maxShownCommand = 300

// commandLine is the command of a process, shortened; "" when it has ended.
func commandLine(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	text := string(bytes.ReplaceAll(bytes.TrimRight(data, "\x00"), []byte{0}, []byte{' '}))
	if len(text) > maxShownCommand {
		text = text[:maxShownCommand/2] + " ... " + text[len(text)-maxShownCommand/2:]
	}
	return text
}

// environmentOf reads a variable of a process's environment.
func environmentOf(pid int, name string) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "", err
	}
	for entry := range strings.SplitSeq(string(data), "\x00") {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("process %d has no %s", pid, name)
}

// Listeners lists the addresses of the cluster that somebody listens on, the harness's own left out.
func (c *Cluster) Listeners() ([]string, error) {
	var out []string
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(file)
		if err != nil {
			if isMissing(err) {
				continue // a machine without IPv6
			}
			return nil, err
		}
		for _, line := range strings.Split(string(data), "\n")[1:] {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != "0A" { // TCP_LISTEN
				continue
			}
			address, err := socketAddress(fields[1])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if strings.HasPrefix(address, c.subnet) && !strings.HasPrefix(address, c.host(harnessHost)+":") {
				out = append(out, address)
			}
		}
	}
	sort.Strings(out)
	return out, nil
}

// socketAddress decodes an address of /proc/net/tcp: words of four bytes in the machine's order, and the port.
func socketAddress(text string) (string, error) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil || len(raw)%4 != 0 {
		return "", fmt.Errorf("address %q (%v)", text, err)
	}
	for i := 0; i < len(raw); i += 4 {
		raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
	}
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return "", fmt.Errorf("port of %q: %w", text, err)
	}
	return net.JoinHostPort(net.IP(raw).String(), strconv.FormatUint(number, 10)), nil
}

// more lists what is in now and not in before.
func more(before, now []string) []string {
	known := map[string]bool{}
	for _, s := range before {
		known[s] = true
	}
	var out []string
	for _, s := range now {
		if !known[s] {
			out = append(out, s)
		}
	}
	return out
}

// fetch gets a URL, follows redirects, and fails unless the answer is 200.
func fetch(url string) (string, error) {
	follow := &http.Client{Timeout: restClient.Timeout, Transport: client.Transport}
	response, err := follow.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %.200s", url, response.StatusCode, body)
	}
	return string(body), err
}

// WorkerView is the part of a worker's /json/ that the tests read.
type WorkerView struct {
	ID                string
	MasterURL         string
	Cores             int
	CoresUsed         int
	MemoryUsed        int
	Executors         []WorkerExecutor
	FinishedExecutors []WorkerExecutor
}

// WorkerExecutor is one executor in a worker's /json/.
type WorkerExecutor struct {
	ID    int
	AppID string
}

// View reads /json/ of the worker.
func (w *Worker) View() (WorkerView, error) {
	var v WorkerView
	body, err := fetch(w.WebURL() + "/json/")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(body), &v)
}

// ReadLog reads a log of an executor or driver through /log/ and checks that it is the file in the work directory; query names
// it as on Spark's pages, such as appId=A&executorId=0, and dir is where it lies.
func (w *Worker) ReadLog(query, dir, logType string) (string, error) {
	const most = 1 << 20 // one part
	body, err := fetch(fmt.Sprintf("%s/log/?%s&logType=%s&offset=0&byteLength=%d", w.WebURL(), query, logType, most))
	if err != nil {
		return "", err
	}
	head, text, found := strings.Cut(body, "\n")
	if !found || !strings.HasPrefix(head, "==== Bytes 0-") {
		return "", fmt.Errorf("log %s of %s begins with %.200q", logType, query, body)
	}
	file, err := os.ReadFile(filepath.Join(w.WorkDir(), dir, logType))
	if err != nil {
		return "", err
	}
	if len(file) > most {
		return "", errors.New("the log is larger than one part: this check is for short ones")
	}
	if !strings.HasPrefix(string(file), text) { // it may have grown meanwhile
		return "", fmt.Errorf("log %s of %s is not what the file has:\n%s\n----- file:\n%s", logType, query, text, file)
	}
	return text, nil
}
