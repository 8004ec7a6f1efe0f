package javaser_test

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"raftmaster/transport/javaser"
)

func stream(body ...string) []byte { return []byte("\xAC\xED\x00\x05" + strings.Join(body, "")) }

// desc is a descriptor of a serializable class without superclass; fields is their count and content.
func desc(name, fields string) string {
	return "r\x00" + string(rune(len(name))) + name + "\x00\x00\x00\x00\x00\x00\x00\x01\x02" + fields + "xp"
}

func TestMalformedStreamsGiveTypedErrors(t *testing.T) {
	one := desc("A", "\x00\x01L\x00\x01ft\x00\x01L") // class A with one reference field f
	prims := desc("A", "\x00\x01Z\x00\x01f")
	for name, tt := range map[string]struct {
		in    []byte
		cause error
	}{
		"empty":                       {nil, javaser.ErrTruncated},
		"no header":                   {[]byte("GET / HTTP"), javaser.ErrHeader},
		"version 6":                   {[]byte("\xAC\xED\x00\x06p"), javaser.ErrHeader},
		"no object":                   {stream(), javaser.ErrTruncated},
		"two objects":                 {stream("pp"), javaser.ErrTrailing},
		"reset":                       {stream("y"), javaser.ErrUnsupported},
		"exception":                   {stream("{"), javaser.ErrUnsupported},
		"proxy class":                 {stream("s}"), javaser.ErrUnsupported},
		"descriptor as object":        {stream(desc("A", "\x00\x00")), javaser.ErrUnsupported},
		"block at top level":          {stream("w\x01x"), javaser.ErrUnsupported},
		"unknown handle":              {stream("q\x00\x7e\x00\x00"), javaser.ErrMalformed},
		"negative handle":             {stream("q\xff\xff\xff\xff"), javaser.ErrMalformed},
		"object without class":        {stream("sp"), javaser.ErrMalformed},
		"class of null":               {stream("vp"), javaser.ErrMalformed},
		"superclass of itself":        {stream("sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00xq\x00\x7e\x00\x00"), javaser.ErrMalformed},
		"class reference to object":   {stream("s", one, "sq\x00\x7e\x00\x02p"), javaser.ErrMalformed},
		"object reference to class":   {stream("s", one, "q\x00\x7e\x00\x00"), javaser.ErrMalformed},
		"class without name":          {stream("sr\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00xp"), javaser.ErrMalformed},
		"field type":                  {stream("s", desc("A", "\x00\x01Q\x00\x01f")), javaser.ErrMalformed},
		"signature is null":           {stream("s", desc("A", "\x00\x01L\x00\x01fp")), javaser.ErrMalformed},
		"annotated class":             {stream("sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00tx"), javaser.ErrUnsupported},
		"boolean of two":              {stream("s", prims, "\x02"), javaser.ErrMalformed},
		"enum without flag":           {stream("~", desc("A", "\x00\x00"), "t\x00\x01X"), javaser.ErrMalformed},
		"array of negative length":    {stream("u", desc("[I", "\x00\x00"), "\xff\xff\xff\xff"), javaser.ErrMalformed},
		"array of huge length":        {stream("u", desc("[I", "\x00\x00"), "\x7f\xff\xff\xff"), javaser.ErrTruncated},
		"references of huge length":   {stream("u", desc("[LA;", "\x00\x00"), "\x7f\xff\xff\xff"), javaser.ErrTruncated},
		"array of no type":            {stream("u", desc("[", "\x00\x00"), "\x00\x00\x00\x00"), javaser.ErrMalformed},
		"array of odd type":           {stream("u", desc("[Q", "\x00\x00"), "\x00\x00\x00\x00"), javaser.ErrMalformed},
		"object as array":             {stream("u", desc("A", "\x00\x00"), "\x00\x00\x00\x00"), javaser.ErrMalformed},
		"array as object":             {stream("s", desc("[I", "\x00\x00")), javaser.ErrMalformed},
		"string beyond the end":       {stream("t\xff\xffx"), javaser.ErrTruncated},
		"long string beyond the end":  {stream("|\xff\xff\xff\xff\xff\xff\xff\xffx"), javaser.ErrTruncated},
		"string not modified UTF-8":   {stream("t\x00\x02\xC3\x28"), javaser.ErrMalformed},
		"negative block":              {stream("sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x01\x03\x00\x00xpz\xff\xff\xff\xff"), javaser.ErrMalformed},
		"block beyond the end":        {stream("sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x01\x03\x00\x00xpw\x09x"), javaser.ErrTruncated},
		"externalizable without data": {stream("sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x01\x04\x00\x00xp"), javaser.ErrUnsupported},
		"not serializable":            {stream("sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00xp"), javaser.ErrMalformed},
		"too many fields":             {stream("s", desc("A", "\xff\xff")), javaser.ErrLimit},
		"class name too long":         {stream("sr\xff\xff" + strings.Repeat("A", 1<<16)), javaser.ErrLimit},
	} {
		_, err := javaser.Decode(tt.in, javaser.Limits{}, nil)
		var e *javaser.Error
		if !errors.As(err, &e) || !errors.Is(err, tt.cause) {
			t.Errorf("%s: %v, want %v", name, err, tt.cause)
			continue
		}
		if e.Offset < 0 || e.Offset > len(tt.in) {
			t.Errorf("%s: offset %d of %d", name, e.Offset, len(tt.in))
		}
	}
}

