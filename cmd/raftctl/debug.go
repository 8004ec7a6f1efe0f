package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/cluster/redact"
	"raftmaster/transport/webui"
)

const (
	// debugFormat is the format of the bundle; a reader of a later one finds other files.
	debugFormat = 1
	// debugPartTime is the least time for one part: a profile takes longer than a status.
	debugPartTime = 15 * time.Second
	// maxBundleMasters bounds the bundle: each master has about a dozen parts of at most webui.MaxDebugBytes.
	maxBundleMasters = 32
	// maxMasterBytes bounds what one master adds to the bundle.
	maxMasterBytes = 32 << 20
)

func (a *app) debugCommand() *cobra.Command {
	file := ""
	cmd := &cobra.Command{Use: "debug [--file FILE.tar.gz]", Short: "Collect everything that helps to find a fault, from all masters, in one file",
		Long: "Collect everything that helps to find a fault, from all masters, in one file: status, health, peers, events, metrics, configuration, the last log lines, sizes on disk, " +
			"goroutines and heap. It needs no leader; manifest.json in it says what could not be had and why.\n\n" +
			"Names and forms of secrets are replaced by " + redact.Mark + ", by the masters and again here; names of workers, applications, hosts and users stay. Descriptions of applications " +
			"and drivers are not in it. The file is readable by its owner only. Configuration, log and profiles need a token of the role operate.",
		Example: "  raftctl debug\n  raftctl debug -o case-1234.tar.gz",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// -o names the file as well, as in other tools; a format never ends so.
			if strings.HasSuffix(a.output, ".gz") || strings.HasSuffix(a.output, ".tgz") {
				if file != "" {
					return coded(exitUsage, "-o %s and --file %s name two files", a.output, file)
				}
				file, a.output = a.output, "table"
			}
			if cmd.Flags().Changed("file") && file == "" {
				return coded(exitUsage, "--file is given and empty")
			}
			if err := a.prepare(cmd); err != nil {
				return err
			}
			return a.debug(cmd.Context(), file)
		}}
	cmd.Flags().StringVar(&file, "file", "", "the file to write, which must not exist (default raftmaster-debug-TIME.tar.gz here)")
	return cmd
}

// debugManifest is manifest.json of the bundle.
type debugManifest struct {
	Format         int    `json:"format"`
	CreatedMillis  int64  `json:"created_millis"`
	RaftctlVersion string `json:"raftctl_version"`
	// Leader is the leader that confirmed itself, else null; Problem is as in "status".
	Leader  *webui.Leader `json:"leader"`
	Problem string        `json:"problem"`
	// StatesEqual: all masters that answered show the same digest at the same index; null when their indexes differ.
	StatesEqual *bool         `json:"states_equal"`
	Masters     []debugMaster `json:"masters"`
	// Redacted says what was done about secrets.
	Redacted string `json:"redacted"`
}

// debugMaster is what the bundle holds of one master.
type debugMaster struct {
	Endpoint     string `json:"endpoint"`
	Node         string `json:"node"`
	NodeID       string `json:"node_id"`
	Version      string `json:"version"`
	State        string `json:"state"`
	Role         string `json:"role"`
	Term         uint64 `json:"term"`
	AppliedIndex uint64 `json:"applied_index"`
	StateIndex   uint64 `json:"state_index"`
	StateDigest  string `json:"state_digest"`
	// ClockOffsetMillis is how far the master's clock is ahead of this machine's, give or take half of RoundTripMillis.
	ClockOffsetMillis int64 `json:"clock_offset_millis"`
	RoundTripMillis   int64 `json:"round_trip_millis"`
	// Error says why the master did not answer at all.
	Error   string         `json:"error"`
	Parts   []debugPart    `json:"parts"`
	Missing []debugMissing `json:"missing"`

	dir   string
	bytes int
}

type debugPart struct {
	Name  string `json:"name"`
	File  string `json:"file"`
	Bytes int    `json:"bytes"`
	// Truncated: the end is missing.
	Truncated bool `json:"truncated"`

	data []byte
}

type debugMissing struct {
	Name  string `json:"name"`
	Error string `json:"error"`

	next string // what to try
}

// debugResult is the JSON of "debug".
type debugResult struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	debugManifest
}

