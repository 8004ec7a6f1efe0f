package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

const (
	testApp    = "app-20260102030405-0000"
	testDone   = "app-20260102030405-0001"
	testWorker = "w1"
)

// busyMachine has something of everything.
func busyMachine(t testing.TB) *Machine {
	t.Helper()
	meta := Meta{NowMillis: 5, Stamp: "20260102030405"}
	one, limit := 1, 3
	worker := func(id, host string) RegisterWorker {
		return RegisterWorker{ID: id, Host: host, Port: 1, Address: Address{Host: host, Port: 1}, Cores: 4, MemoryMB: 1024,
			Resources: []Resource{{Name: "gpu", Addresses: []string{"0", "1", "2"}}}}
	}
	app := func(host string) RegisterApplication {
		return RegisterApplication{Meta: meta, Driver: Address{Host: host, Port: 1}, Payload: []byte("p"), InitialExecutorLimit: &limit,
			DefaultProfile: Profile{Cores: &one, MemoryMB: 64, Resources: []ResourceAmount{{Name: "gpu", Amount: 1}}}}
	}
	place := func(id, worker, address string) Placement {
		return Placement{AppID: id, WorkerID: worker, Cores: 1, MemoryMB: 64, Resources: []Resource{{Name: "gpu", Addresses: []string{address}}}}
	}
	m := NewMachine()
	for i, cmd := range []Command{
		worker(testWorker, "h1"), worker("w2", "h2"), worker("w3", "h3"), app("d1"), app("d2"),
		PlaceExecutors{Placements: []Placement{place(testApp, testWorker, "0"), place(testApp, testWorker, "1"),
			place(testApp, "w2", "0"), place(testDone, testWorker, "2")}},
		ExecutorChanged{AppID: testApp, ExecID: 1, WorkerID: testWorker, State: ExecutorRunning},
		DecommissionWorkers{IDs: []string{"w2"}},
		RemoveWorker{ID: "w3", Reason: "gone"},
		FinishApplication{AppID: testDone, State: AppFailed},
		KillExecutors{AppID: testApp, IDs: []int{7}},
	} {
		if r := m.Apply(uint64(i+1), 1, cmd); r.Err != nil {
			t.Fatalf("%s: %v", cmd.Type(), r.Err)
		}
	}
	if err := Check(m.View()); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCheckFindsWhatIsBroken breaks a good state in one way at a time.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	alterExecutor := func(id int, alter func(*Executor)) func(*tx) {
		return func(t *tx) {
			e := *t.executor(ExecutorKey{testApp, id})
			alter(&e)
			t.putExecutor(&e)
		}
	}
	alterWorker := func(alter func(*Worker)) func(*tx) { return func(t *tx) { alter(t.editWorker(testWorker)) } }
	alterApp := func(id string, alter func(*Application)) func(*tx) { return func(t *tx) { alter(t.editApp(id)) } }
	live, done := idKey(testApp), idKey(testDone)
	for name, c := range map[string]struct {
		breakIt func(*tx)
		want    string
	}{
		"cores used":           {alterWorker(func(w *Worker) { w.CoresUsed++ }), "sum up to"},
		"memory used":          {alterWorker(func(w *Worker) { w.MemoryUsedMB-- }), "sum up to"},
		"executor count":       {alterWorker(func(w *Worker) { w.ExecutorCount++ }), "sum up to"},
		"addresses used":       {alterWorker(func(w *Worker) { w.ResourcesUsed = nil }), "says that it uses"},
		"mark":                 {alterWorker(func(w *Worker) { w.Decommissioned = true }), "its mark says"},
		"worker state":         {alterWorker(func(w *Worker) { w.State = 9 }), "not live"},
		"dead worker":          {alterWorker(func(w *Worker) { w.State = WorkerDead }), "not live"},
		"worker gone":          {func(t *tx) { t.putWorker(testWorker, nil) }, "not live"},
		"same address":         {func(t *tx) { t.editWorker("w2").Address = t.worker(testWorker).Address }, "leads to"},
		"address index":        {func(t *tx) { t.tables.workerByAddress.del(addressKey(t.worker("w1").Address)) }, "leads to"},
		"host index":           {func(t *tx) { t.tables.workerByHost.del(hostKey("h1", "w1")) }, "by host"},
		"dead index":           {func(t *tx) { t.tables.deadByHostPort.del(pairKey("h3:1", "w3")) }, "DEAD"},
		"free index":           {func(t *tx) { t.tables.free.del(freeKey(t.worker("w1"))) }, "free workers"},
		"free index too much":  {func(t *tx) { t.tables.free.set([]byte("x"), t.worker("w2")) }, "free cores"},
		"index too much":       {func(t *tx) { t.tables.queue.set(numberKey(99), "x") }, "queue"},
		"executor state":       {alterExecutor(0, func(e *Executor) { e.State = ExecutorExited }), "is booked"},
		"executor decommed":    {alterExecutor(0, func(e *Executor) { e.State = ExecutorDecommissioned }), "DECOMMISSIONED on"},
		"executor launching":   {alterExecutor(2, func(e *Executor) { e.State = ExecutorLaunching }), "LAUNCHING on"},
		"executor profile":     {alterExecutor(0, func(e *Executor) { e.ProfileID = 4 }), "unknown profile"},
		"executor cores":       {alterExecutor(0, func(e *Executor) { e.Cores = 0 }), "0 cores"},
		"executor moved":       {alterExecutor(0, func(e *Executor) { e.WorkerID = "w2" }), "worker's index"},
		"address held twice":   {alterExecutor(0, func(e *Executor) { e.Resources[0].Addresses[0] = "1" }), "held twice"},
		"executor gone":        {func(t *tx) { t.deleteExecutor(t.executor(ExecutorKey{testApp, 0})) }, "sum up to"},
		"app finished":         {alterApp(testApp, func(a *Application) { a.State = AppFailed }), "no unfinished application"},
		"app gone":             {func(t *tx) { t.putApp(testApp, nil) }, "no unfinished application"},
		"granted":              {alterApp(testApp, func(a *Application) { a.CoresGranted++ }), "they sum up"},
		"app executor count":   {alterApp(testApp, func(a *Application) { a.ExecutorCount++ }), "they sum up"},
		"running count":        {alterApp(testApp, func(a *Application) { a.RunningCount++ }), "they sum up"},
		"decommissioned count": {alterApp(testApp, func(a *Application) { a.DecommissionedCount++ }), "they sum up"},
		"cores.max":            {alterApp(testApp, func(a *Application) { a.RequestedCores = 1 }), "cores of 1"},
		"app state":            {alterApp(testApp, func(a *Application) { a.State = AppWaiting }), "WAITING with"},
		"next executor":        {alterApp(testApp, func(a *Application) { a.NextExecutorID = 1 }), "its next is"},
		"profile count":        {alterApp(testApp, func(a *Application) { a.Profiles[0].Executors++ }), "of profile"},
		"no profile":           {alterApp(testApp, func(a *Application) { a.Profiles[0].Profile.ID = 5 }), "profile"},
		"profile order":        {alterApp(testApp, func(a *Application) { a.Profiles = append(a.Profiles, a.Profiles[0]) }), "comes after"},
		"payload":              {alterApp(testApp, func(a *Application) { a.Payload = []byte("other") }), "checksum"},
		"number":               {alterApp(testApp, func(a *Application) { a.Number = 77 }), "not given yet"},
		"same number":          {alterApp(testApp, func(a *Application) { a.Number = 1 }), "have the number"},
		"completion number":    {alterApp(testDone, func(a *Application) { a.CompletedSeq = 9 }), "impossible"},
		"completed executors":  {alterApp(testDone, func(a *Application) { a.ExecutorCount = 1 }), "but has executors"},
		"driver index":         {func(t *tx) { t.tables.appByDriver.del(addressKey(t.app(testApp).Driver)) }, "leads to"},
		"queue index":          {func(t *tx) { t.tables.queue.del(numberKey(0)) }, "in the queue"},
		"wanting index":        {func(t *tx) { t.tables.wanting.set(numberKey(5), testApp) }, "want executors"},
		"wanting less":         {func(t *tx) { t.tables.wanting.del(numberKey(0)) }, "wanting"},
		"completed index":      {func(t *tx) { t.tables.completed.del(numberKey(1)) }, "completed ones"},
		"ended app":            {func(t *tx) { t.putRemoved(&RemovedExecutor{AppID: "x"}) }, "has no application"},
		"ended number":         {func(t *tx) { t.putRemoved(&RemovedExecutor{AppID: testDone, Seq: 9, State: ExecutorLost}) }, "number 9"},
		"ended missing":        {func(t *tx) { t.deleteRemoved(testDone, 0) }, "remembers 0"},
		"both":                 {bothBookedAndEnded, "both booked and ended"},
		"totals":               {func(t *tx) { t.totals.Cores++ }, "totals"},
		"settings":             {func(t *tx) { t.editGlobals().Settings.RetainedExecutors = -1 }, "settings"},
	} {
		t.Run(name, func(t *testing.T) {
			base := busyMachine(t).current.Load()
			if _, ok := base.tables.apps.get(live); !ok {
				t.Fatal("the application is missing")
			}
			if _, ok := base.tables.apps.get(done); !ok {
				t.Fatal("the completed application is missing")
			}
			broken := newTx(base, newSummer(), base.index, base.term, Meta{})
			c.breakIt(broken)
			err := Check(View{s: committed(broken)})
			if !errors.Is(err, ErrInvariant) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check says %v, not %q", err, c.want)
			}
		})
	}
}

