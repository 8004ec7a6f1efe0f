package node

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
)

// makeFixture names a new fixture: go test ./cluster/node -run TestMakeFixture -make-fixture testdata/data-dirs/format-2
var makeFixture = flag.String("make-fixture", "", "write a data directory of this release to NAME.tar.gz, and what is in it to NAME.json; existing files are not touched")

// fixture is what is known of a data directory that is kept.
type fixture struct {
	// Release and Format (of identity.json) are those that wrote it; Level is the level of commands that it uses.
	Release       string
	Format, Level int
	LastIndex     uint64
	Digest        string
	Totals        fsm.Totals
	// Commands counts the entries of the log by command, those before the snapshot excepted that were dropped.
	Commands map[string]int
	Snapshot string // the beginning of what wrote it
}

const fixtureStamp = "20260102030405"

// fixtureRound gives commands of every kind that the first release had. Each round has its own workers, applications and
// drivers; what it leaves behind makes every kind of record.
func fixtureRound(round int, cluster string) []fsm.Command {
	n := 0
	meta := func() fsm.Meta {
		n++
		return fsm.Meta{NowMillis: 1_767_322_000_000 + int64(round*100_000+n*1000), Stamp: fixtureStamp, RequestID: fmt.Sprintf("fixture-%d-%d", round, n)}
	}
	worker := func(i int) string { return fmt.Sprintf("worker-%s-h%d-%d", fixtureStamp, round, i) }
	app := func(i int) string { return fmt.Sprintf("app-%s-%04d", fixtureStamp, round*3+i) }
	driver := func(i int) string { return fmt.Sprintf("driver-%s-%04d", fixtureStamp, round*4+i) }
	address := func(i int) fsm.Address { return fsm.Address{Host: fmt.Sprintf("h%d", round), Port: 7000 + i} }
	register := func(i int) fsm.Command {
		return fsm.RegisterWorker{Meta: meta(), ID: worker(i), Host: address(i).Host, Port: address(i).Port, Address: address(i), Cores: 8, MemoryMB: 8192,
			WebUIURL: "http://h:8081", Resources: []fsm.Resource{{Name: "gpu", Addresses: []string{"0", "1"}}}, Families: 1}
	}
	cores := 4
	start := func(i int) fsm.Command {
		return fsm.RegisterApplication{Meta: meta(), Name: fmt.Sprintf("app %d", i), User: "u", UIURL: "http://h:4040", Driver: fsm.Address{Host: "d", Port: 9000 + round*10 + i},
			MaxCores: &cores, DefaultCores: fsm.UnlimitedCores, DefaultProfile: fsm.Profile{MemoryMB: 1024}, Payload: []byte(strings.Repeat("payload ", 40)), Families: 1}
	}
	submit := func() fsm.Command {
		return fsm.SubmitDriver{Meta: meta(), Cores: 1, MemoryMB: 512, MainClass: "Main", JarURL: "file:/a.jar", Supervise: true, Payload: []byte(strings.Repeat("driver ", 40)), Families: 1}
	}
	place := func(i, worker1, many int) fsm.Command {
		c := fsm.PlaceExecutors{Meta: meta()}
		for range many {
			c.Placements = append(c.Placements, fsm.Placement{AppID: app(i), WorkerID: worker(worker1), Cores: 1, MemoryMB: 1024})
		}
		return c
	}
	status := 1
	return []fsm.Command{
		fsm.InitCluster{Meta: meta(), ClusterID: cluster},
		fsm.LeaderElected{Meta: meta(), NodeID: "n", Reason: "fixture", Settings: fsm.DefaultSettings()},
		register(1), register(2), register(3), register(4), start(0), start(1), start(2),
		fsm.ConfirmApplication{Meta: meta(), AppID: app(0)},
		fsm.SetTargets{Meta: meta(), AppID: app(0), Targets: []fsm.ProfileTarget{{Profile: fsm.Profile{MemoryMB: 1024}, Total: 3}}},
		place(0, 1, 3), place(1, 2, 1),
		fsm.LaunchReceipts{Meta: meta(), WorkerID: worker(1), Executors: []fsm.ExecutorKey{{AppID: app(0), ExecID: 0}}},
		fsm.ExecutorChanged{Meta: meta(), AppID: app(0), ExecID: 0, WorkerID: worker(1), State: fsm.ExecutorRunning},
		fsm.ExecutorChanged{Meta: meta(), AppID: app(0), ExecID: 1, WorkerID: worker(1), State: fsm.ExecutorExited, ExitStatus: &status},
		fsm.KillExecutors{Meta: meta(), AppID: app(0), IDs: []int{2}},
		fsm.SetRelease{Meta: meta(), WorkerID: worker(1), Release: "4.3.0", Families: 1},
		fsm.MarkIncompatible{Meta: meta(), AppID: app(1), ExecID: -1, WorkerID: worker(1), Reason: "no family"},
		fsm.UnmarkIncompatible{Meta: meta(), WorkerID: worker(1), AppID: app(1)},
		fsm.MarkIncompatible{Meta: meta(), AppID: app(1), ExecID: -1, WorkerID: worker(4), Reason: "no family"},
		fsm.ReconcileWorker{Meta: meta(), WorkerID: worker(1), Reported: []fsm.ReportedExecutor{{AppID: app(0), ExecID: 0, Cores: 1, MemoryMB: 1024, State: fsm.ExecutorRunning}}},
		submit(), fsm.KillAllDrivers{Meta: meta()},
		submit(), fsm.RequestKillDriver{Meta: meta(), DriverID: driver(1)},
		submit(), fsm.PlaceDrivers{Meta: meta(), Placements: []fsm.DriverPlacement{{DriverID: driver(2), WorkerID: worker(2)}}},
		fsm.ClearCompleted{Meta: meta()},
		fsm.DriverChanged{Meta: meta(), DriverID: driver(2), WorkerID: worker(2), State: fsm.DriverStateFinished},
		submit(),
		fsm.FinishApplication{Meta: meta(), AppID: app(2), State: fsm.AppFinished, Reason: "done"},
		fsm.DrainWorkers{Meta: meta(), IDs: []string{worker(3)}, On: true},
		fsm.DecommissionWorkers{Meta: meta(), IDs: []string{worker(4)}, Notify: true},
		fsm.RemoveWorker{Meta: meta(), ID: worker(3), Reason: "fixture"},
		register(5), fsm.RemoveWorker{Meta: meta(), ID: worker(5), Reason: "fixture"}, fsm.ReapWorkers{Meta: meta(), IDs: []string{worker(5)}},
		fsm.CheckDigest{Meta: meta()},
	}
}

