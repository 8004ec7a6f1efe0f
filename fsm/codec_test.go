package fsm_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"raftmaster/fsm"
)

var update = flag.Bool("update", false, "rewrite the golden encodings in testdata/commands; released ones must never change")

func ref[T any](v T) *T { return &v }

// sampleCommands has one command of each type with every field set, so that each shows in its encoding.
func sampleCommands() []fsm.Command {
	meta := fsm.Meta{NowMillis: 1767322985123, Stamp: "20260102030405", RequestID: "request-1"}
	const app, worker = "app-20260102030405-0007", "worker-20260102030000-10.0.0.1-7078"
	const driver = "driver-20260102030405-0003"
	resources := []fsm.Resource{{Name: "gpu", Addresses: []string{"0", "1"}}}
	profile := fsm.Profile{ID: 3, Cores: ref(2), MemoryMB: 2048, Resources: []fsm.ResourceAmount{{Name: "gpu", Amount: 1}}}
	key := fsm.ExecutorKey{AppID: app, ExecID: 5}
	return []fsm.Command{
		fsm.RegisterWorker{Meta: meta, ID: worker, Host: "10.0.0.1", Port: 7078,
			Address: fsm.Address{Host: "10.0.0.1", Port: 7078}, Cores: 16, MemoryMB: 65536,
			WebUIURL: "http://10.0.0.1:8081", Resources: resources, Families: 0x0c, ReplaceHolder: "worker-old"},
		fsm.RemoveWorker{Meta: meta, ID: worker, Reason: "no heartbeat in 60 seconds"},
		fsm.ReapWorkers{Meta: meta, IDs: []string{worker, "worker-2"}},
		fsm.RegisterApplication{Meta: meta, Name: "SparkPi", User: "spark", UIURL: "http://driver:4040",
			Driver: fsm.Address{Host: "driver", Port: 40001}, MaxCores: ref(8), DefaultCores: 4, DefaultProfile: profile,
			InitialExecutorLimit: ref(2), Payload: []byte{0xac, 0xed, 0x00, 0x05}, Families: 1, KeepID: true,
			IDPattern: "app-%s-%06d", NumberModulo: 10000, NameAsID: true},
		fsm.FinishApplication{Meta: meta, AppID: app, State: fsm.AppKilled, Reason: "killed in the UI"},
		fsm.ConfirmApplication{Meta: meta, AppID: app},
		fsm.PlaceExecutors{Meta: meta, Placements: []fsm.Placement{{AppID: app, ProfileID: 3, WorkerID: worker, Cores: 2,
			MemoryMB: 2048, Resources: resources}}},
		fsm.ExecutorChanged{Meta: meta, AppID: app, ExecID: 5, WorkerID: worker, State: fsm.ExecutorExited,
			Message: ref("Command exited with code 137"), ExitStatus: ref(137)},
		fsm.SetTargets{Meta: meta, AppID: app, Targets: []fsm.ProfileTarget{{Profile: profile, Total: 12}}},
		fsm.KillExecutors{Meta: meta, AppID: app, IDs: []int{5, 300, 70000}},
		fsm.ReconcileWorker{Meta: meta, WorkerID: worker, Missing: []fsm.ExecutorKey{key},
			ReportedDrivers: []string{driver}, MissingDrivers: []string{driver}, RequeueAtMillis: 1767322986123, Unasked: true,
			Reported: []fsm.ReportedExecutor{{AppID: app, ExecID: 5, ProfileID: 3, Cores: 2, MemoryMB: 2048,
				State: fsm.ExecutorRunning, Resources: resources}}},
		fsm.DecommissionWorkers{Meta: meta, IDs: []string{worker}, Notify: true},
		fsm.LaunchReceipts{Meta: meta, WorkerID: worker, Executors: []fsm.ExecutorKey{key}, Drivers: []string{driver}},
		fsm.CheckDigest{Meta: meta},
		fsm.MarkIncompatible{Meta: meta, AppID: app, ExecID: 5, WorkerID: worker, Reason: "no RUNNING in 30 seconds"},
		fsm.SetRelease{Meta: meta, WorkerID: worker, AppID: app, DriverID: driver, Release: "4.3.0", Families: 0x10},
		fsm.LeaderElected{Meta: meta, NodeID: "node-1", Reason: "the leader's process died",
			Settings: fsm.Settings{MaxExecutorRetries: 10, RetainedApplications: 200, RetainedDrivers: 150,
				RetainedExecutors: 100, LeaderHistory: 64, DriverRelaunchDelayMillis: 60000}},
		fsm.InitCluster{Meta: meta, ClusterID: "cluster-1"},
		fsm.ClearCompleted{Meta: meta},
		fsm.SubmitDriver{Meta: meta, Cores: 2, MemoryMB: 2048, Supervise: true, ResourceReqs: profile.Resources,
			MainClass: "org.example.Main", JarURL: "file:/jars/example.jar", Families: 1, Release: "4.3.0", Client: "10.0.0.9:40123",
			Payload: []byte{0xac, 0xed, 0x00, 0x05}, IDPattern: "driver-%s-%06d"},
		fsm.RequestKillDriver{Meta: meta, DriverID: driver},
		fsm.KillAllDrivers{Meta: meta},
		fsm.DriverChanged{Meta: meta, DriverID: driver, WorkerID: worker, State: fsm.DriverStateError,
			Exception: "java.io.FileNotFoundException: example.jar"},
		fsm.PlaceDrivers{Meta: meta, Placements: []fsm.DriverPlacement{{DriverID: driver, WorkerID: worker}}},
		fsm.DrainWorkers{Meta: meta, IDs: []string{worker}, On: true, IdleOnly: true},
		fsm.UnmarkIncompatible{Meta: meta, WorkerID: worker, AppID: app},
		fsm.StageRestore{Meta: meta, RestoreID: "restore-1", Seq: 3, Data: []byte("RAFTMSTR")},
		fsm.CommitRestore{Meta: meta, RestoreID: "restore-1", Chunks: 4, SameCluster: true, OtherCluster: true},
		fsm.RaiseLevel{Meta: meta, Level: fsm.CommandLevel},
	}
}

