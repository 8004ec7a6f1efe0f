package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/server"
	"raftmaster/transport/webui"
)

// readBundle gives the files of a bundle by their names below its top directory.
func readBundle(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode != 0o600 || path.IsAbs(h.Name) || strings.Contains(h.Name, "..") {
			t.Errorf("%s has the mode %o", h.Name, h.Mode)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		out[name] = string(data)
	}
}

func manifestOf(t *testing.T, files map[string]string) debugManifest {
	t.Helper()
	var m debugManifest
	if err := json.Unmarshal([]byte(files["manifest.json"]), &m); err != nil {
		t.Fatalf("%v: %s", err, files["manifest.json"])
	}
	return m
}

// plant is in every secret of this test.
const plant = "PLANTED-SECRET-4711"

// mustHide looks for planted secrets in every file of a bundle, and inside those that are packed.
func mustHide(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if strings.HasSuffix(name, ".gz") {
			zip, err := gzip.NewReader(strings.NewReader(text))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			data, err := io.ReadAll(zip)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			text = string(data)
		}
		if i := strings.Index(text, plant); i >= 0 {
			t.Errorf("%s shows a secret: ...%s...", name, text[max(0, i-80):min(len(text), i+40)])
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
			t.Errorf("%s is no JSON any more", name)
		}
	}
}

// startWithSecrets brings up three masters whose settings, logs and token file (tokens) hold secrets.
func startWithSecrets(t *testing.T, tokens string) *realMasters {
	t.Helper()
	c := &realMasters{t: t}
	var list []config.Address
	for range 3 {
		list = append(list, c.place())
	}
	t.Cleanup(func() {
		for i := range c.up {
			c.kill(i)
		}
	})
	for i := range c.cfgs {
		cfg := &c.cfgs[i]
		cfg.Cluster, cfg.AdminTokenFile = list, tokens
		cfg.Properties = map[string]string{"spark.ssl.keyPassword": plant + "1", "spark.hadoop.fs.s3a.secret.key": plant + "2", "spark.jars": "https://u:" + plant + "3@h/a.jar",
			"spark.driver.extraJavaOptions": "-Da.token=" + plant + "4", "spark.master.rest.port": "6066"}
		log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "m", Level: hclog.Info, Output: io.Discard})
		s, err := server.Start(*cfg, log, "test")
		if err != nil {
			t.Fatal(err)
		}
		c.up[i] = s
		log.Warn("a line that must be in the log", "password", plant+"5", "url", "https://x:"+plant+"6@h/", "plain", "kept")
		log.Debug("a line below the level", "password", plant)
	}
	return c
}

