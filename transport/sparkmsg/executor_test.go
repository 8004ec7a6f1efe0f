package sparkmsg

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"raftmaster/transport/javaser"
)

// executorCaptures are frames recorded between real executors and real drivers.
func executorCaptures(t testing.TB) []capture { return readCaptures(t, "executor-", 36) }

func findExecutor(t testing.TB, file string, fam Family) capture {
	return findIn(t, executorCaptures(t), file, fam)
}

// Byte for byte, in both directions, but for what cannot be written: thread dumps, heartbeats of running tasks, and the
// stack trace of a failure.
func TestExecutorMessagesComeOutAsTheyWere(t *testing.T) {
	readOnly := map[string]bool{"executor-to-driver-ThreadDump": true, "executor-to-driver-Heartbeat": true,
		"driver-to-executor-RpcFailure": true}
	same := 0
	for _, c := range executorCaptures(t) {
		name := c.family.String() + "/" + c.file
		d, err := Decode(c.stream)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := strings.Split(c.file, "-")[3]
		if strings.HasPrefix(want, "ReplyTo") {
			want = "Boolean"
		}
		got := strings.TrimPrefix(reflect.TypeOf(d.Msg).Elem().Name(), "Executor")
		if got = strings.ReplaceAll(got, "RegisteredBlockManager", "BlockManagerId"); got != want {
			t.Errorf("%s decoded as %s", name, got)
		}
		if !d.Families.Has(c.family) {
			t.Errorf("%s: families %s", name, d.Families)
		}
		if readOnly[c.file] {
			continue
		}
		again, err := Encode(d.Msg, c.family)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		real := c.stream
		if want == "SparkAppConfig" {
			real = unshareEmptyStrings(t, real)
		}
		if !bytes.Equal(again, real) {
			t.Errorf("%s: %d bytes, real %d, first difference at %d", name, len(again), len(real), firstDifference(again, real))
			continue
		}
		same++
	}
	if same < 28 {
		t.Errorf("only %d recordings came out byte for byte", same)
	}
}