func bothBookedAndEnded(t *tx) {
	a := t.editApp(testApp)
	t.putRemoved(&RemovedExecutor{AppID: testApp, ID: 0, State: ExecutorLost, Seq: a.RemovedNext})
	a.RemovedNext++
}

// TestDigestSeesEveryField changes each field of each kind of entity: the entity's part of the digest must change.
func TestDigestSeesEveryField(t *testing.T) {
	sums := newSummer()
	for kind, entity := range map[recordKind]any{kindGlobals: &globals{}, kindWorker: &Worker{}, kindApplication: &Application{},
		kindExecutor: &Executor{}, kindRemoved: &RemovedExecutor{}, kindDriver: &Driver{}} {
		before := sums.sum(kind, entity)
		v := reflect.ValueOf(entity).Elem()
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() || field.Name == "Payload" { // PayloadSum stands for it
				continue
			}
			saved := reflect.New(field.Type).Elem()
			saved.Set(v.Field(i))
			disturb(t, v.Field(i))
			if sums.sum(kind, entity) == before {
				t.Errorf("%s.%s is not part of the digest", v.Type(), field.Name)
			}
			v.Field(i).Set(saved)
		}
	}
}

// TestZeroFieldsAreNotEncoded: else a new field would change the digest of old entities, and replicas of two releases
// would take each other for broken. (A struct that contains slices is never left out: such a field must be a pointer.)
func TestZeroFieldsAreNotEncoded(t *testing.T) {
	sums := newSummer()
	for _, entity := range []any{&globals{}, &Worker{}, &Application{}, &Executor{}, &RemovedExecutor{}, &Driver{}, &Resource{}, &ResourceAmount{},
		&Profile{}, &Settings{}, &LeaderRecord{}, &Address{}} {
		const emptyMap = 0x80
		if got := sums.encode(entity); !bytes.Equal(got, []byte{emptyMap}) {
			t.Errorf("%T is encoded as %x", entity, got)
		}
	}
	zero := 0
	for _, entity := range []any{&RemovedExecutor{ExitStatus: &zero}, &Application{MaxCores: &zero, InitialExecutors: &zero}} {
		again := reflect.New(reflect.TypeOf(entity).Elem()).Interface()
		if err := decodeMsgpack(bytes.Clone(sums.encode(entity)), again); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(entity, again) {
			t.Errorf("a pointer to zero is lost: %+v became %+v", entity, again)
		}
	}
}

