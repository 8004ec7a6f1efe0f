package sparkmsg

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"raftmaster/transport/javaser"
)

func ptr[T any](v T) *T { return &v }

func address(host string, port int32) *Address { return &Address{Host: host, Port: port} }

func manyResources() []ResourceInformation {
	var out []ResourceInformation
	for _, name := range []string{"gpu", "fpga", "nic", "tpu", "asic", "ssd"} {
		out = append(out, ResourceInformation{Name: name, Addresses: []string{"0", "1"}})
	}
	return out
}

func testCommand() Command {
	return Command{
		MainClass: "org.example.Main",
		Arguments: []string{"a", "b", ""},
		Environment: []EnvVar{
			{"A", "1"}, {"B", "2"}, {"C", "3"}, {"D", "4"}, {"E", "\u00fc\U0001F600\x00"},
		},
		JavaOpts: []string{"-Dx=y"},
	}
}

func testApplication(fam Family) *ApplicationDescription {
	d := &ApplicationDescription{
		Name: "app", User: "me", AppUIURL: "http://d:4040", MaxCores: ptr(int32(300)), InitialExecutorLimit: ptr(int32(0)),
		EventLogDir: ptr("file:/log"), EventLogCodec: ptr("zstd"), Command: testCommand(),
		DefaultProfile: ResourceProfile{
			ExecutorResources: []ExecutorResourceRequest{
				{ResourceName: "memory", Amount: 2048}, {ResourceName: "cores", Amount: 4}, {ResourceName: "gpu", Amount: 2},
			},
		},
	}
	if fam != FamilyA {
		d.DefaultProfile.ID = 3
		d.DefaultProfile.ExecutorResources[2].Vendor = "v"
		d.DefaultProfile.TaskResources = []TaskResourceRequest{{ResourceName: "cpus", Amount: 1.5}}
	}
	return d
}

