package sparktest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"raftmaster/transport/webui"
)

// client keeps no connections: a paused or killed master must not be judged by
// one that was opened before.
var client = &http.Client{
	Timeout:       2 * time.Second,
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

const maxBody = 64 << 20

// State is the part of Spark's /json/ that the tests read.
type State struct {
	URL              string        `json:"url"`
	Workers          []WorkerState `json:"workers"`
	AliveWorkers     int           `json:"aliveworkers"`
	Cores            int           `json:"cores"`
	CoresUsed        int           `json:"coresused"`
	Memory           int           `json:"memory"`
	MemoryUsed       int           `json:"memoryused"`
	ActiveApps       []AppState    `json:"activeapps"`
	CompletedApps    []AppState    `json:"completedapps"`
	ActiveDrivers    []DriverState `json:"activedrivers"`
	CompletedDrivers []DriverState `json:"completeddrivers"`
	Status           string        `json:"status"`
}

// WorkerState is one worker in /json/.
type WorkerState struct {
	ID            string `json:"id"`
	Host          string `json:"host"`
	Port          int    `json:"port"`
	WebUIAddress  string `json:"webuiaddress"`
	Cores         int    `json:"cores"`
	CoresUsed     int    `json:"coresused"`
	Memory        int    `json:"memory"`
	MemoryUsed    int    `json:"memoryused"`
	State         string `json:"state"`
	LastHeartbeat int64  `json:"lastheartbeat"` // milliseconds since the epoch
}

// AppState is one application in /json/.
type AppState struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Cores int    `json:"cores"`
	User  string `json:"user"`
	State string `json:"state"`
}

// DriverState is one driver in /json/.
type DriverState struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Cores  int    `json:"cores"`
	Memory int    `json:"memory"`
	Worker string `json:"worker"` // "None" while it waits
}

// Worker returns the entry of the worker at the host that is in the wanted
// state; "" wants any.
func (s State) Worker(host, state string) (WorkerState, error) {
	for _, w := range s.Workers {
		if w.Host == host && (state == "" || w.State == state) {
			return w, nil
		}
	}
	return WorkerState{}, fmt.Errorf("no worker on %s in state %q among %+v", host, state, s.Workers)
}

// App returns the application of the id, active or completed.
func (s State) App(id string) (AppState, error) {
	for _, list := range [][]AppState{s.ActiveApps, s.CompletedApps} {
		for _, a := range list {
			if a.ID == id {
				return a, nil
			}
		}
	}
	return AppState{}, fmt.Errorf("no application %s: active %+v, completed %+v", id, s.ActiveApps, s.CompletedApps)
}

// Get fetches a path of the web port and returns status code and body.
func (m *Master) Get(path string) (int, string, error) {
	response, err := client.Get(m.WebURL() + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	return response.StatusCode, string(body), err
}

// GetOK fails unless the path answers 200.
func (m *Master) GetOK(path string) error {
	code, body, err := m.Get(path)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("%s%s: %d %.200s", m.Name(), path, code, strings.TrimSpace(body))
	}
	return nil
}

func (m *Master) getJSON(path string, into any) error {
	code, body, err := m.Get(path)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("%s%s: %d %.200s", m.Name(), path, code, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		return fmt.Errorf("%s%s: %w", m.Name(), path, err)
	}
	return nil
}

// JSON reads Spark's /json/.
func (m *Master) JSON() (State, error) {
	var s State
	return s, m.getJSON("/json/", &s)
}

// Status reads /v1/status of a raftmaster.
func (m *Master) Status() (webui.Status, error) {
	var s webui.Status
	return s, m.getJSON("/v1/status", &s)
}

// Executors reads /v1/executors of a raftmaster: the unfinished ones.
func (m *Master) Executors() ([]webui.Executor, error) {
	var answer webui.ExecutorsAnswer
	err := m.getJSON("/v1/executors", &answer)
	return answer.Executors, err
}

// Raftctl runs raftctl with -o json against all masters and decodes its answer
// into the value, unless that is nil. It returns the exit code.
func (c *Cluster) Raftctl(into any, args ...string) (int, error) {
	return c.RaftctlWithin(startTimeout, into, args...)
}

// RaftctlWithin is Raftctl for what takes longer.
func (c *Cluster) RaftctlWithin(limit time.Duration, into any, args ...string) (int, error) {
	bin, err := Binaries()
	if err != nil {
		return 0, err
	}
	endpoints := make([]string, len(c.masters))
	for i, m := range c.masters {
		endpoints[i] = m.WebURL()
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin.Raftctl, append([]string{"--endpoints", strings.Join(endpoints, ","), "-o", "json"}, args...)...)
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		return 0, fmt.Errorf("raftctl: %w", err)
	}
	if into != nil {
		if err := json.Unmarshal(out, into); err != nil {
			return cmd.ProcessState.ExitCode(), fmt.Errorf("raftctl %v printed %.300q: %w", args, out, err)
		}
	}
	return cmd.ProcessState.ExitCode(), nil
}
