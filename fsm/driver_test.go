package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"raftmaster/fsm"
)

const testStamp = "20260102030405"

func driverNumbered(n int) string { return fmt.Sprintf("driver-%s-%04d", testStamp, n) }

// TestSuccessorIsTheSameDriverB138: what the driver is, its successor is too.
func TestSuccessorIsTheSameDriverB138(t *testing.T) {
	worker := benchWorker(1)
	worker.Resources = []fsm.Resource{{Name: "gpu", Addresses: []string{"0", "1"}}}
	submit := fsm.SubmitDriver{Meta: fsm.Meta{NowMillis: 1, Stamp: testStamp}, Cores: 2, MemoryMB: 64, Supervise: true,
		ResourceReqs: []fsm.ResourceAmount{{Name: "gpu", Amount: 1}}, MainClass: "Main", JarURL: "file:/a.jar", Families: 3,
		Release: "4.3.0", Client: "10.0.0.9:1", Payload: []byte("payload"), IDPattern: "driver-%s-%04d"}
	m := machineOf(t, []fsm.Command{worker, submit,
		fsm.PlaceDrivers{Meta: fsm.Meta{NowMillis: 2}, Placements: []fsm.DriverPlacement{{DriverID: driverNumbered(0), WorkerID: worker.ID}}},
		fsm.RemoveWorker{Meta: fsm.Meta{NowMillis: 1_000_000, Stamp: "20260102040506"}, ID: worker.ID, Reason: "gone"}})
	old, _ := m.View().Driver(driverNumbered(0))
	next, ok := m.View().Driver(old.Successor)
	if !ok {
		t.Fatalf("no successor: %+v", old)
	}
	want := &fsm.Driver{ID: "driver-20260102040506-0001", Number: 1, State: fsm.DriverStateSubmitted, SubmittedAtMillis: 1_000_000,
		SubmitStamp: "20260102040506", IDPattern: "driver-%s-%04d", Cores: 2, MemoryMB: 64, Supervise: true, ResourceReqs: submit.ResourceReqs,
		MainClass: "Main", JarURL: "file:/a.jar", Families: 3, Release: "4.3.0", Payload: []byte("payload"), Predecessor: old.ID, Origin: old.ID, Attempt: 1}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "PayloadSum" || p.String() == "sum" }, cmp.Ignore())
	if diff := cmp.Diff(want, next, ignore, cmp.Exporter(exportAll)); diff != "" {
		t.Errorf("the successor differs (-want +got):\n%s", diff)
	}
	if old.State != fsm.DriverStateRelaunching || old.Payload != nil || old.WorkerID != worker.ID || len(old.Resources) != 1 {
		t.Errorf("the predecessor is %+v", old)
	}
}

// TestDriverTextsAreBounded: a worker says what it likes about a driver's end.
func TestDriverTextsAreBounded(t *testing.T) {
	worker := benchWorker(1)
	m := machineOf(t, []fsm.Command{worker, fsm.SubmitDriver{Meta: fsm.Meta{Stamp: testStamp}},
		fsm.PlaceDrivers{Placements: []fsm.DriverPlacement{{DriverID: driverNumbered(0), WorkerID: worker.ID}}},
		fsm.DriverChanged{DriverID: driverNumbered(0), WorkerID: worker.ID, State: fsm.DriverStateError, Exception: strings.Repeat("é", fsm.MaxTextBytes)}})
	d, _ := m.View().Driver(driverNumbered(0))
	if d.State != fsm.DriverStateError || d.Exception != strings.Repeat("é", fsm.MaxTextBytes/2) {
		t.Errorf("%s with %d bytes", d.State, len(d.Exception))
	}
}