// TestDebugOfRealMasters collects from three masters, and then from one that is left without a leader.
func TestDebugOfRealMasters(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test starts three masters")
	}
	t.Setenv("SPARK_LOCAL_PASSWORD", plant+"env")
	tokens := filepath.Join(t.TempDir(), "tokens")
	operate, read := plant+"-operate-token", plant+"-read-token"
	if err := os.WriteFile(tokens, []byte("oncall operate "+operate+"\nboard read "+read+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startWithSecrets(t, tokens)
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte(operate+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.eventually("a leader", func() error {
		if r := c.ctl("--token-file", secret, "leader"); r.code != exitOK {
			return errors.New(r.err)
		}
		return nil
	})
	file := filepath.Join(t.TempDir(), "whole.tar.gz")
	check(t, c.ctl("--token-file", secret, "debug", "-o", file), exitOK, file, "STANDBY", "look through it")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the bundle has the mode %v (%v)", info.Mode(), err)
	}
	files := readBundle(t, file)
	mustHide(t, files)
	m := manifestOf(t, files)
	if m.Format != debugFormat || m.Leader == nil || len(m.Masters) != 3 {
		t.Fatalf("%+v", m)
	}
	for _, x := range m.Masters {
		if len(x.Parts) != len(debugCalls)+1 || len(x.Missing) != 0 || x.ClockOffsetMillis > 60_000 || x.ClockOffsetMillis < -60_000 || x.StateDigest == "" {
			t.Errorf("%+v", x)
		}
		for _, p := range x.Parts {
			if files[p.File] == "" || len(files[p.File]) != p.Bytes || p.Truncated {
				t.Errorf("%s of %s: %+v", p.Name, x.Node, p)
			}
		}
		dir := "masters/" + fileName(x.Node) + "/"
		for name, want := range map[string]string{"config.json": `"spark.master.rest.port": "6066"`, "log.txt": "a line that must be in the log: password=REDACTED", "goroutines.txt": "goroutine ",
			"disk.json": "raft.db", "process.json": "gomaxprocs", "raft.json": "LastLogIndex", "metrics.txt": "raftmaster_term", "events.json": "first-election", "log-level.json": `"level": "info"`} {
			if name != "events.json" && !strings.Contains(files[dir+name], want) {
				t.Errorf("%s of %s lacks %q", name, x.Node, want)
			}
		}
		if strings.Contains(files[dir+"log.txt"], "below the level") || !strings.Contains(files[dir+"log.txt"], "plain=kept") {
			t.Errorf("the log of %s: %s", x.Node, files[dir+"log.txt"])
		}
	}
	c.debugInTrouble(t, read)
}

// debugInTrouble: two masters of three are gone, and the token may only read.
func (c *realMasters) debugInTrouble(t *testing.T, read string) {
	c.kill(0)
	c.kill(1)
	file := filepath.Join(t.TempDir(), "trouble.tar.gz")
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte(read+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.eventually("no leader", func() error {
		if r := c.ctl("--token-file", secret, "leader"); r.code != exitNoLeader {
			return errors.New("there is one: " + r.out + r.err)
		}
		return nil
	})
	r := c.ctl("--token-file", secret, "-o", "json", "debug", "--file", file)
	check(t, r, exitUnhealthy, "did not answer")
	one := filepath.Join(t.TempDir(), "one.tar.gz")
	check(t, ctl(t, nil, "--endpoints", c.up[2].URL(), "--token-file", secret, "debug", "--file", one), exitUnhealthy, "did not answer")
	var v debugResult
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || v.File != file || v.Bytes == 0 || v.Leader != nil {
		t.Errorf("%v: %s", err, r.out)
	}
	m := manifestOf(t, readBundle(t, file))
	if m.Masters[0].Error == "" || m.Masters[1].Error == "" || m.Masters[2].Error != "" || len(m.Masters[2].Missing) != 7 || len(m.Masters[2].Parts) != 6 {
		t.Fatalf("%+v", m)
	}
	for _, x := range m.Masters[2].Missing {
		if !strings.Contains(x.Error, "role operate") {
			t.Errorf("%+v", x)
		}
	}
	mustHide(t, readBundle(t, file))
}

// What masters say in their answers is gone over as well, and a part that fails is named.
func TestDebugOfAnswers(t *testing.T) {
	ms := newCluster(t)
	ms[0].status.Alarms = []string{"certificate: password=" + plant}
	ms[0].events = []webui.Event{{Seq: 1, Kind: "app", Message: `registered: --conf spark.x.secret=` + plant, Reason: "https://u:" + plant + "@h"}}
	ms[0].debug = []webui.DebugPart{
		{Name: "log", ContentType: "text/plain", Write: func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, "Authorization: Bearer "+plant+"\n"+strings.Repeat("x", webui.MaxDebugBytes))
			return err
		}},
		{Name: "raft", ContentType: "application/json", Write: func(context.Context, io.Writer) error { return errors.New("no such figures") }},
	}
	for _, m := range ms[:1] {
		m.close()
		m.serve(t)
	}
	file := filepath.Join(t.TempDir(), "b.tgz")
	r := ctl(t, map[string]string{"RAFTCTL_TOKEN": plant + "-mine"}, "--endpoints", ms[0].url, "debug", "-o", file)
	check(t, r, exitUnhealthy, "not everything is in the bundle")
	files := readBundle(t, file)
	mustHide(t, files)
	x := manifestOf(t, files).Masters[0]
	missing := map[string]string{}
	for _, p := range x.Missing {
		missing[p.Name] = p.Error
	}
	if !strings.Contains(missing["raft"], "no such figures") || !strings.Contains(missing["log-level"], "another release") || missing["log"] != "" {
		t.Errorf("%v", missing)
	}
	for _, p := range x.Parts {
		if p.Name == "log" && (!p.Truncated || p.Bytes < webui.MaxDebugBytes-1000) {
			t.Errorf("%+v", p)
		}
	}
	if !strings.Contains(files["masters/a_7077/status.json"], "certificate: password=REDACTED") {
		t.Errorf("status: %s", files["masters/a_7077/status.json"])
	}
	// A file that exists is never replaced, and without an answer there is none.
	check(t, ctl(t, nil, "--endpoints", ms[0].url, "debug", "--file", file), exitUsage, "exists already")
	none := filepath.Join(t.TempDir(), "none.tar.gz")
	check(t, ctl(t, nil, "--endpoints", deadEndpoint(t), "debug", "--file", none), exitError, "none of the masters answered")
	check(t, ctl(t, nil, "--endpoints", ms[0].url, "debug", "--file", filepath.Join(t.TempDir(), "no", "dir")), exitError, "cannot be written")
	check(t, ctl(t, nil, "--endpoints", ms[0].url, "debug", "-o", file, "--file", none), exitUsage, "two files")
	if _, err := os.Lstat(none); err == nil {
		t.Error("a bundle of nothing was written")
	}
}