// debugCalls are the parts of the bundle with the calls that give them; the events are read page by page.
var debugCalls = []struct{ name, file, path string }{
	{"status", "status.json", "/v1/status"},
	{"health", "health.json", "/v1/health"},
	{"peers", "peers.json", "/v1/peers"},
	{"metrics", "metrics.txt", "/metrics"},
	{"log-level", "log-level.json", "/v1/log-level"},
	{"config", "config.json", "/v1/debug/config"},
	{"disk", "disk.json", "/v1/debug/disk"},
	{"process", "process.json", "/v1/debug/process"},
	{"raft", "raft.json", "/v1/debug/raft"},
	{"log", "log.txt", "/v1/debug/log"},
	{"goroutines", "goroutines.txt", "/v1/debug/goroutines"},
	{"heap", heapFile, "/v1/debug/heap"},
}

// heapFile is a profile for go tool pprof: binary, and without anything but addresses, sizes and names of functions.
const heapFile = "heap.pb.gz"

func (a *app) debug(ctx context.Context, file string) error {
	now := time.Now()
	if file == "" {
		file = "raftmaster-debug-" + now.UTC().Format("20060102T150405Z") + ".tar.gz"
	}
	if _, err := os.Lstat(file); err == nil {
		return coded(exitUsage, "%s exists already: name another file with --file", file)
	}
	s, problem := a.client.settledSurvey(ctx)
	if s.best() == nil {
		return nobodyError(s)
	}
	endpoints := withMembers(a.client.endpoints, s)
	if len(endpoints) > maxBundleMasters {
		a.note("only %d of %d endpoints are asked", maxBundleMasters, len(endpoints))
		endpoints = endpoints[:maxBundleMasters]
	}
	st := statusOf(s, problem)
	m := debugManifest{Format: debugFormat, CreatedMillis: now.UnixMilli(), RaftctlVersion: versionString(), Leader: st.Leader, Problem: problem,
		Redacted: "values with telling names, and what has the form of a secret, are " + redact.Mark, Masters: a.debugMasters(ctx, endpoints)}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.StatesEqual = statesEqual(m.Masters)
	size, err := writeBundle(file, now, m, a.secrets())
	if err != nil {
		return err
	}
	if err := a.print.value(debugResult{File: file, Bytes: size, debugManifest: m}, func(w io.Writer) { debugTable(w, file, size, m) }); err != nil {
		return err
	}
	return m.verdict()
}

// secrets hides the token that was given, and what the rules know.
func (a *app) secrets() *redact.Redactor { return redact.New(a.client.token) }

// debugMasters asks all masters at once, each for one part after the other.
func (a *app) debugMasters(ctx context.Context, endpoints []string) []debugMaster {
	out := make([]debugMaster, len(endpoints))
	var wg sync.WaitGroup
	for i, e := range endpoints {
		wg.Go(func() { out[i] = a.debugMaster(ctx, e) })
	}
	wg.Wait()
	taken := map[string]bool{}
	for i := range out {
		name := fileName(out[i].Node)
		if out[i].Node == "" {
			name = fileName(out[i].Endpoint)
		}
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", fileName(out[i].Node), n)
		}
		taken[name] = true
		out[i].dir = "masters/" + name
		for j := range out[i].Parts {
			out[i].Parts[j].File = out[i].dir + "/" + out[i].Parts[j].File
		}
	}
	return out
}

func (a *app) debugMaster(ctx context.Context, endpoint string) debugMaster {
	m := debugMaster{Endpoint: endpoint, Parts: []debugPart{}, Missing: []debugMissing{}}
	var st webui.Status
	sent := time.Now()
	if err := a.client.get(ctx, endpoint, "/v1/status", &st); err != nil {
		m.Error, _ = a.refusal(err)
		return m
	}
	trip := time.Since(sent)
	m.Node, m.NodeID, m.Version, m.State, m.Role, m.Term = st.Address, st.NodeID, st.Version, st.State, st.Role, st.Term
	m.AppliedIndex, m.StateIndex, m.StateDigest = st.AppliedIndex, st.StateIndex, st.StateDigest
	m.RoundTripMillis, m.ClockOffsetMillis = trip.Milliseconds(), st.NowMillis-sent.Add(trip/2).UnixMilli()
	for _, call := range debugCalls {
		data, truncated, err := a.fetch(ctx, endpoint, call.path)
		m.add(a, debugPart{Name: call.name, File: call.file, Truncated: truncated, data: data}, err)
	}
	h := a.history(ctx, endpoint)
	data, err := json.MarshalIndent(h.events, "", "  ")
	m.add(a, debugPart{Name: "events", File: "events.json", data: data}, errors.Join(h.err, err))
	return m
}