// unshareEmptyStrings gives every empty property value of a recorded SparkAppConfig an instance of its own: in the JVM that
// was recorded it is the literal that the resource profile holds too, which depends on who set the property.
func unshareEmptyStrings(t testing.TB, stream []byte) []byte {
	t.Helper()
	root, _, err := decodeGraph(stream)
	if err != nil {
		t.Fatal(err)
	}
	items, reason := readSeq(field(root.(*javaser.Object), "sparkProperties").Ref)
	if reason != "" {
		t.Fatal(reason)
	}
	for _, n := range items {
		if stringOf(field(n.(*javaser.Object), "_2").Ref) == "" {
			n.(*javaser.Object).Set("_2", javaser.Str(""))
		}
	}
	out, err := javaser.Encode(root, limits)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestExecutorMessagesAreReadRight(t *testing.T) {
	for _, fam := range []Family{FamilyB, FamilyE} {
		decode := func(file string) Message {
			d, err := Decode(findExecutor(t, file, fam).stream)
			if err != nil {
				t.Fatalf("%s/%s: %v", fam, file, err)
			}
			return d.Msg
		}
		r := decode("executor-to-driver-RegisterExecutor").(*RegisterExecutor)
		if r.ExecutorID != "0" || r.Executor != (EndpointRef{Name: "Executor"}) || r.Hostname != "127.0.0.1" || r.Cores != 1 ||
			len(r.LogURLs) != 2 || r.LogURLs[0].Key != "stdout" || !strings.Contains(r.LogURLs[1].Value, "logType=stderr") ||
			r.Attributes != nil || r.Resources != nil {
			t.Errorf("%s: %+v", fam, r)
		}
		b := decode("executor-to-driver-RegisterBlockManager").(*RegisterBlockManager)
		if b.ID.ExecutorID != "0" || b.ID.Host != "127.0.0.1" || b.ID.Port == 0 || b.ID.Topology != nil || len(b.LocalDirs) != 1 ||
			b.MaxOnHeapMemSize != 133378867 || b.Sender != (EndpointRef{Name: "BlockManagerEndpoint1"}) || b.IsReRegister {
			t.Errorf("%s: %+v", fam, b)
		}
		h := decode("executor-to-driver-Heartbeat").(*ExecutorHeartbeat)
		if h.ExecutorID != "0" || h.BlockManager.Port != b.ID.Port || h.Updates != 5 || h.AccumUpdates != 0 {
			t.Errorf("%s: %+v", fam, h)
		}
		if h := decode("executor-to-driver-Heartbeat-2").(*ExecutorHeartbeat); h.Updates != 0 {
			t.Errorf("%s: %+v", fam, h)
		}
		x := decode("executor-to-driver-RemoveExecutor").(*RemoveExecutor)
		if x.Reason != "Finished decommissioning" || x.ReasonClass != "org.apache.spark.scheduler.ExecutorLossReason" {
			t.Errorf("%s: %+v", fam, x)
		}
		c := decode("driver-to-executor-SparkAppConfig").(*SparkAppConfig)
		if len(c.SparkProperties) != 20 || c.IOEncryptionKey != nil || c.LogLevel != nil || c.ResourceProfile.MemoryPerExecutorMB() != 512 {
			t.Errorf("%s: %+v", fam, c)
		}
		dump := decode("executor-to-driver-ThreadDump").(*ThreadDump)
		if len(dump.Threads) < 16 || dump.Threads[0].Name != "Common-Cleaner" || dump.Threads[0].State != "TIMED_WAITING" ||
			!strings.Contains(dump.Threads[0].Stack[0], "Object.wait") || dump.Threads[0].ThreadID != 10 {
			t.Errorf("%s: %d threads, %+v", fam, len(dump.Threads), dump.Threads[0])
		}
	}
	d, err := Decode(findExecutor(t, "driver-to-executor-RpcFailure", FamilyE).stream)
	if err != nil {
		t.Fatal(err)
	}
	if f := d.Msg.(*RpcFailure); f.Message != "Duplicate executor ID: 0" || f.Class != "java.lang.IllegalStateException" {
		t.Errorf("%+v", f)
	}
}

// executorSamples returns one of every message between executors and drivers that can be written.
func executorSamples(fam Family) []Message {
	id := BlockManagerID{ExecutorID: "12", Host: "h\u00fc", Port: 7, Topology: ptr("/rack")}
	config := &SparkAppConfig{
		SparkProperties: []Property{{"spark.driver.host", "h"}, {"spark.driver.port", "1"}},
		IOEncryptionKey: []byte{1, 2}, HadoopDelegationCreds: []byte{},
		ResourceProfile: ResourceProfile{ID: 4},
	}
	if fam >= FamilyC {
		config.LogLevel = ptr("WARN")
	}
	return []Message{
		&RetrieveSparkAppConfig{ResourceProfileID: 3}, config, &SparkAppConfig{},
		&RegisterExecutor{ExecutorID: "12", Executor: EndpointRef{Name: "Executor"}, Hostname: "h", Cores: 3,
			LogURLs:    []StringPair{{"stdout", "u"}},
			Attributes: []StringPair{{"A", "1"}, {"B", "2"}, {"C", "3"}, {"D", "4"}, {"E", "5"}}, Resources: manyResources(), ResourceProfileID: 1},
		&LaunchedExecutor{ExecutorID: "12"}, &StopExecutor{}, &DecommissionExecutor{}, &ExecutorDecommissioning{ExecutorID: "12"},
		&RemoveExecutor{ExecutorID: "12", Reason: "r", ReasonClass: "org.apache.spark.scheduler.ExecutorLossReason"},
		&RegisterBlockManager{ID: id, LocalDirs: []string{"/a", "/b"}, MaxOnHeapMemSize: 1 << 40, MaxOffHeapMemSize: 5,
			Sender: EndpointRef{Name: "BlockManagerEndpoint1"}, IsReRegister: true},
		&RegisteredBlockManager{ID: id}, &ExecutorHeartbeat{ExecutorID: "12", BlockManager: id},
		&HeartbeatResponse{ReregisterBlockManager: true}, &TriggerThreadDump{},
	}
}

func TestExecutorMessagesOfEveryFamilyCanBeReadBack(t *testing.T) {
	for fam := FamilyA; fam < familyEnd; fam++ {
		for _, msg := range executorSamples(fam) {
			stream, err := Encode(msg, fam)
			if err != nil {
				t.Errorf("%s: %v", fam, err)
				continue
			}
			d, err := Decode(stream)
			if err != nil {
				t.Errorf("%s %s: %v", fam, msg.MessageName(), err)
				continue
			}
			if !d.Families.Has(fam) {
				t.Errorf("%s %s: families %s", fam, msg.MessageName(), d.Families)
			}
			if got := dropExecutorGraphs(d.Msg); !reflect.DeepEqual(got, msg) {
				t.Errorf("%s: %+v became %+v", fam, msg, got)
			}
		}
	}
}

func dropExecutorGraphs(msg Message) Message {
	switch m := msg.(type) {
	case *RegisterBlockManager:
		m.ID.Graph = nil
	case *RegisteredBlockManager:
		m.ID.Graph = nil
	case *ExecutorHeartbeat:
		m.BlockManager.Graph = nil
	case *SparkAppConfig:
		m.ResourceProfile.Graph = nil
	}
	return msg
}

func TestWhatAFamilyDoesNotHaveIsRefused(t *testing.T) {
	for _, tt := range []struct {
		msg Message
		fam Family
	}{
		{&SparkAppConfig{LogLevel: ptr("WARN")}, FamilyB},
		{&ThreadDump{}, FamilyE},
		{&ExecutorHeartbeat{Updates: 1}, FamilyE},
		{&RegisteredBlockManager{ID: BlockManagerID{Host: strings.Repeat("x", 1<<16)}}, FamilyE},
		{&ForFamily{Message: &StopExecutor{}}, FamilyE},
	} {
		_, err := Encode(tt.msg, tt.fam)
		if u := (*UnsupportedError)(nil); !errors.As(err, &u) {
			t.Errorf("%T for %s: %v", tt.msg, tt.fam, err)
		}
	}
}

// An executor's messages do not tell 4.1 from 4.3, but the answer to RetrieveSparkAppConfig differs.
func TestForFamilyIsWrittenForThatFamily(t *testing.T) {
	msg := &SparkAppConfig{SparkProperties: []Property{{"k", "v"}}}
	if _, err := EncodeAny(msg, SetOf(FamilyD, FamilyE)); !errors.As(err, new(*AmbiguousFamilyError)) {
		t.Errorf("the profile became the same in D and E: %v", err)
	}
	got, err := EncodeAny(&ForFamily{Message: msg, Family: FamilyE}, SetOf(FamilyC, FamilyD, FamilyE))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := Encode(msg, FamilyE); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v", err)
	}
}