// samples returns one of every message that peers of a family know, most with rare content.
func samples(fam Family) []Message {
	worker := EndpointRef{Name: "Worker", Address: address("w1", 4711)}
	master := EndpointRef{Name: "Master", Address: address("m", 7077)}
	desc := ExecutorDescription{AppID: "app-1", ExecID: 7, Cores: 2, State: ExecutorRunning}
	rpID, totals := int32(0), []ProfileTotal{{Total: 5}}
	if fam != FamilyA {
		rpID = 9
		desc.RPID, desc.MemoryMB = 1, 512
		totals = []ProfileTotal{
			{Profile: ResourceProfile{ID: 0, ExecutorResources: []ExecutorResourceRequest{{ResourceName: "cores", Amount: 1}}}, Total: 2},
			{Profile: ResourceProfile{ID: 1, TaskOnly: true}, Total: 1000},
		}
	}
	driver := &DriverDescription{
		JarURL: "file:/x.jar", Mem: 512, Cores: 1, Supervise: true, Command: testCommand(),
		ResourceReqs: []ResourceRequirement{{ResourceName: "gpu", Amount: 1, NumParts: 2}},
	}
	out := []Message{
		&CheckExistence{Name: "Master"}, &Boolean{Value: true}, &Boolean{}, &RpcFailure{Class: "java.lang.Exception", Message: "no"},
		&RegisterWorker{ID: "w", Host: "h", Port: 1, Worker: worker, Cores: 8, Memory: 1024, WorkerWebUIURL: "http://h:8081",
			MasterAddress: Address{Host: "m", Port: 7077}, Resources: manyResources()},
		&RegisteredWorker{Master: master, MasterWebUIURL: "u", MasterAddress: Address{Host: "m", Port: 7077}, Duplicate: true},
		&RegisterWorkerFailed{Message: "Duplicate worker ID"}, &MasterInStandby{}, &Heartbeat{WorkerID: "w", Worker: worker},
		&ReconnectWorker{MasterURL: "spark://m:7077"},
		&WorkerLatestState{ID: "w", Executors: []ExecutorDescription{desc, desc}, DriverIDs: []string{"d1", "d2"}},
		&WorkerLatestState{ID: "w"},
		&LaunchExecutor{MasterURL: "spark://m:7077", AppID: "app-1", ExecID: 3, RPID: rpID, AppDesc: testApplication(fam), Cores: 2,
			Memory: 100, Resources: manyResources()[:2]},
		&KillExecutor{MasterURL: "spark://m:7077", AppID: "app-1", ExecID: 3}, &ApplicationFinished{ID: "app-1"},
		&LaunchDriver{DriverID: "d", DriverDesc: driver}, &KillDriver{DriverID: "d"},
		&DriverStateChanged{DriverID: "d", State: DriverError, Exception: &Exception{Class: "java.lang.Exception", Message: "boom"}},
		&WorkerDecommissioning{ID: "w", WorkerRef: worker}, &DecommissionWorker{}, &MasterChanged{Master: master, MasterWebUIURL: "u"},
		&WorkerSchedulerStateResponse{ID: "w",
			ExecResponses:   []WorkerExecutorStateResponse{{Desc: desc, Resources: manyResources()[:3]}},
			DriverResponses: []WorkerDriverStateResponse{{DriverID: "d", Resources: manyResources()[:4]}}},
		&RegisterApplication{AppDescription: testApplication(fam), Driver: EndpointRef{Name: "AppClient", Address: address("::1", 5)}},
		&RegisteredApplication{AppID: "app-1", Master: master},
		&ExecutorAdded{ID: 1, WorkerID: "w", HostPort: "h:1", Cores: 2, Memory: 3},
		&ApplicationRemoved{Message: "FAILED"}, &WorkerRemoved{ID: "w", Host: "h", Message: "lost"},
		&UnregisterApplication{AppID: "app-1"}, &UnregisterApplication{}, &MasterChangeAcknowledged{AppID: "app-1"}, &MasterChangeAcknowledged{},
		&RequestExecutors{AppID: "app-1", ResourceProfileToTotalExecs: totals},
		&KillExecutors{AppID: "app-1", ExecutorIDs: []string{"1", "2", "3"}},
		&RequestSubmitDriver{DriverDescription: driver},
		&SubmitDriverResponse{Success: true, DriverID: ptr("d"), Message: "ok"}, &SubmitDriverResponse{Master: &master, Message: "no"},
		&RequestKillDriver{DriverID: "d"}, &KillDriverResponse{DriverID: "d", Message: "ok"}, &RequestDriverStatus{DriverID: "d"},
		&DriverStatusResponse{Found: true, State: ptr(DriverRelaunching), WorkerID: ptr("w"), WorkerHostPort: ptr("h:1")},
		&DriverStatusResponse{Exception: &Exception{Class: "java.lang.Exception", Message: "Current state is not alive: STANDBY."}},
	}
	for s := ExecutorLaunching; s < executorStates; s++ {
		out = append(out,
			&ExecutorStateChanged{AppID: "app-1", ExecID: 1, State: s, Message: ptr("m"), ExitStatus: ptr(int32(-1))},
			&ExecutorUpdated{ID: 1, State: s, ExitStatus: ptr(int32(1)), WorkerHost: ptr("h")})
	}
	for s := DriverSubmitted; s < driverStates; s++ {
		out = append(out, &DriverStateChanged{DriverID: "d", State: s})
	}
	if fam >= FamilyC {
		out = append(out, &RequestKillAllDrivers{}, &KillAllDriversResponse{Success: true, Message: "m"},
			&RequestClearCompletedDriversAndApps{}, &RequestReadyz{})
	}
	return out
}

// dropGraphs removes what only decoding adds, so that a message can be compared with the one it was made from.
func dropGraphs(msg Message) Message {
	app := func(d *ApplicationDescription) {
		if d != nil {
			d.Graph, d.DefaultProfile.Graph = nil, nil
		}
	}
	driver := func(d *DriverDescription) {
		if d != nil {
			d.Graph = nil
		}
	}
	exception := func(e *Exception) {
		if e != nil {
			e.Graph = nil
		}
	}
	switch m := msg.(type) {
	case *LaunchExecutor:
		app(m.AppDesc)
	case *RegisterApplication:
		app(m.AppDescription)
	case *LaunchDriver:
		driver(m.DriverDesc)
	case *RequestSubmitDriver:
		driver(m.DriverDescription)
	case *DriverStateChanged:
		exception(m.Exception)
	case *DriverStatusResponse:
		exception(m.Exception)
	case *RequestExecutors:
		for i := range m.ResourceProfileToTotalExecs {
			m.ResourceProfileToTotalExecs[i].Profile.Graph = nil
		}
	}
	return msg
}