// TestFullPlanOfDriversFitsIntoACommand: short ids and long ones.
func TestFullPlanOfDriversFitsIntoACommand(t *testing.T) {
	for name, long := range map[string]bool{"number": false, "bytes": true} {
		t.Run(name, func(t *testing.T) {
			worker, pattern := benchWorker(1), ""
			if long {
				worker.ID, pattern = hostileName("w", 1), hostileName("d", 1)[:230]+"%2$d"
			}
			worker.Cores = 1 << 20
			m := machineOf(t, []fsm.Command{worker})
			for i := range uint64(fsm.MaxPlacements + 1) {
				if r := m.Apply(i+2, 1, fsm.SubmitDriver{Meta: fsm.Meta{Stamp: testStamp}, Cores: 1, IDPattern: pattern}); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			placed := 0
			for more := true; more; {
				plan := fsm.Plan(m.View(), fsm.PlanParams{})
				if more = plan.More; more && len(plan.Drivers) < 500 {
					t.Fatalf("a command was full with %d drivers", len(plan.Drivers))
				}
				if long && len(plan.Drivers) == fsm.MaxPlacements {
					t.Error("the sizes of ids were not counted")
				}
				entry, err := fsm.EncodeCommand(fsm.PlaceDrivers{Placements: plan.Drivers})
				if err != nil {
					t.Fatal(err)
				}
				cmd, err := fsm.DecodeCommand(entry)
				if err != nil {
					t.Fatal(err)
				}
				placed += len(m.Apply(m.View().Index()+1, 1, cmd).Value.(fsm.PlaceDriversResult).Placed)
			}
			if placed != fsm.MaxPlacements+1 {
				t.Errorf("%d drivers were placed", placed)
			}
		})
	}
	if r := fsm.NewMachine().Apply(1, 1, fsm.PlaceDrivers{Placements: make([]fsm.DriverPlacement, fsm.MaxPlacements+1)}); r.Err == nil {
		t.Error("a command above the limit was applied")
	}
}

// TestDriversFirstB171: an executor gets what drivers leave, addresses included.
func TestDriversFirstB171(t *testing.T) {
	worker := benchWorker(1)
	worker.Cores, worker.Resources = 3, []fsm.Resource{{Name: "gpu", Addresses: []string{"0", "1", "2"}}}
	app := benchApp(1, 3, nil)
	app.DefaultProfile.Resources = []fsm.ResourceAmount{{Name: "gpu", Amount: 1}}
	m := machineOf(t, []fsm.Command{worker, app, fsm.SubmitDriver{Meta: fsm.Meta{Stamp: testStamp}, Cores: 1,
		ResourceReqs: []fsm.ResourceAmount{{Name: "gpu", Amount: 2}}}})
	plan := fsm.Plan(m.View(), fsm.PlanParams{})
	if len(plan.Drivers) != 1 || len(plan.Placements) != 1 {
		t.Fatalf("planned %+v", plan)
	}
	launch := m.Apply(10, 1, fsm.PlaceDrivers{Placements: plan.Drivers}).Effects[0].(fsm.LaunchDriver)
	executors := m.Apply(11, 1, fsm.PlaceExecutors{Placements: plan.Placements}).Value.(fsm.PlaceResult)
	given := cmp.Diff([]fsm.Resource{{Name: "gpu", Addresses: []string{"0", "1"}}}, launch.Resources)
	if given != "" || len(executors.Placed) != 1 || plan.Placements[0].Resources[0].Addresses[0] != "2" {
		t.Errorf("the driver got %v, the executors %+v", launch.Resources, executors)
	}
}

// TestDriversGoWhereFewestAreG48: the fixed order that stands for Spark's shuffling (B-172), and the first by id when they
// are not to be spread out (B-174).
func TestDriversGoWhereFewestAreG48(t *testing.T) {
	big, small, full := benchWorker(1), benchWorker(2), benchWorker(3)
	big.Cores, small.Cores, full.Cores = 16, 4, 1
	submit := fsm.SubmitDriver{Meta: fsm.Meta{Stamp: testStamp}, Cores: 1}
	m := machineOf(t, []fsm.Command{big, small, full, submit, submit, submit, submit,
		fsm.PlaceDrivers{Placements: []fsm.DriverPlacement{{DriverID: driverNumbered(0), WorkerID: big.ID}}}})
	for spread, want := range map[bool]string{true: small.ID + " " + full.ID + " " + big.ID, false: big.ID + " " + big.ID + " " + big.ID} {
		var got []string
		for _, p := range fsm.Plan(m.View(), fsm.PlanParams{SpreadOutDrivers: spread}).Drivers {
			got = append(got, p.WorkerID)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("spread out is %t (-want +got):\n%s", spread, diff)
		}
	}
}
