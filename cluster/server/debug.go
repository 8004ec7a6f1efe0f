package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"raftmaster/cluster/config"
	"raftmaster/cluster/redact"
	"raftmaster/transport/webui"
)

// maxDebugFiles bounds the list of the files in the data directory.
const maxDebugFiles = 1000

const (
	textType   = "text/plain;charset=utf-8"
	jsonType   = "application/json;charset=utf-8"
	binaryType = "application/octet-stream"
)

// debugParts are what this master tells about itself to operators, without secrets.
func (s *Server) debugParts() []webui.DebugPart {
	secrets := redact.New(s.secretValues()...)
	hidden := func(write func(io.Writer) error) func(context.Context, io.Writer) error {
		return func(_ context.Context, w io.Writer) error {
			var b strings.Builder
			if err := write(&b); err != nil {
				return err
			}
			_, err := io.WriteString(w, secrets.Text(b.String()))
			return err
		}
	}
	asJSON := func(v func() (any, error)) func(context.Context, io.Writer) error {
		return hidden(func(w io.Writer) error {
			what, err := v()
			if err != nil {
				return err
			}
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			return enc.Encode(what)
		})
	}
	return []webui.DebugPart{
		{Name: "config", ContentType: jsonType, Write: asJSON(func() (any, error) { return s.effectiveConfig(secrets), nil })},
		{Name: "disk", ContentType: jsonType, Write: asJSON(func() (any, error) { return diskUse(s.cfg.DataDir) })},
		{Name: "goroutines", ContentType: textType, Write: func(_ context.Context, w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 2) }},
		{Name: "heap", ContentType: binaryType, Write: func(_ context.Context, w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 0) }},
		{Name: "log", ContentType: textType, Write: hidden(s.writeLog)},
		{Name: "process", ContentType: jsonType, Write: asJSON(func() (any, error) { return s.processFacts(), nil })},
		{Name: "raft", ContentType: jsonType, Write: asJSON(func() (any, error) { return s.node.Status(), nil })},
	}
}

// secretValues are the values of settings with telling names: they are hidden wherever they turn up.
func (s *Server) secretValues() []string {
	var out []string
	for name, value := range s.cfg.Properties {
		if redact.Secret(name) {
			out = append(out, value)
		}
	}
	for _, kv := range os.Environ() {
		if name, value, ok := strings.Cut(kv, "="); ok && redact.Secret(name) {
			out = append(out, value)
		}
	}
	return out
}

func (s *Server) writeLog(w io.Writer) error {
	text, kept := s.logRing.text()
	if !kept {
		return errors.New("this process keeps no lines of its log")
	}
	_, err := io.WriteString(w, text)
	return err
}

// debugConfig is the configuration in force. Keys and tokens are in files, of which only the paths are shown.
type debugConfig struct {
	Version       string                 `json:"version"`
	Cluster       string                 `json:"cluster"`
	Host          string                 `json:"host"`
	Port          int                    `json:"port"`
	AdvertiseHost string                 `json:"advertise_host"`
	PublicHost    string                 `json:"public_host"`
	WebUIHost     string                 `json:"webui_host"`
	WebUIPort     int                    `json:"webui_port"`
	WebURL        string                 `json:"web_url"`
	RESTEnabled   bool                   `json:"rest_enabled"`
	RESTHost      string                 `json:"rest_host"`
	RESTPort      int                    `json:"rest_port"`
	RESTURL       string                 `json:"rest_url"`
	DataDir       string                 `json:"data_dir"`
	FailoverMS    int64                  `json:"failover_timeout_millis"`
	LogLevel      webui.LogLevel         `json:"log_level"`
	LogJSON       bool                   `json:"log_json"`
	TokenFile     string                 `json:"token_file"`
	ClusterTLS    config.ClusterTLS      `json:"cluster_tls"`
	WebTLS        config.TLSFiles        `json:"web_tls"`
	RESTTLS       config.TLSFiles        `json:"rest_tls"`
	Drills        bool                   `json:"drills_enabled"`
	MessageBytes  int                    `json:"message_max_bytes"`
	Deploy        config.Deploy          `json:"deploy"`
	REST          config.REST            `json:"rest"`
	UI            config.UI              `json:"ui"`
	Properties    map[string]string      `json:"properties"`
	Warnings      []string               `json:"warnings"`
	Environment   []webui.EnvironmentRow `json:"environment"`
}