// Releases of 3.3 before 3.3.3 have no isReRegister.
func TestRegisterBlockManagerOfAnEarlyReleaseIsRead(t *testing.T) {
	full := registerBlockManagerClasses[0]
	early := javaser.NewClass(full.Name, 77, full.Flags, full.Fields[1:], nil)
	b := &builder{cat: loadCatalogues().of[FamilyA]}
	o := b.registerBlockManager(&RegisterBlockManager{Sender: EndpointRef{Name: "B"}, MaxOnHeapMemSize: 9}).(*javaser.Object)
	stream, err := javaser.Encode(&javaser.Object{Class: early, Fields: o.Fields[1:]}, limits)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(stream)
	if err != nil {
		t.Fatal(err)
	}
	if m := d.Msg.(*RegisterBlockManager); m.MaxOnHeapMemSize != 9 || m.IsReRegister || !d.Families.Has(FamilyA) {
		t.Errorf("%+v, families %s", m, d.Families)
	}
}

func TestBlockManagerIDWithWrongContentIsRefused(t *testing.T) {
	good, err := Encode(&RegisteredBlockManager{ID: BlockManagerID{ExecutorID: "1", Host: "h", Port: 5}}, FamilyB)
	if err != nil {
		t.Fatal(err)
	}
	class := loadCatalogues().of[FamilyB].classes[blockManagerIDClass]
	content := []byte{0, 1, '1', 0, 1, 'h', 0, 0, 0, 5, 0}
	if !bytes.Contains(good, content) {
		t.Fatal("the content has another form")
	}
	for what, items := range map[string][]javaser.Node{
		"nothing":      nil,
		"short":        {&javaser.Block{Data: content[:9]}},
		"long":         {&javaser.Block{Data: append(bytes.Clone(content), 0)}},
		"no topology":  {&javaser.Block{Data: append(bytes.Clone(content[:10]), 1)}},
		"bad text":     {&javaser.Block{Data: []byte{0, 1, 0xff, 0, 0, 0, 0, 0, 0, 0}}},
		"huge text":    {&javaser.Block{Data: []byte{0xff, 0xff}}},
		"an object":    {&javaser.String{Value: "x"}},
		"two halves":   {&javaser.Block{Data: content[:4]}, &javaser.Block{Data: content[4:]}},
		"all in order": {&javaser.Block{Data: content}},
	} {
		o := &javaser.Object{Class: class}
		if items != nil {
			o.Annotations = []javaser.Annotation{{Class: class, Items: items}}
		}
		stream, err := javaser.Encode(o, limits)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Decode(stream)
		if fine := what == "two halves" || what == "all in order"; fine != (err == nil) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A map of a class that nobody knows costs a driver the map, not the executor.
func TestMapsOfUnknownClassesReadAsEmpty(t *testing.T) {
	alien := javaser.New(javaser.NewClass("org.example.Map", 1, javaser.FlagSerializable, nil, nil))
	for fam := FamilyA; fam < familyEnd; fam++ {
		b := &builder{cat: loadCatalogues().of[fam]}
		o := b.registerExecutor(&RegisterExecutor{ExecutorID: "1", Executor: EndpointRef{Name: "Executor"}}).(*javaser.Object)
		o.Set("attributes", javaser.Ref(alien))
		o.Set("logUrls", javaser.Ref(nil))
		stream, err := javaser.Encode(o, limits)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Decode(stream); err != nil || d.Msg.(*RegisterExecutor).ExecutorID != "1" {
			t.Errorf("%s: %v", fam, err)
		}
	}
}

func FuzzExecutorMessage(f *testing.F) {
	for _, c := range executorCaptures(f) {
		f.Add(c.stream)
	}
	for _, msg := range executorSamples(FamilyD) {
		stream, err := Encode(msg, FamilyD)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		d, err := Decode(stream)
		if err != nil {
			return
		}
		fam := d.Families.Lowest()
		again, err := Encode(d.Msg, fam)
		if err != nil {
			return // such as a thread dump
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("%s of family %s cannot be decoded after encoding: %v", d.Msg.MessageName(), fam, err)
		}
	})
}