// add takes a part up, without secrets, or says why it is missing.
func (m *debugMaster) add(a *app, p debugPart, err error) {
	if err == nil && m.bytes+len(p.data) > maxMasterBytes {
		err = fmt.Errorf("the bundle holds at most %d MiB of one master", maxMasterBytes>>20)
	}
	if err != nil {
		text, next := a.refusal(err)
		m.Missing = append(m.Missing, debugMissing{Name: p.Name, Error: text, next: next})
		return
	}
	if p.File != heapFile {
		p.data = []byte(a.secrets().Text(string(p.data)))
	}
	p.Bytes = len(p.data)
	m.bytes += p.Bytes
	m.Parts = append(m.Parts, p)
}

// fetch reads an answer as it is, the first webui.MaxDebugBytes of it.
func (a *app) fetch(ctx context.Context, endpoint, path string) (data []byte, truncated bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(a.timeout, debugPartTime))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+path, nil)
	if err != nil {
		return nil, false, err
	}
	resp, err := a.client.send(req)
	if err != nil {
		return nil, false, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, false, errors.Join(decode(resp, path, nil), resp.Body.Close())
	}
	data, err = io.ReadAll(io.LimitReader(resp.Body, webui.MaxDebugBytes+1))
	err = errors.Join(err, resp.Body.Close())
	truncated = resp.Header.Get(webui.DebugTruncated) != ""
	if len(data) > webui.MaxDebugBytes {
		data, truncated = data[:webui.MaxDebugBytes], true
	}
	return data, truncated, err
}

// refusal says in one line why a call failed, and what to try next where that is known.
func (a *app) refusal(err error) (text, next string) {
	var e *apiError
	if errors.As(err, &e) {
		if e.status == http.StatusNotFound && strings.HasPrefix(e.body.Message, "no such call") {
			return "this master does not know the call: it is of another release", ""
		}
		return e.body.Message, hint(e, a.client.token != "")
	}
	return shortError(err), ""
}

// statesEqual compares the digests of those that are at one index; nil when there is nothing to compare.
func statesEqual(masters []debugMaster) *bool {
	digests, indexes, answered := map[string]bool{}, map[uint64]bool{}, 0
	for _, m := range masters {
		if m.Error == "" {
			digests[m.StateDigest], indexes[m.StateIndex] = true, true
			answered++
		}
	}
	if answered < 2 || len(indexes) > 1 {
		return nil
	}
	same := len(digests) == 1
	return &same
}

// verdict is the exit code: 4 when anything is missing.
func (m *debugManifest) verdict() error {
	for _, x := range m.Masters {
		if x.Error != "" {
			return coded(exitUnhealthy, "%s did not answer, so that nothing of it is in the bundle: %s", x.Endpoint, clean(x.Error))
		}
	}
	for _, x := range m.Masters {
		if len(x.Missing) > 0 {
			p := x.Missing[0]
			return coded(exitUnhealthy, "not everything is in the bundle: %s of %s: %s%s", p.Name, x.Endpoint, clean(p.Error), p.next)
		}
	}
	return nil
}

func debugTable(w io.Writer, file string, size int64, m debugManifest) {
	row(w, "MASTER", "STATE", "TERM", "VERSION", "CLOCK", "PARTS", "MISSING", "ENDPOINT")
	for _, x := range m.Masters {
		if x.Error != "" {
			row(w, "?", "no answer", "-", "-", "-", 0, "everything: "+x.Error, x.Endpoint)
			continue
		}
		var missing []string
		for _, p := range x.Missing {
			missing = append(missing, p.Name)
		}
		row(w, x.Node, x.State, x.Term, x.Version, fmt.Sprintf("%+dms ±%d", x.ClockOffsetMillis, (x.RoundTripMillis+1)/2), len(x.Parts), strings.Join(missing, ", "), x.Endpoint)
	}
	at := file
	if abs, err := filepath.Abs(file); err == nil {
		at = abs
	}
	fmt.Fprintf(w, "\n%s, %d KiB\nnext: look through it before you give it away: names of hosts, users and applications are in it\n", clean(at), (size+1023)/1024)
}

// fileName makes an address a name of a directory.
func fileName(s string) string {
	if i := strings.Index(s, "://"); i >= 0 {
		s = s[i+len("://"):]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '-':
			return r
		}
		return '_'
	}, strings.TrimLeft(s, "."))
}
