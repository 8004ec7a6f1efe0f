package node

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"raftmaster/fsm"
)

const fixtureDir = "testdata/data-dirs"

// newerFixtureCommands are those that came after the first release: round 0 leaves a restore half staged, round 1 does one.
func newerFixtureCommands(t *testing.T, m *member, round int) []fsm.Command {
	t.Helper()
	meta := func(id string) fsm.Meta {
		return fsm.Meta{NowMillis: 1_767_322_090_000 + int64(round)*100_000, Stamp: fixtureStamp, RequestID: id}
	}
	if round == 0 {
		return []fsm.Command{fsm.StageRestore{Meta: meta("stage-0"), RestoreID: "left", Data: []byte("RAFTMSTR")}}
	}
	var b bytes.Buffer
	if _, err := m.node.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	return []fsm.Command{
		fsm.StageRestore{Meta: meta("stage-1"), RestoreID: "done", Data: b.Bytes()},
		fsm.CommitRestore{Meta: meta("commit-1"), RestoreID: "done", Chunks: 1, SameCluster: true},
		fsm.StageRestore{Meta: meta("stage-2"), RestoreID: "left again", Data: []byte("RAFTMSTR")},
	}
}

// describeFixture tells what the log and the identity of a running master have.
func describeFixture(t *testing.T, m *member) fixture {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(m.dir, "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{Release: "unreleased", Level: int(m.node.View().Level()), Commands: countCommands(t, m.dir)}
	if err := json.Unmarshal(raw, &f); err != nil { // its format has the same name
		t.Fatal(err)
	}
	return f
}

// countCommands reads a copy of a data directory as raftctl log dump does.
func countCommands(t *testing.T, dir string) map[string]int {
	t.Helper()
	tmp := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(tmp, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	out := make(map[string]int)
	err := DumpLog(tmp, 0, 0, hclog.NewNullLogger(), func(e LogEntry) error {
		if e.Problem != "" {
			return errors.New(e.Problem)
		}
		if e.Command != "" {
			out[e.Command]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unpack gives a fresh copy of a fixture: the file itself is never written.
func unpack(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	dir, r := t.TempDir(), tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatalf("%q: %v", h.Name, err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A data directory of every release is kept and must load: offline, and by a master that goes on with it.
func TestDataDirectoriesOfEveryReleaseLoad(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(fixtureDir + "/*.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	formats := make(map[int]bool)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want fixture
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		formats[want.Format] = true
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			archive := strings.TrimSuffix(file, ".json") + ".tar.gz"
			loadOffline(t, archive, want)
			loadOnline(t, archive, want)
		})
	}
	if !formats[1] || !formats[2] {
		t.Errorf("formats of the fixtures: %v", formats)
	}
}

func loadOffline(t *testing.T, archive string, want fixture) {
	t.Helper()
	dir := unpack(t, archive)
	got := countCommands(t, dir)
	if !maps.Equal(got, want.Commands) {
		t.Errorf("commands of the log: %v, recorded are %v", got, want.Commands)
	}
	report, err := Recover(context.Background(), RecoverOptions{DataDir: dir, DryRun: true, Force: true, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	if report.Digest != want.Digest || report.LastIndex != want.LastIndex {
		t.Errorf("offline: digest %s at %d, recorded is %s at %d", report.Digest, report.LastIndex, want.Digest, want.LastIndex)
	}
}

func loadOnline(t *testing.T, archive string, want fixture) {
	t.Helper()
	c := newCluster(t, 1)
	m := c.members[0]
	m.dir = unpack(t, archive)
	m.release(fsm.Level(want.Level)) // whose level does not rise, which would be a change
	m.start()
	c.leader()
	v := m.node.View()
	if v.Digest().String() != want.Digest || v.Totals() != want.Totals || int(v.Level()) != want.Level {
		t.Errorf("a master that starts on it: digest %s, level %d, %+v; recorded are %+v", v.Digest(), v.Level(), v.Totals(), want)
	}
	m.stop()
	m.release(fsm.CommandLevel)
	m.start()
	c.propose()
	c.levelIs(fsm.CommandLevel)
}

// Every command that this release knows is in the log of a fixture, behind the snapshot.
func TestFixturesHaveEveryCommand(t *testing.T) {
	files, err := filepath.Glob(fixtureDir + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f fixture
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatal(err)
		}
		for name := range f.Commands {
			there[name] = true
		}
	}
	for n := range 256 {
		kind := fsm.CommandType(n)
		// RaiseLevel is where the level rises, before the snapshot, whose globals have the level.
		if name := kind.String(); !strings.Contains(name, "(") && !there[name] && kind != fsm.TypeRaiseLevel {
			t.Errorf("no fixture has %s: make one of this release (docs/TESTING.md)", name)
		}
	}
}