// fakeLevels is a master's log level.
type fakeLevels struct {
	v   webui.LogLevel
	got []webui.LogLevelRequest
}

func (f *fakeLevels) LogLevel() webui.LogLevel { return f.v }
func (f *fakeLevels) SetLogLevel(_ context.Context, r webui.LogLevelRequest) (webui.LogLevel, error) {
	f.got = append(f.got, r)
	out := f.v
	out.Before, out.Level, out.DryRun = f.v.Level, r.Level, r.DryRun
	if r.ForMillis > 0 {
		out.Then, out.UntilMillis = f.v.Level, time.Now().UnixMilli()+r.ForMillis
	}
	if !r.DryRun {
		f.v = out
		f.v.Before = ""
	}
	return out, nil
}

func TestLogLevel(t *testing.T) {
	ms := newCluster(t)
	var levels []*fakeLevels
	for i, m := range ms {
		l := &fakeLevels{v: webui.LogLevel{Node: m.status.Address, Level: "info", Configured: "info"}}
		levels, m.levels = append(levels, l), l
		m.close()
		m.serve(t)
		for _, other := range ms {
			other.status.Quorum.Peers[i].WebURL = m.url
		}
	}
	one := ms[1].url // the others are found through it
	check(t, ctl(t, nil, "--endpoints", one, "log-level"), exitOK, "a:7077", "b:7077", "c:7077", "info")
	check(t, ctl(t, nil, "--endpoints", one, "log-level", "DEBUG", "--for", "10m", "--dry-run"), exitOK, "nothing was changed")
	check(t, ctl(t, nil, "--endpoints", one, "log-level", "debug", "--for", "10m", "--node", "c:7077"), exitOK, "to info at")
	if len(levels[0].got) != 1 || len(levels[2].got) != 2 || levels[2].got[1] != (webui.LogLevelRequest{Level: "debug", ForMillis: 600_000}) {
		t.Errorf("%+v", levels)
	}
	r := ctl(t, nil, "--endpoints", one, "-o", "json", "log-level", "--node", "c")
	check(t, r, exitOK, `"then": "info"`, `"until_millis"`, `"endpoint"`, `"configured": "info"`)
	check(t, ctl(t, nil, "--endpoints", one, "log-level", "warn"), exitOK, "debug")
	if levels[0].v.Level != "warn" || levels[2].v.Level != "warn" {
		t.Errorf("not all: %+v", levels)
	}
	check(t, ctl(t, nil, "--endpoints", one+","+deadEndpoint(t), "log-level", "info"), exitUnhealthy, "1 of 4 masters did not do it", "refused")
	for _, args := range [][]string{{"loud"}, {"info", "debug"}, {"--for", "1m"}, {"info", "--for", "10ms"}, {"info", "--for", "48h"}, {"info", "--node", "nobody"}} {
		check(t, ctl(t, nil, append([]string{"--endpoints", one, "log-level"}, args...)...), exitUsage)
	}
	ms[0].levels = nil
	ms[0].token = "another-token-1234"
	ms[0].close()
	ms[0].serve(t)
	check(t, ctl(t, nil, "--endpoints", ms[0].url, "log-level", "--node", "a"), exitUnhealthy, "another release")
}

