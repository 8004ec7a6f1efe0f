package fsm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func testDriver(n int) string { return fmt.Sprintf("driver-20260102030405-%04d", n) }

// driverMachine has drivers 0 and 1 running on w1, 2 waiting, 3 relaunched as 4, 5 killed.
func driverMachine(t testing.TB) *Machine {
	t.Helper()
	m := busyMachine(t)
	meta := Meta{NowMillis: 5, Stamp: "20260102030405"}
	worker := RegisterWorker{ID: "w4", Host: "h4", Port: 1, Address: Address{Host: "h4", Port: 1}, Cores: 4, MemoryMB: 1024,
		Resources: []Resource{{Name: "gpu", Addresses: []string{"0", "1", "2"}}}}
	submit := SubmitDriver{Meta: meta, Cores: 1, MemoryMB: 64, Payload: []byte("p"), ResourceReqs: []ResourceAmount{{Name: "gpu", Amount: 1}}}
	supervised, small := submit, submit
	supervised.Supervise, small.ResourceReqs = true, nil
	index := m.View().Index()
	for i, cmd := range []Command{submit, submit, submit, supervised, worker,
		PlaceDrivers{Placements: []DriverPlacement{{DriverID: testDriver(3), WorkerID: "w4"}}},
		RemoveWorker{ID: "w4", Reason: "gone"}, worker, small, RequestKillDriver{DriverID: testDriver(5)},
		PlaceDrivers{Placements: []DriverPlacement{{DriverID: testDriver(0), WorkerID: "w4"}, {DriverID: testDriver(1), WorkerID: "w4"}}},
	} {
		if r := m.Apply(index+uint64(i)+1, 1, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if err := Check(m.View()); err != nil {
		t.Fatal(err)
	}
	if n := m.View().Totals(); n.DriversRunning != 2 || n.DriversWaiting != 2 || n.DriversCompleted != 2 {
		t.Fatalf("the drivers are %+v", n)
	}
	return m
}

func TestCheckFindsWhatIsWrongWithDrivers(t *testing.T) {
	alter := func(n int, change func(*Driver)) func(*tx) {
		return func(t *tx) {
			d := *t.driver(testDriver(n))
			d.Resources = append([]Resource(nil), d.Resources...)
			change(&d)
			t.putDriver(&d)
		}
	}
	alterWorker := func(change func(*Worker)) func(*tx) { return func(t *tx) { change(t.editWorker("w4")) } }
	for name, c := range map[string]struct {
		breakIt func(*tx)
		want    string
	}{
		"driver count":       {alterWorker(func(w *Worker) { w.DriverCount++ }), "sum up to"},
		"cores used":         {alterWorker(func(w *Worker) { w.CoresUsed-- }), "sum up to"},
		"addresses used":     {alterWorker(func(w *Worker) { w.ResourcesUsed = nil }), "says that it uses"},
		"dead worker":        {alterWorker(func(w *Worker) { w.State = WorkerDead }), "not live"},
		"draining":           {alterWorker(func(w *Worker) { w.Draining = true }), ""},
		"cores":              {alter(0, func(d *Driver) { d.Cores = 2 }), "sum up to"},
		"negative cores":     {alter(0, func(d *Driver) { d.Cores = -1 }), "-1 cores"},
		"memory":             {alter(0, func(d *Driver) { d.MemoryMB = 2 }), "sum up to"},
		"held twice":         {alter(0, func(d *Driver) { d.Resources[0] = Resource{Name: "gpu", Addresses: []string{"1"}} }), "held twice"},
		"too few addresses":  {alter(0, func(d *Driver) { d.Resources = nil }), "has the resources"},
		"wrong resource":     {alter(0, func(d *Driver) { d.Resources[0].Name = "fpga" }), "has the resources"},
		"running and ended":  {alter(0, func(d *Driver) { d.CompletedSeq = 2 }), "completion number"},
		"moved":              {alter(0, func(d *Driver) { d.WorkerID = "w1" }), "held twice"},
		"nowhere":            {alter(0, func(d *Driver) { d.WorkerID = "w9" }), "not live"},
		"state":              {alter(0, func(d *Driver) { d.State = DriverStateUnknown }), "is UNKNOWN"},
		"same number":        {alter(0, func(d *Driver) { d.Number = 2 }), "have the number"},
		"number":             {alter(0, func(d *Driver) { d.Number = 77 }), "not given yet"},
		"payload":            {alter(0, func(d *Driver) { d.Payload = []byte("other") }), "checksum"},
		"waits on a worker":  {alter(2, func(d *Driver) { d.WorkerID = "w4" }), "waits, but"},
		"waits to be killed": {alter(2, func(d *Driver) { d.KillRequested = true }), "waits, but"},
		"waits, delivered":   {alter(2, func(d *Driver) { d.Delivered = true }), "waits, but"},
		"no successor":       {alter(3, func(d *Driver) { d.Successor = "" }), "RELAUNCHING with"},
		"wrong successor":    {alter(3, func(d *Driver) { d.Successor = testDriver(5) }), "is not one"},
		"unknown successor":  {alter(3, func(d *Driver) { d.Successor = "x" }), "is not one"},
		"needless successor": {alter(5, func(d *Driver) { d.Successor = testDriver(4) }), "KILLED with"},
		"no origin":          {alter(4, func(d *Driver) { d.Origin = "" }), "its origin"},
		"needless origin":    {alter(0, func(d *Driver) { d.Origin = testDriver(1) }), "its origin"},
		"completion number":  {alter(5, func(d *Driver) { d.CompletedSeq = 9 }), "impossible"},
		"ended with payload": {alter(5, func(d *Driver) { d.Payload, d.PayloadSum = []byte("p"), payloadSum([]byte("p")) }), "has its payload"},
		"queue index":        {func(t *tx) { t.tables.driverQueue.del(numberKey(2)) }, "in the queue"},
		"queue too much":     {func(t *tx) { t.tables.driverQueue.set(numberKey(99), "x") }, "queue of drivers"},
		"active index":       {func(t *tx) { t.tables.driverActive.del(numberKey(0)) }, "unfinished ones"},
		"active too much":    {func(t *tx) { t.tables.driverActive.set(numberKey(99), "x") }, "unfinished drivers"},
		"worker index":       {func(t *tx) { t.tables.driversByWorker.del(pairKey("w4", testDriver(0))) }, "worker's index"},
		"worker too much":    {func(t *tx) { t.tables.driversByWorker.set(pairKey("w4", "x"), "x") }, "drivers by worker"},
		"completed index":    {func(t *tx) { t.tables.driverCompleted.del(numberKey(1)) }, "completed ones"},
		"completed too much": {func(t *tx) { t.tables.driverCompleted.set(numberKey(99), "x") }, "completed drivers"},
		"totals":             {func(t *tx) { t.totals.DriversWaiting++ }, "totals"},
		"settings":           {func(t *tx) { t.editGlobals().Settings.RetainedDrivers = -1 }, "settings"},
	} {
		t.Run(name, func(t *testing.T) {
			base := driverMachine(t).current.Load()
			broken := newTx(base, newSummer(), base.index, base.term, Meta{})
			c.breakIt(broken)
			err := Check(View{s: committed(broken)})
			if c.want == "" {
				if err != nil {
					t.Errorf("Check finds %v, but nothing is wrong", err)
				}
				return
			}
			if !errors.Is(err, ErrInvariant) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check says %v, not %q", err, c.want)
			}
		})
	}
}

func TestCrashLoopDelays(t *testing.T) {
	want := []int64{0, 0, 0, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000}
	for failures, millis := range want {
		if got := crashLoopDelayMillis(failures); got != millis {
			t.Errorf("after %d failures: %d ms instead of %d", failures, got, millis)
		}
	}
	if got := crashLoopDelayMillis(1 << 30); got != maxLoopDelayMillis {
		t.Errorf("after very many failures: %d ms", got)
	}
}

func TestPatternsAreJavasB201(t *testing.T) {
	for pattern, want := range map[string]string{
		"app-%s-%04d": "app-20260102030405-0012", "%2$d_%1$s": "12_20260102030405", "a%2$s": "a12", "%d": "", "%s%s": "2026010203040512",
		"x%2$03d": "x012", "%%%s": "%20260102030405", "%2$1d": "12", "plain": "plain", "": "", "%": "", "%q": "", "%s-%5$s": "",
		"%s %d": "", "%s\t%d": "", "%1$04d": "", "%0$s": "", "%-5d": "", "%2$,d": "", "..": "", "%2$099d": "", "a/%s": "", "%s\xff": "",
		strings.Repeat("%s", 100): "",
	} {
		got, err := formatID(pattern, "20260102030405", 12)
		if got != want || (err != nil) != (want == "") || (err == nil) != (CheckIDPattern(pattern) == nil) {
			t.Errorf("%q gives %q, %v instead of %q", pattern, got, err, want)
		}
	}
}

func TestNamesAsIDsB202(t *testing.T) {
	for name, want := range map[string]string{
		"My App": "myapp", "Spark\t Pi\n": "sparkpi", "Zähler Ä": "zählerÄ", "": "", "  ": "", ".. ": "", ".": "", "a/b": "", `a\b`: "",
		"a?b": "", "a#b": "", "a%b": "", "a\x00b": "", "a\xff": "", strings.Repeat("x", 240): "", "...": "...",
	} {
		if got := nameAsID(name); got != want {
			t.Errorf("%q gives %q instead of %q", name, got, want)
		}
	}
}

func TestUniqueIDsG06(t *testing.T) {
	taken := map[string]bool{"a": true, "a-7": true, "a-7-2": true}
	known := func(id string) bool { return taken[id] }
	if id, err := uniqueID("b", 7, known); id != "b" || err != nil {
		t.Errorf("a free id became %q, %v", id, err)
	}
	if id, err := uniqueID("a", 8, known); id != "a-8" || err != nil {
		t.Errorf("a taken id became %q, %v", id, err)
	}
	if id, err := uniqueID("a", 7, known); id != "a-7-3" || err != nil {
		t.Errorf("an id that is taken with its number became %q, %v", id, err)
	}
	if id, err := uniqueID("a", 7, func(string) bool { return true }); err == nil {
		t.Errorf("an id was found where all are taken: %q", id)
	}
	if id, err := uniqueID(strings.Repeat("x", MaxIDBytes), 7, func(id string) bool { return len(id) == MaxIDBytes }); err == nil {
		t.Errorf("an id became too long: %q", id)
	}
}

// TestWellRunExecutorsG44: what forgives is a run after RUNNING, on a decommissioned worker too.
func TestWellRunExecutorsG44(t *testing.T) {
	for name, c := range map[string]struct {
		executor Executor
		want     bool
	}{
		"launching":            {Executor{State: ExecutorLaunching}, false},
		"short":                {Executor{State: ExecutorRunning, RunningAtMillis: 70_001}, false},
		"long enough":          {Executor{State: ExecutorRunning, RunningAtMillis: 70_000}, true},
		"other clock":          {Executor{State: ExecutorRunning, RunningAtMillis: 200_000}, false},
		"decommissioned":       {Executor{State: ExecutorDecommissioned, RunningAtMillis: 1}, true},
		"decommissioned early": {Executor{State: ExecutorDecommissioned}, false},
	} {
		if got := ranWell(&c.executor, 100_000); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestRecordsOfDriversAreVerified: keys that come twice and payloads of nobody are no snapshot.
func TestRecordsOfDriversAreVerified(t *testing.T) {
	sums := newSummer()
	record := func(entity any) []byte { return append([]byte(nil), sums.encode(entity)...) }
	waiting := &Driver{ID: "d", PayloadSum: payloadSum([]byte("p"))}
	payload := &driverPayloadRecord{DriverID: "d", Payload: []byte("p")}
	for name, c := range map[string]struct {
		kinds   []recordKind
		records [][]byte
		want    string
	}{
		"good":              {[]recordKind{kindDriver, kindDriverPayload}, [][]byte{record(waiting), record(payload)}, ""},
		"driver twice":      {[]recordKind{kindDriver, kindDriver}, [][]byte{record(waiting), record(waiting)}, "twice"},
		"payload twice":     {[]recordKind{kindDriver, kindDriverPayload, kindDriverPayload}, [][]byte{record(waiting), record(payload), record(payload)}, "twice"},
		"payload alone":     {[]recordKind{kindDriverPayload}, [][]byte{record(payload)}, "without its driver"},
		"another payload":   {[]recordKind{kindDriver, kindDriverPayload}, [][]byte{record(waiting), record(&driverPayloadRecord{DriverID: "d", Payload: []byte("q")})}, "checksum"},
		"driver without id": {[]recordKind{kindDriver}, [][]byte{record(&Driver{Number: 1})}, "is empty"},
	} {
		empty := &state{globals: &globals{}, tables: newTables()}
		s := &snapshotReader{tx: newTx(empty, newSummer(), 1, 1, Meta{}), apps: map[string]*Application{}, drivers: map[string]*Driver{}}
		var err error
		for i, kind := range c.kinds {
			s.body = c.records[i]
			if err = s.add(kind); err != nil {
				break
			}
		}
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