func disturb(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		disturb(t, v.Field(0))
	default:
		t.Fatalf("no way to disturb a %s", v.Type())
	}
}

// FuzzRestoreRecords gives Restore records of any contents behind a correct checksum, where damage is not found early.
func FuzzRestoreRecords(f *testing.F) {
	var b bytes.Buffer
	if err := busyMachine(f).Snapshot().Write(&b); err != nil {
		f.Fatal(err)
	}
	var withDrivers bytes.Buffer
	if err := driverMachine(f).Snapshot().Write(&withDrivers); err != nil {
		f.Fatal(err)
	}
	headerBytes := len(snapshotMagic) + 3 + len(snapshotWriter) + 16
	header := bytes.Clone(b.Bytes()[:headerBytes])
	f.Add(b.Bytes()[headerBytes:b.Len()-5-trailerBytes], uint64(12))
	f.Add(withDrivers.Bytes()[headerBytes:withDrivers.Len()-5-trailerBytes], uint64(20))
	f.Fuzz(func(t *testing.T, records []byte, count uint64) {
		data := append(bytes.Clone(header), records...)
		data = binary.BigEndian.AppendUint32(append(data, byte(kindTrailer)), trailerBytes)
		data = binary.BigEndian.AppendUint64(data, count)
		data = append(data, make([]byte, sha256.Size)...)
		sum := sha256.Sum256(data)
		m, err := Restore(bytes.NewReader(append(data, sum[:]...)))
		if err == nil {
			t.Fatalf("a digest of zeroes was accepted: %+v", m.View().Totals())
		}
		if !errors.Is(err, ErrSnapshot) {
			t.Fatal(err)
		}
	})
}

// committed ends an edit.
func committed(t *tx) *state {
	s := t.finish()
	s.tables.commit()
	return s
}