// TestMakeFixture writes a fixture, when it is asked for. The files that are there already are what they are for ever.
func TestMakeFixture(t *testing.T) {
	if *makeFixture == "" {
		t.Skip("LEFT OUT without -make-fixture: this writes a fixture")
	}
	c := startAll(t, 1, func(cfg *Config) { smallSnapshots(cfg); cfg.TrailingLogs = 10 })
	m := c.leader()
	run := func(cmds []fsm.Command) {
		t.Helper()
		for _, cmd := range cmds {
			id := cmd.Header().RequestID
			m.node.Propose(cmd)
			eventually(t, id, func() bool { return m.has(id) || m.failure(id) != nil })
			if err := m.failure(id); err != nil {
				t.Fatalf("%T: %v", cmd, err)
			}
		}
	}
	run(fixtureRound(0, m.node.ClusterID()))
	run(newerFixtureCommands(t, m, 0))
	info, err := m.node.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run(fixtureRound(1, m.node.ClusterID()))
	run(newerFixtureCommands(t, m, 1))
	m.mu.Lock()
	for _, a := range m.applied {
		if a.Result.Err != nil {
			t.Errorf("%T was refused: %v", a.Cmd, a.Result.Err)
		}
	}
	m.mu.Unlock()
	time.Sleep(time.Second) // nothing is written any more: the copy is what a crash leaves behind
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(m.dir)); err != nil {
		t.Fatal(err)
	}
	v := m.node.View()
	f := describeFixture(t, m)
	f.LastIndex, f.Digest, f.Totals, f.Snapshot = v.Index(), v.Digest().String(), v.Totals(), fmt.Sprintf("index %d", info.Index)
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	writeNew(t, *makeFixture+".json", append(raw, '\n'))
	writeNew(t, *makeFixture+".tar.gz", pack(t, dir))
}

// writeNew never replaces a file.
func writeNew(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, dir string) []byte {
	t.Helper()
	var b strings.Builder
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}