func TestErrorsNameTheClassAndNothingElse(t *testing.T) {
	for file, s := range capturedStreams(t) {
		for _, n := range []int{len(s) / 4, len(s) / 2, len(s) - 1} {
			_, err := javaser.Decode(s[:n], javaser.Limits{}, nil)
			if !errors.Is(err, javaser.ErrTruncated) {
				t.Errorf("%s cut at %d: %v", file, n, err)
				continue
			}
			if text := err.Error(); strings.Contains(text, "127.0.0.1") || len(text) > 200 {
				t.Errorf("%s cut at %d: content in %q", file, n, text)
			}
		}
	}
	in := stream("s", desc("org.example.Holder", "\x00\x01L\x00\x01ft\x00\x01L"), "t\xff\xffsecret")
	_, err := javaser.Decode(in, javaser.Limits{}, nil)
	var e *javaser.Error
	if !errors.As(err, &e) || e.Class != "org.example.Holder" || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

func TestTruncationAnywhereIsAnError(t *testing.T) {
	for file, s := range capturedStreams(t) {
		if !strings.Contains(file, "Heartbeat") && !strings.Contains(file, "DriverStatusResponse-4") {
			continue
		}
		for n := range s {
			if _, err := javaser.Decode(s[:n], javaser.Limits{}, nil); err == nil {
				t.Fatalf("%s cut at %d was accepted", file, n)
			}
		}
	}
}

// chain returns n objects, each in the field of the one before.
func chain(n int) javaser.Node {
	c := javaser.NewClass("Link", 1, javaser.FlagSerializable,
		[]javaser.Field{{Type: 'L', Name: "next", Signature: &javaser.String{Value: "LLink;"}}}, nil)
	var node javaser.Node
	for range n {
		o := javaser.New(c)
		o.Fields[0].Ref = node
		node = o
	}
	return node
}

func TestDepthIsLimitedBothWays(t *testing.T) {
	deep, err := javaser.Encode(chain(1000), javaser.Limits{Depth: 2000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := javaser.Decode(deep, javaser.Limits{}, nil); !errors.Is(err, javaser.ErrLimit) {
		t.Errorf("decoding: %v", err)
	}
	if _, err := javaser.Encode(chain(1000), javaser.Limits{}); !errors.Is(err, javaser.ErrLimit) {
		t.Errorf("encoding: %v", err)
	}
	if _, err := javaser.Encode(chain(javaser.DefaultDepth-1), javaser.Limits{}); err != nil {
		t.Errorf("encoding at the limit: %v", err)
	}
}

func TestHandlesValuesAndBytesAreLimited(t *testing.T) {
	objects := javaser.NewClass("[Ljava.lang.Object;", 1, javaser.FlagSerializable, nil, nil)
	strs := &javaser.Array{Class: objects}
	for range 100 {
		strs.Refs = append(strs.Refs, &javaser.String{Value: "x"})
	}
	full, err := javaser.Encode(strs, javaser.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, lim := range map[string]javaser.Limits{"handles": {Handles: 50}, "values": {Values: 99}, "bytes": {Bytes: 200}} {
		if _, err := javaser.Decode(full, lim, nil); !errors.Is(err, javaser.ErrLimit) {
			t.Errorf("decoding, %s: %v", name, err)
		}
		if _, err := javaser.Encode(strs, lim); name != "values" && !errors.Is(err, javaser.ErrLimit) {
			t.Errorf("encoding, %s: %v", name, err)
		}
	}
	if _, err := javaser.Decode(full, javaser.Limits{Handles: 102, Values: 100, Bytes: len(full)}, nil); err != nil {
		t.Errorf("at the limits: %v", err)
	}
}

func TestCyclesKeepTheirIdentity(t *testing.T) {
	o := chain(2).(*javaser.Object)
	o.Fields[0].Ref.(*javaser.Object).Fields[0].Ref = o
	s, err := javaser.Encode(o, javaser.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := javaser.Decode(s, javaser.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := g.Root.(*javaser.Object)
	if root.Fields[0].Ref.(*javaser.Object).Fields[0].Ref != javaser.Node(root) {
		t.Error("the cycle was opened")
	}
	back, err := javaser.Encode(root, javaser.Limits{})
	if err != nil || !bytes.Equal(back, s) {
		t.Error("bytes changed", err)
	}
}

// everything returns an object with a field of every type, and its class.
func everything() *javaser.Object {
	sig := &javaser.String{Value: "Ljava/lang/Object;"}
	super := javaser.NewClass("Super", 5, javaser.FlagSerializable|javaser.FlagWriteMethod, []javaser.Field{{Type: 'I', Name: "i"}}, nil)
	c := javaser.NewClass("All", -1, javaser.FlagSerializable|javaser.FlagWriteMethod, []javaser.Field{
		{Type: 'B', Name: "b"}, {Type: 'C', Name: "c"}, {Type: 'D', Name: "d"}, {Type: 'F', Name: "f"}, {Type: 'J', Name: "j"},
		{Type: 'S', Name: "s"}, {Type: 'Z', Name: "z"}, {Type: 'L', Name: "o", Signature: sig}, {Type: 'L', Name: "p", Signature: sig},
	}, super)
	enum := javaser.NewClass("Color", 0, javaser.FlagSerializable|javaser.FlagEnum, nil, nil)
	longs := javaser.NewClass("[J", 7, javaser.FlagSerializable, nil, nil)
	ext := javaser.NewClass("Ext", 9, javaser.FlagExternalizable|javaser.FlagBlockData, nil, nil)
	external := &javaser.Object{Class: ext, Annotations: []javaser.Annotation{{Class: ext, Items: []javaser.Node{&javaser.Block{Data: []byte("ext")}}}}}
	o := javaser.New(c)
	o.Set("i", javaser.Int(math.MinInt32))
	o.Set("b", javaser.Int(-1))
	o.Set("c", javaser.Value{Bits: 0xFFFF})
	o.Set("d", javaser.Double(-0.5))
	o.Set("f", javaser.Value{Bits: uint64(math.Float32bits(1.5))})
	o.Set("j", javaser.Long(math.MinInt64))
	o.Set("s", javaser.Int(-2))
	o.Set("z", javaser.Bool(true))
	o.Set("o", javaser.Str(strings.Repeat("long \u20ac", 20_000)))
	o.Set("p", javaser.Ref(&javaser.ClassObject{Class: c}))
	o.Annotations = []javaser.Annotation{
		{Class: super, Items: []javaser.Node{&javaser.Block{Data: bytes.Repeat([]byte{7}, 1024)}}},
		{Class: c, Items: []javaser.Node{
			&javaser.Block{Data: []byte{1, 2}}, nil, &javaser.Enum{Class: enum, Name: &javaser.String{Value: "RED"}},
			&javaser.Array{Class: longs, Raw: make([]byte, 16)}, external, external, o,
		}},
	}
	return o
}

func TestEveryKindOfValueSurvives(t *testing.T) {
	o := everything()
	s, err := javaser.Encode(o, javaser.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := javaser.Decode(s, javaser.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g.Root, javaser.Node(o)) {
		t.Errorf("%+v", g.Root)
	}
	got := g.Root.(*javaser.Object)
	if v, typ, ok := got.Get("j"); !ok || typ != 'J' || v.Long() != math.MinInt64 {
		t.Error("j", v, typ, ok)
	}
	if v, _, _ := got.Get("i"); v.Int() != math.MinInt32 {
		t.Error("i of the superclass", v)
	}
	if v, _, _ := got.Get("d"); v.Double() != -0.5 {
		t.Error("d", v)
	}
	if v, _, _ := got.Get("z"); !v.Bool() {
		t.Error("z", v)
	}
	if _, _, ok := got.Get("nothing"); ok || got.Set("nothing", javaser.Int(1)) {
		t.Error("a field that is not there")
	}
	if len(got.Annotation("Super")) != 1 || len(got.Annotation("All")) != 7 || got.Annotation("Other") != nil {
		t.Error("annotations")
	}
	ext := got.Annotation("All")[4].(*javaser.Object)
	if _, _, ok := ext.Get("x"); ok {
		t.Error("an externalizable object has a field")
	}
}

// A payload of one stream is hung under a root made of other descriptors; a JVM would have one descriptor for both.
func TestEqualDescriptorsAreWrittenOnce(t *testing.T) {
	a, b := chain(1).(*javaser.Object), chain(1).(*javaser.Object)
	if a.Class == b.Class || !a.Class.Equal(b.Class) {
		t.Fatal("test needs two equal descriptors")
	}
	a.Fields[0].Ref = b
	twice, err := javaser.Encode(a, javaser.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	once, err := javaser.Encode(chain(2), javaser.Limits{})
	if err != nil || !bytes.Equal(twice, once) {
		t.Errorf("%d bytes instead of %d, %v", len(twice), len(once), err)
	}
}

func TestBrokenGraphsAreNotEncoded(t *testing.T) {
	c := javaser.NewClass("[I", 1, javaser.FlagSerializable, nil, nil)
	short := chain(1).(*javaser.Object)
	short.Fields = nil
	for name, n := range map[string]javaser.Node{
		"block at top level": &javaser.Block{}, "missing fields": short, "object without class": &javaser.Object{},
		"array without class": &javaser.Array{}, "half an int": &javaser.Array{Class: c, Raw: []byte{1}}, "enum without name": &javaser.Enum{Class: c},
	} {
		if _, err := javaser.Encode(n, javaser.Limits{}); !errors.Is(err, javaser.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManyFieldsCostInProportion(t *testing.T) {
	in := stream("u", desc("[LA;", "\x00\x00"), "\x00\x0f\xff\xff", strings.Repeat("p", 1<<20-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := javaser.Decode(in, javaser.Limits{Values: 200_000}, nil); !errors.Is(err, javaser.ErrLimit) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<10 {
		t.Errorf("%d bytes allocated before the limit was noticed", used)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range capturedStreams(f) {
		f.Add(s)
	}
	if s, err := javaser.Encode(everything(), javaser.Limits{}); err == nil {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		g, err := javaser.Decode(s, javaser.Limits{}, nil)
		if err != nil {
			return
		}
		first, err := javaser.Encode(g.Root, javaser.Limits{})
		if err != nil {
			t.Fatalf("decoded, but not encoded: %v", err)
		}
		again, err := javaser.Decode(first, javaser.Limits{}, nil)
		if err != nil {
			t.Fatalf("encoded, but not decoded: %v", err)
		}
		second, err := javaser.Encode(again.Root, javaser.Limits{})
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("encoding is not stable: %v", err)
		}
	})
}