// firstZero names a field of a sample that is not set, "" if all are.
func firstZero(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if zero := firstZero(v.Field(i), path+"."+v.Type().Field(i).Name); zero != "" {
				return zero
			}
		}
		return ""
	case reflect.Slice:
		if v.Len() == 0 {
			return path
		}
		// Resource.Addresses and the like: the first element stands for all, unless it is a rightful zero.
		if v.Type().Elem().Kind() == reflect.Struct {
			return firstZero(v.Index(0), path+"[0]")
		}
		return ""
	}
	if v.IsZero() {
		return path
	}
	return ""
}

// TestGoldenCommands pins the encoding of every command: a log written by one release is read by the next.
func TestGoldenCommands(t *testing.T) {
	seen := map[fsm.CommandType]bool{}
	for _, cmd := range sampleCommands() {
		name := cmd.Type().String()
		seen[cmd.Type()] = true
		t.Run(name, func(t *testing.T) {
			if zero := firstZero(reflect.ValueOf(cmd), name); zero != "" {
				t.Fatalf("the sample does not set %s", zero)
			}
			entry, err := fsm.EncodeCommand(cmd)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "commands", name+".hex")
			if *update {
				if err := os.WriteFile(file, []byte(hex.Dump(entry)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(golden), hex.Dump(entry)); diff != "" {
				t.Errorf("the encoding has changed; a change needs a new version:\n%s", diff)
			}
			decoded, err := fsm.DecodeCommand(entry)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(cmd, decoded); diff != "" {
				t.Errorf("decode(encode(x)) differs from x:\n%s", diff)
			}
		})
	}
	for n := range 256 {
		kind := fsm.CommandType(n)
		if known := !strings.Contains(kind.String(), "("); known && !seen[kind] {
			t.Errorf("no sample of %s", kind)
		}
	}
}

// TestFirstEncodings: fields that came later are left out while they are not used, so that what the first builds wrote is
// still read, and written alike.
func TestFirstEncodings(t *testing.T) {
	files, err := filepath.Glob("testdata/commands/first/*.hex")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cmd, err := fsm.DecodeCommand(fromHexDump(t, string(golden)))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		entry, err := fsm.EncodeCommand(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(golden), hex.Dump(entry)); diff != "" {
			t.Errorf("%s is written otherwise now:\n%s", file, diff)
		}
	}
}