// debugVariables are the environment variables that a master reads, by prefix.
var debugVariables = []string{"SPARK_", "RAFTMASTER_", "GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "TZ", "STATE_DIRECTORY"}

func (s *Server) effectiveConfig(secrets *redact.Redactor) debugConfig {
	c := s.cfg
	out := debugConfig{
		Version: s.version, Cluster: c.ClusterURL(), Host: c.Host, Port: c.Port, AdvertiseHost: c.AdvertiseHost, PublicHost: c.PublicHost,
		WebUIHost: c.WebUIHost, WebUIPort: c.WebUIPort, WebURL: s.webURL, RESTEnabled: c.RESTEnabled, RESTHost: c.RESTHost, RESTPort: c.RESTPort,
		RESTURL: s.restURL, DataDir: c.DataDir, FailoverMS: c.FailoverTimeout.Milliseconds(), LogLevel: s.levels.LogLevel(), LogJSON: c.LogJSON,
		TokenFile: c.AdminTokenFile, ClusterTLS: c.ClusterTLS, WebTLS: c.WebTLS, RESTTLS: c.RESTTLS, Drills: c.EnableDrills,
		MessageBytes: c.MessageMaxBytes, Deploy: c.Deploy, REST: c.REST, UI: c.UI, Properties: make(map[string]string, len(c.Properties)),
		Warnings: append([]string{}, c.Warnings...), Environment: []webui.EnvironmentRow{},
	}
	// What the environment page hides is hidden here, too, and what the rules know beside that.
	for _, section := range s.environment()() {
		if section.Title == "Spark properties" {
			for _, row := range section.Rows {
				out.Properties[row.Name] = secrets.Value(row.Name, row.Value)
			}
		}
	}
	for _, row := range webui.VisibleVariables(os.Environ(), debugVariables) {
		out.Environment = append(out.Environment, webui.EnvironmentRow{Name: row.Name, Value: secrets.Value(row.Name, row.Value)})
	}
	slices.SortFunc(out.Environment, func(a, b webui.EnvironmentRow) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// debugFile is one file of the data directory.
type debugFile struct {
	Path           string `json:"path"`
	Bytes          int64  `json:"bytes"`
	ModifiedMillis int64  `json:"modified_millis"`
	Mode           string `json:"mode"`
}

type debugDisk struct {
	DataDir string      `json:"data_dir"`
	Bytes   int64       `json:"bytes"`
	Files   []debugFile `json:"files"`
	// More: there are more files than are listed.
	More bool `json:"more"`
	// Errors are files that could not be looked at, in words.
	Errors []string `json:"errors"`
}

// diskUse lists the files of the data directory with their sizes. Files that go away meanwhile are no error.
func diskUse(dir string) (debugDisk, error) {
	out := debugDisk{DataDir: dir, Files: []debugFile{}, Errors: []string{}}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			return nil
		}
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			if len(out.Errors) < maxDebugFiles {
				out.Errors = append(out.Errors, err.Error())
			}
			return nil
		}
		out.Bytes += info.Size()
		if len(out.Files) == maxDebugFiles {
			out.More = true
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		out.Files = append(out.Files, debugFile{Path: rel, Bytes: info.Size(), ModifiedMillis: info.ModTime().UnixMilli(), Mode: info.Mode().String()})
		return nil
	})
	return out, err
}

// processFacts is what this process and its machine are.
func (s *Server) processFacts() map[string]any {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	host, err := os.Hostname()
	if err != nil {
		host = "unknown: " + err.Error()
	}
	zone, offset := time.Now().Zone()
	out := map[string]any{
		"version": s.version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "hostname": host, "pid": os.Getpid(),
		"cpus": runtime.NumCPU(), "gomaxprocs": runtime.GOMAXPROCS(0), "goroutines": runtime.NumGoroutine(),
		"started_millis": s.started.UnixMilli(), "now_millis": time.Now().UnixMilli(), "time_zone": zone, "utc_offset_seconds": offset,
		"heap_alloc_bytes": m.HeapAlloc, "heap_sys_bytes": m.HeapSys, "sys_bytes": m.Sys, "gc_cycles": m.NumGC, "gc_pause_total_nanos": m.PauseTotalNs,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		settings := make(map[string]string)
		for _, b := range info.Settings {
			settings[b.Key] = b.Value
		}
		modules := make([]string, 0, len(info.Deps))
		for _, d := range info.Deps {
			modules = append(modules, d.Path+" "+d.Version)
		}
		maps.DeleteFunc(settings, func(k, _ string) bool { return !strings.HasPrefix(k, "vcs") && !strings.HasPrefix(k, "GO") })
		out["build"], out["modules"] = settings, modules
	}
	return out
}
