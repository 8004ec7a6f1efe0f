package sparktest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// History is what the application itself has seen, from its event log (Spark's
// JsonProtocol.scala): the strongest witness of what a failover did to it.
type History struct {
	ExecutorsAdded   []string                     // ids in order, repeated when Spark saw one twice
	ExecutorsRemoved map[string]string            // id to reason
	AddedHosts       map[string]string            // id to host
	LogURLs          map[string]map[string]string // id to the URLs of its logs, by type
	TaskStarts       int
	Retries          int // tasks begun with an attempt number above 0, or as speculation
	FailedTasks      []string
}

// History reads the event log so far. Spark flushes it with every job, stage and
// executor event, tasks only with the next of those.
func (s *Session) History() (History, error) {
	h := History{ExecutorsRemoved: map[string]string{}, AddedHosts: map[string]string{}, LogURLs: map[string]map[string]string{}}
	paths, err := filepath.Glob(filepath.Join(s.cluster.dir, "events", s.ID+"*"))
	if err != nil || s.ID == "" || len(paths) != 1 {
		return h, fmt.Errorf("event log of %q: found %q (%v)", s.ID, paths, err)
	}
	data, err := os.ReadFile(paths[0])
	if err != nil {
		return h, err
	}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		if err := h.add(scanner.Bytes()); err != nil {
			return h, err
		}
	}
	return h, scanner.Err()
}

func (h *History) add(line []byte) error {
	var e struct {
		Event        string
		ExecutorID   string `json:"Executor ID"`
		Reason       string `json:"Removed Reason"`
		ExecutorInfo struct {
			Host    string
			LogURLs map[string]string `json:"Log Urls"`
		} `json:"Executor Info"`
		TaskInfo struct {
			TaskID      int `json:"Task ID"`
			Attempt     int
			Speculative bool
		} `json:"Task Info"`
		TaskEnd struct{ Reason string } `json:"Task End Reason"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		// A line that is being written has no end yet; every full line is valid.
		if !json.Valid(line) {
			return nil
		}
		return fmt.Errorf("event log: %w", err)
	}
	switch e.Event {
	case "SparkListenerExecutorAdded":
		h.ExecutorsAdded = append(h.ExecutorsAdded, e.ExecutorID)
		h.AddedHosts[e.ExecutorID] = e.ExecutorInfo.Host
		h.LogURLs[e.ExecutorID] = e.ExecutorInfo.LogURLs
	case "SparkListenerExecutorRemoved":
		h.ExecutorsRemoved[e.ExecutorID] = e.Reason
	case "SparkListenerTaskStart":
		h.TaskStarts++
		if e.TaskInfo.Attempt > 0 || e.TaskInfo.Speculative {
			h.Retries++
		}
	case "SparkListenerTaskEnd":
		if e.TaskEnd.Reason != "Success" {
			h.FailedTasks = append(h.FailedTasks, fmt.Sprintf("task %d: %s", e.TaskInfo.TaskID, e.TaskEnd.Reason))
		}
	}
	return nil
}
