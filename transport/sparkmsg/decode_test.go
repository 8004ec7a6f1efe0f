package sparkmsg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"raftmaster/transport/frame"
	"raftmaster/transport/javaser"
)

func TestUnknownMessageIsNamed(t *testing.T) {
	c := javaser.NewClass("org.example.Alien", 1, javaser.FlagSerializable, nil, nil)
	for class, root := range map[string]javaser.Node{
		"org.example.Alien": javaser.New(c),
		"java.lang.String":  &javaser.String{Value: "secret"},
		"":                  nil,
	} {
		stream, err := javaser.Encode(root, limits)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Decode(stream)
		if u := (*UnknownClassError)(nil); !errors.As(err, &u) || u.Class != class {
			t.Errorf("%q: %v", class, err)
		}
	}
}

func TestDescriptorOfAnUnknownReleaseIsNamed(t *testing.T) {
	stream := append([]byte(nil), find(t, "worker-to-master-Heartbeat", FamilyB).stream...)
	const class = "org.apache.spark.rpc.RpcAddress"
	at := strings.Index(string(stream), class+string([]byte{0xec, 0x0a})) // the name and the start of its SUID
	if at < 0 {
		t.Fatal("no RpcAddress in the recording")
	}
	stream[at+len(class)] ^= 1
	_, err := Decode(stream)
	if i := (*IncompatibleClassError)(nil); !errors.As(err, &i) || i.Class != class {
		t.Errorf("%v", err)
	}
}

func TestDescriptorsOfTwoFamiliesInOneMessageAreRefused(t *testing.T) {
	b, e := loadCatalogues().of[FamilyB], loadCatalogues().of[FamilyE]
	m := javaser.New(b.classes[deployMessages+"Heartbeat"])
	ref := (&builder{cat: e}).endpointRef(EndpointRef{Name: "Worker"})
	m.Set("worker", javaser.Ref(ref))
	stream, err := javaser.Encode(m, limits)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Decode(stream)
	if i := (*IncompatibleClassError)(nil); !errors.As(err, &i) || i.Families.IsEmpty() {
		t.Errorf("%v", err)
	}
}

// Java 8 declares fewer fields in StackTraceElement than the JDK of the catalogues, under the same serialVersionUID.
func TestExceptionsOfAnOlderJDKPass(t *testing.T) {
	sig := &javaser.String{Value: "Ljava/lang/String;"}
	element := javaser.NewClass("java.lang.StackTraceElement", 0x6109c59a2636dd85, javaser.FlagSerializable, []javaser.Field{
		{Type: 'I', Name: "lineNumber"}, {Type: 'L', Name: "declaringClass", Signature: sig},
		{Type: 'L', Name: "fileName", Signature: sig}, {Type: 'L', Name: "methodName", Signature: sig}}, nil)
	b := &builder{cat: loadCatalogues().of[FamilyB]}
	e := b.exception(&Exception{Message: "old"}).(*javaser.Object)
	field(e, "stackTrace").Ref.(*javaser.Array).Refs = []javaser.Node{javaser.New(element)}
	stream, err := Encode(&DriverStateChanged{DriverID: "d", Exception: &Exception{Graph: e}}, FamilyB)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(stream)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Msg.(*DriverStateChanged).Exception; got.Message != "old" || got.Class != "java.lang.Exception" || got.Error() != "java.lang.Exception: old" {
		t.Errorf("%+v", got)
	}
}

// What a worker reports of a driver without its jar names the jar only outside of detailMessage.
func TestExceptionAboutAFileNamesIt(t *testing.T) {
	for _, fam := range []Family{FamilyB, FamilyE} {
		d, err := Decode(find(t, "worker-to-master-DriverStateChanged-3", fam).stream)
		if err != nil {
			t.Fatal(err)
		}
		got := d.Msg.(*DriverStateChanged).Exception
		if got == nil || got.Class != "java.nio.file.NoSuchFileException" || !strings.HasSuffix(got.Message, ".jar") {
			t.Errorf("%s: %+v", fam, got)
		}
	}
	sig := &javaser.String{Value: "Ljava/lang/String;"}
	parent := loadCatalogues().of[FamilyB].classes["java.lang.Exception"]
	class := javaser.NewClass("java.nio.file.FileSystemException", 1, javaser.FlagSerializable, []javaser.Field{
		{Type: 'L', Name: "file", Signature: sig}, {Type: 'L', Name: "other", Signature: sig}}, parent)
	for want, set := range map[string]map[string]string{
		"":            {},
		"why":         {"detailMessage": "why"},
		"a -> b: why": {"detailMessage": "why", "file": "a", "other": "b"},
		"a":           {"file": "a"},
		" -> b":       {"other": "b"},
	} {
		o := javaser.New(class)
		for k, v := range set {
			o.Set(k, javaser.Value{Ref: &javaser.String{Value: v}})
		}
		if got := (record{o: o, st: &readState{}}).throwable().Message; got != want {
			t.Errorf("%v give %q, want %q", set, got, want)
		}
	}
}

func TestDataAfterTheMessageIsAnError(t *testing.T) {
	stream := append([]byte(nil), find(t, "worker-to-master-Heartbeat", FamilyB).stream...)
	if _, err := Decode(append(stream, 0x70)); !errors.Is(err, javaser.ErrTrailing) {
		t.Errorf("%v", err)
	}
}

func TestDriverWithoutIDAcknowledgesWithNull(t *testing.T) {
	stream, err := Encode(&MasterChangeAcknowledged{}, FamilyB)
	if err != nil {
		t.Fatal(err)
	}
	if stream[len(stream)-1] != 0x70 {
		t.Error("an empty id is not null")
	}
}