func TestCompletion(t *testing.T) {
	ms := newCluster(t)
	ms[0].cluster = webui.Cluster{
		Workers: []webui.Worker{{ID: "worker-1", State: "ALIVE", Host: "h\t1"}, {ID: "worker-2", State: "DEAD"}, {ID: "other-3", State: "ALIVE"}},
		Apps:    []webui.App{{ID: "app-1", Active: true, Name: "Pi", State: "RUNNING"}, {ID: "app-2", State: "FINISHED"}},
		Drivers: []webui.Driver{{ID: "driver-1", Active: true, State: "RUNNING"}, {ID: "driver-2", State: "FINISHED"}},
	}
	for _, c := range []struct {
		args      string
		want, not []string
	}{
		{"drain w", []string{"worker-1\th"}, []string{"worker-2", "other-3", "h\t1"}},
		{"drain worker-1 ", nil, []string{"worker-1"}},
		{"undrain ", []string{"worker-1", "other-3"}, nil},
		{"kill app ", []string{"app-1\tPi RUNNING"}, []string{"app-2"}},
		{"kill driver ", []string{"driver-1"}, []string{"driver-2"}},
		{"driver-status ", []string{"driver-1", "driver-2"}, nil},
		{"why-waiting ", []string{"app-1", "driver-1"}, nil},
		{"executors --app ", []string{"app-1", "app-2"}, nil},
		{"transfer-leadership --to ", []string{"a:7077", "c:7077"}, nil},
		{"log-level --node ", []string{"all", "b:7077"}, nil},
		{"log-level ", []string{"trace", "error"}, nil},
		{"peers remove ", []string{"b:7077"}, nil},
		{"status -o ", []string{"table", "json"}, nil},
		{"stat", []string{"status"}, []string{"drain"}},
	} {
		args := append([]string{"__complete", "--endpoints", endpoints(ms)}, strings.Split(c.args, " ")...)
		r := ctl(t, nil, args...)
		check(t, r, exitOK, c.want...)
		for _, bad := range c.not {
			if strings.Contains(r.out, bad) {
				t.Errorf("%q offers %q:\n%s", c.args, bad, r.out)
			}
		}
	}
	// Nobody there, or nobody who answers: no names, no error.
	started := time.Now()
	check(t, ctl(t, nil, "__complete", "--endpoints", deadEndpoint(t)+","+muteEndpoint(t), "drain", ""), exitOK, ":4")
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("the shell had to wait for %v", took)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := ctl(t, nil, "completion", shell)
		check(t, r, exitOK, "raftctl")
		if !bytes.Contains([]byte(r.out), []byte("__complete")) {
			t.Errorf("no script for %s", shell)
		}
	}
	check(t, ctl(t, nil, "completion", "tcsh"), exitUsage, "unknown command")
	check(t, ctl(t, nil, "completion"), exitUsage, "name the shell")
}