func TestEveryMessageSurvivesEveryFamily(t *testing.T) {
	all := loadCatalogues()
	for fam := FamilyA; fam < familyEnd; fam++ {
		for _, msg := range samples(fam) {
			stream, err := Encode(msg, fam)
			if err != nil {
				t.Errorf("%s %s: %v", fam, msg.MessageName(), err)
				continue
			}
			d, err := Decode(stream)
			if err != nil {
				t.Errorf("%s %s: %v", fam, msg.MessageName(), err)
				continue
			}
			if got := dropGraphs(d.Msg); !reflect.DeepEqual(got, msg) {
				t.Errorf("%s %s:\n got %+v\nwant %+v", fam, msg.MessageName(), got, msg)
			}
			if !d.Families.Has(fam) {
				t.Errorf("%s %s: recognised as %s", fam, msg.MessageName(), d.Families)
			}
			g, err := javaser.Decode(stream, limits, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range g.Classes {
				known := all.of[fam].classes[c.Name]
				if known == nil && c.Name != uriClass.Name {
					t.Errorf("%s %s: %s is not in the catalogue", fam, msg.MessageName(), c.Name)
				} else if known != nil && !known.Equal(c) {
					t.Errorf("%s %s: descriptor of %s differs", fam, msg.MessageName(), c.Name)
				}
			}
		}
	}
}

func TestNewerAsksAreRefusedForSpark3(t *testing.T) {
	for _, msg := range []Message{&RequestReadyz{}, &RequestKillAllDrivers{}, &RequestClearCompletedDriversAndApps{}, &KillAllDriversResponse{}} {
		_, err := Encode(msg, FamilyB)
		if u := (*UnsupportedError)(nil); !errors.As(err, &u) || u.Family != FamilyB {
			t.Errorf("%s: %v", msg.MessageName(), err)
		}
	}
}

func TestEncodeRefusesIncompleteMessages(t *testing.T) {
	for _, msg := range []Message{
		&LaunchExecutor{}, &RegisterApplication{}, &LaunchDriver{}, &RequestSubmitDriver{},
		&ExecutorUpdated{State: executorStates}, &DriverStateChanged{State: driverStates},
		&LaunchDriver{DriverDesc: &DriverDescription{Command: Command{Unread: []string{"environment"}}}},
	} {
		for fam := FamilyA; fam < familyEnd; fam++ {
			if _, err := Encode(msg, fam); err == nil {
				t.Errorf("%s was encoded for %s", msg.MessageName(), fam)
			}
		}
	}
	if _, err := Encode(&MasterInStandby{}, FamilyUnknown); err == nil {
		t.Error("a message was encoded for no family")
	}
}

func TestBooleanNeedsNoFamily(t *testing.T) {
	want := find(t, "master-to-worker-ReplyToCheckExistence-Boolean", FamilyB).stream
	for fam := FamilyUnknown; fam < familyEnd; fam++ {
		if got, err := Encode(&Boolean{Value: true}, fam); err != nil || !bytes.Equal(got, want) {
			t.Errorf("family %s: %v", fam, err)
		}
	}
}

func TestEncodeAnyNeedsOneAnswer(t *testing.T) {
	fams := SetOf(FamilyC, FamilyD, FamilyE)
	if _, err := EncodeAny(&SubmitDriverResponse{Message: "m"}, fams); err != nil {
		t.Errorf("a reply without reference: %v", err)
	}
	ref := &EndpointRef{Name: "Master", Address: address("m", 1)}
	_, err := EncodeAny(&SubmitDriverResponse{Master: ref}, fams)
	if a := (*AmbiguousFamilyError)(nil); !errors.As(err, &a) || a.Families != fams {
		t.Errorf("a reply with reference: %v", err)
	}
	if _, err := EncodeAny(&MasterInStandby{}, 0); err == nil {
		t.Error("a message was encoded for no family")
	}
}

func TestReleasesMapToFamilies(t *testing.T) {
	for release, want := range map[string]Family{
		"3.1.3": FamilyUnknown, "3.2.4": FamilyA, "3.3.0": FamilyA, "3.4.1": FamilyB, "3.5.9": FamilyB, "4.0.0": FamilyC,
		"4.1.0-preview1": FamilyD, "4.2.0": FamilyD, "4.3.0": FamilyE, "4.4.0": FamilyUnknown, "4": FamilyUnknown, "": FamilyUnknown,
		"4.x": FamilyUnknown, "3.5": FamilyB,
	} {
		if got, ok := FamilyForRelease(release); got != want || ok != (want != FamilyUnknown) {
			t.Errorf("%q: %s %v, want %s", release, got, ok, want)
		}
	}
}

func TestFamilySets(t *testing.T) {
	s := SetOf(FamilyB, FamilyD, FamilyUnknown)
	if s.String() != "BD" || s.Has(FamilyA) || !s.Has(FamilyD) || s.IsEmpty() || s.Lowest() != FamilyB {
		t.Errorf("set %s", s)
	}
	if f, ok := s.Intersect(SetOf(FamilyD, FamilyE)).Single(); f != FamilyD || !ok {
		t.Errorf("intersection %s %v", f, ok)
	}
	if _, ok := s.Single(); ok || !FamilySet(0).IsEmpty() || FamilySet(0).String() != "none" || AllFamilies.String() != "ABCDE" {
		t.Error("sizes of sets")
	}
}