func fromHexDump(t *testing.T, dump string) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(dump) {
		digits, _, _ := strings.Cut(strings.TrimSpace(line), "|")
		fields := strings.Fields(digits)
		if len(fields) == 0 {
			continue
		}
		b, err := hex.DecodeString(strings.Join(fields[1:], ""))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

func TestUnknownCommands(t *testing.T) {
	body := []byte{0x80}
	for _, c := range []struct {
		entry     []byte
		skippable bool
	}{
		{append([]byte{99, 1}, body...), false},   // unknown type
		{append([]byte{1, 2}, body...), false},    // unknown version of a known type
		{append([]byte{0x80, 1}, body...), true},  // skippable
		{append([]byte{0xff, 77}, body...), true}, // skippable
	} {
		cmd, err := fsm.DecodeCommand(c.entry)
		if c.skippable {
			want := fsm.Skipped{SkippedType: fsm.CommandType(c.entry[0]), SkippedVersion: c.entry[1]}
			if err != nil || cmd != fsm.Command(want) {
				t.Errorf("%x gave %+v, %v", c.entry, cmd, err)
			}
			m := fsm.NewMachine()
			before := m.View().Digest()
			if r := m.Apply(1, 1, cmd); r.Err != nil || m.View().Digest() != before || m.View().Index() != 1 {
				t.Errorf("%x was not skipped: %+v", c.entry, r)
			}
			continue
		}
		var unknown *fsm.UnknownCommandError
		if !errors.As(err, &unknown) || unknown.Type != fsm.CommandType(c.entry[0]) || unknown.Version != c.entry[1] {
			t.Errorf("%x gave %+v, %v", c.entry, cmd, err)
		}
		if !strings.Contains(err.Error(), "too old") {
			t.Errorf("the error does not say what to do: %v", err)
		}
	}
}

func TestMalformedCommands(t *testing.T) {
	good, err := fsm.EncodeCommand(fsm.ConfirmApplication{AppID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	deep := append([]byte{byte(fsm.TypeConfirmApplication), 1, 0x81, 0xa5, 'A', 'p', 'p', 'I', 'D'}, bytes.Repeat([]byte{0x91}, 100)...)
	for name, entry := range map[string][]byte{
		"empty":           {},
		"type alone":      {1},
		"no body":         {1, 1},
		"cut off":         good[:len(good)-1],
		"bytes after it":  append(bytes.Clone(good), 0),
		"another type":    append([]byte{byte(fsm.TypeReapWorkers), 1}, good[2:]...), // an unknown field
		"huge string":     {byte(fsm.TypeConfirmApplication), 1, 0x81, 0xa5, 'A', 'p', 'p', 'I', 'D', 0xdb, 0xff, 0xff, 0xff, 0xff},
		"huge list":       {byte(fsm.TypeReapWorkers), 1, 0x81, 0xa3, 'I', 'D', 's', 0xdd, 0x7f, 0xff, 0xff, 0xff},
		"deep":            deep,
		"too large":       append([]byte{1, 1}, make([]byte, fsm.MaxCommandBytes)...),
		"payload too big": append([]byte{4, 1}, make([]byte, fsm.MaxPayloadCommandBytes)...),
	} {
		if cmd, err := fsm.DecodeCommand(entry); !errors.Is(err, fsm.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, cmd, err)
		}
	}
}

func TestCommandLimits(t *testing.T) {
	fits := fsm.RegisterApplication{Meta: fsm.Meta{Stamp: "20260102030405"}, Driver: fsm.Address{Host: "d", Port: 1},
		Payload: make([]byte, fsm.MaxPayloadBytes)}
	entry, err := fsm.EncodeCommand(fits)
	if err != nil {
		t.Fatalf("the largest payload: %v", err)
	}
	cmd, err := fsm.DecodeCommand(entry)
	if err != nil {
		t.Fatal(err)
	}
	if r := fsm.NewMachine().Apply(1, 1, cmd); r.Err != nil {
		t.Errorf("the largest payload: %v", r.Err)
	}
	fits.Payload = make([]byte, fsm.MaxPayloadBytes+1)
	if r := fsm.NewMachine().Apply(1, 1, fits); !errors.Is(r.Err, fsm.ErrInvalidCommand) {
		t.Errorf("a larger payload: %v", r.Err)
	}
	fits.Payload = make([]byte, fsm.MaxPayloadCommandBytes)
	if _, err := fsm.EncodeCommand(fits); !errors.Is(err, fsm.ErrTooLarge) {
		t.Errorf("a payload above the command's limit: %v", err)
	}
	large := fsm.RemoveWorker{ID: "w", Reason: strings.Repeat("r", fsm.MaxCommandBytes)}
	if _, err := fsm.EncodeCommand(large); !errors.Is(err, fsm.ErrTooLarge) {
		t.Errorf("a large reason: %v", err)
	}
	if _, err := fsm.EncodeCommand(fsm.Skipped{SkippedType: 0x90}); !errors.Is(err, fsm.ErrInvalidCommand) {
		t.Errorf("a skipped command was encoded: %v", err)
	}
}

// TestFullPlanFitsIntoACommand: Plan's estimate of sizes is on the safe side.
func TestFullPlanFitsIntoACommand(t *testing.T) {
	m, index := fsm.NewMachine(), uint64(0)
	apply := func(cmd fsm.Command) {
		index++
		if r := m.Apply(index, 1, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	long := strings.Repeat("x", 200)
	for i := range 40 {
		host := long + string(rune('A'+i))
		cmd := fsm.RegisterWorker{ID: "worker-" + host, Host: host, Port: 7078, Address: fsm.Address{Host: host, Port: 7078},
			Cores: 100, MemoryMB: 1 << 20, Resources: []fsm.Resource{{Name: long}}}
		for j := range 100 {
			cmd.Resources[0].Addresses = append(cmd.Resources[0].Addresses, long+string(rune('A'+j/26))+string(rune('A'+j%26)))
		}
		apply(cmd)
	}
	for _, resources := range [][]fsm.ResourceAmount{{{Name: long, Amount: 1}}, nil} {
		app := benchApp(0, 1<<20, nil)
		app.DefaultProfile.Resources, app.DefaultProfile.MemoryMB = resources, 1
		apply(app)
		plan := fsm.Plan(m.View(), fsm.PlanParams{})
		if !plan.More || len(plan.Placements) < 500 {
			t.Fatalf("planned %d executors, more %t", len(plan.Placements), plan.More)
		}
		entry, err := fsm.EncodeCommand(fsm.PlaceExecutors{Placements: plan.Placements})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d placements, %d bytes", len(plan.Placements), len(entry))
		apply(fsm.FinishApplication{AppID: "app-20260102030405-0000", State: fsm.AppFinished})
	}
}

// FuzzDecodeCommand: nothing panics, and what can be decoded survives another round and can be applied.
func FuzzDecodeCommand(f *testing.F) {
	for _, cmd := range sampleCommands() {
		entry, err := fsm.EncodeCommand(cmd)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(entry)
	}
	f.Add([]byte{0x80, 1, 0x80})
	f.Fuzz(func(t *testing.T, entry []byte) {
		cmd, err := fsm.DecodeCommand(entry)
		if err != nil {
			return
		}
		m := fsm.NewMachine()
		m.Apply(1, 1, cmd)
		if err := fsm.Check(m.View()); err != nil {
			t.Fatal(err)
		}
		if _, skipped := cmd.(fsm.Skipped); skipped {
			return
		}
		again, err := fsm.EncodeCommand(cmd)
		if errors.Is(err, fsm.ErrTooLarge) {
			return // a shorter encoding of the same is possible only the other way round
		}
		if err != nil {
			t.Fatal(err)
		}
		second, err := fsm.DecodeCommand(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(cmd, second); diff != "" {
			t.Fatal(diff)
		}
	})
}