func TestFailedAsksAreRecognised(t *testing.T) {
	for fam := FamilyA; fam < familyEnd; fam++ {
		stream, err := Encode(&RpcFailure{Message: "Could not find AppClient."}, fam)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Decode(stream)
		if err != nil {
			t.Fatal(err)
		}
		if want := (&RpcFailure{Class: "java.lang.Exception", Message: "Could not find AppClient."}); !reflect.DeepEqual(d.Msg, want) {
			t.Errorf("%s: %+v", fam, d.Msg)
		}
	}
}

func TestNullsWhereSparkHasNoneAreErrors(t *testing.T) {
	for name, cat := range map[string]*catalogue{"2.12": loadCatalogues().of[FamilyB], "2.13": loadCatalogues().of[FamilyE]} {
		for _, class := range []string{"Heartbeat", "RegisterWorker", "RegisteredWorker", "LaunchExecutor", "ExecutorStateChanged",
			"RequestExecutors", "WorkerLatestState", "WorkerSchedulerStateResponse", "RegisterApplication", "DriverStatusResponse"} {
			stream, err := javaser.Encode(javaser.New(cat.classes[deployMessages+class]), limits)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Decode(stream)
			if f := (*FieldError)(nil); !errors.As(err, &f) || f.Class != deployMessages+class {
				t.Errorf("%s %s: %v", name, class, err)
			}
		}
	}
}

// A stream of a few kilobytes can name one list of a thousand elements a thousand times.
func TestRepeatedReferencesDoNotMultiply(t *testing.T) {
	b := &builder{cat: loadCatalogues().of[FamilyE], message: "test"}
	many := make([]ResourceInformation, 1000)
	for i := range many {
		many[i].Name = "r" + strings.Repeat("x", i%7)
	}
	one := b.deploy("WorkerDriverStateResponse").str("driverId", "d").ref("resources", b.resources(many, nil)).node()
	list := make([]javaser.Node, 1000)
	for i := range list {
		list[i] = one
	}
	root := b.deploy("WorkerSchedulerStateResponse").ref("driverResponses", b.list(list)).ref("execResponses", b.list(nil)).str("id", "w").node()
	stream, err := javaser.Encode(root, limits)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Decode(stream)
	if f := (*FieldError)(nil); !errors.As(err, &f) {
		t.Errorf("%d bytes: %v", len(stream), err)
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// mutate returns a damaged copy of b.
func mutate(rng *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	for range 1 + rng.Intn(4) {
		at := rng.Intn(len(b))
		switch rng.Intn(5) {
		case 0:
			b[at] ^= 1 << rng.Intn(8)
		case 1:
			b[at] = byte(rng.Intn(256))
		case 2:
			b = b[:at+1]
		case 3: // a length or a handle of four bytes
			if at+4 <= len(b) {
				binary.BigEndian.PutUint32(b[at:], []uint32{0, 0x7fffffff, 0xffffffff, 0x7e0000, 0x7e0001, 1 << 20}[rng.Intn(6)])
			}
		case 4:
			b = append(b[:at:at], b[rng.Intn(len(b)):]...)
		}
		if len(b) == 0 {
			return []byte{0}
		}
	}
	return b
}

// decodeFrame takes the way of bytes from a connection to a message.
func decodeFrame(raw []byte) error {
	f, err := frame.NewReader(bytes.NewReader(raw)).Next()
	if err != nil {
		return err
	}
	content := f.Body
	if f.Type == frame.RPCRequest || f.Type == frame.OneWayMessage {
		req, err := frame.ParseRequest(f.Body)
		if err != nil {
			return err
		}
		content = req.Content
	}
	_, err = Decode(content)
	return err
}

func TestDamagedFramesNeitherPanicNorAllocateMuch(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	all := captures(t)
	loadCatalogues()
	refused := 0
	for i := range 10_000 {
		c := all[rng.Intn(len(all))]
		f := c.frame
		var raw []byte
		if i%2 == 0 { // damage anywhere
			raw = mutate(rng, frame.Append(nil, f))
		} else { // damage inside, with lengths that fit
			f.Body = mutate(rng, f.Body)
			raw = frame.Append(nil, f)
		}
		var err error
		used := allocated(func() { err = decodeFrame(raw) })
		if err != nil {
			refused++
		}
		if limit := uint64(64*len(raw) + 128<<10); used > limit {
			t.Fatalf("%s/%s: a damaged frame of %d bytes took %d", c.family, c.file, len(raw), used)
		}
	}
	if refused < 5_000 {
		t.Errorf("only %d of the damaged frames were refused", refused)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range captures(f) {
		f.Add(c.stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		d, err := Decode(stream)
		if err != nil {
			return
		}
		fam := d.Families.Lowest()
		again, err := Encode(d.Msg, fam)
		if err != nil {
			return // such as a Command that cannot be read and has no graph
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("%s of family %s cannot be decoded after encoding: %v", d.Msg.MessageName(), fam, err)
		}
	})
}

func BenchmarkDecodeHeartbeat(b *testing.B) {
	stream := find(b, "worker-to-master-Heartbeat", FamilyB).stream
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if _, err := Decode(stream); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRegisterApplication(b *testing.B) {
	stream := find(b, "driver-to-master-RegisterApplication", FamilyE).stream
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(stream); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeLaunchExecutor(b *testing.B) {
	d, err := Decode(find(b, "master-to-worker-LaunchExecutor", FamilyB).stream)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(d.Msg, FamilyB); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeExecutorUpdated(b *testing.B) {
	msg := &ExecutorUpdated{ID: 1, State: ExecutorRunning}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(msg, FamilyB); err != nil {
			b.Fatal(err)
		}
	}
}
