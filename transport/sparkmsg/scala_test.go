package sparkmsg

import (
	"strconv"
	"testing"

	"raftmaster/transport/javaser"
)

// vector212 builds a Vector of the integers from..to-1 as a tree of the given depth with the given focus, the way Scala
// 2.12 lays it out: display(l) is the array of level l on the path to the focus.
func vector212(b *builder, depth int, from, to, focus int32) *javaser.Object {
	class := b.cat.classes["[Ljava.lang.Object;"]
	var tree func(level int, base int32) *javaser.Array
	tree = func(level int, base int32) *javaser.Array {
		a := &javaser.Array{Class: class, Refs: make([]javaser.Node, 32)}
		step := int32(1) << (5 * level)
		for i := range int32(32) {
			first := base + i*step
			if first+step <= from || first >= to {
				continue
			}
			if level == 0 {
				a.Refs[i] = text(strconv.Itoa(int(first)))
			} else {
				a.Refs[i] = tree(level-1, first)
			}
		}
		return a
	}
	f := b.object("scala.collection.immutable.Vector").i32("depth", int32(depth)).
		i32("startIndex", from).i32("endIndex", to).i32("focus", focus)
	node := tree(depth-1, 0)
	for level := depth - 1; ; level-- {
		f.ref("display"+strconv.Itoa(level), node)
		if level == 0 {
			return f.o
		}
		node = node.Refs[(focus>>(5*level))&31].(*javaser.Array)
	}
}

func TestVectorsOfScala212AreReadAtEveryDepth(t *testing.T) {
	b := &builder{cat: loadCatalogues().of[FamilyB], message: "test"}
	for _, tt := range []struct {
		depth           int
		from, to, focus int32
	}{{1, 0, 1, 0}, {1, 0, 32, 31}, {1, 5, 20, 7}, {2, 0, 33, 32}, {2, 0, 1000, 500}, {2, 40, 1024, 40}, {3, 0, 1025, 1024}, {3, 10, 3000, 2000}} {
		items, reason := readSeq(vector212(b, tt.depth, tt.from, tt.to, tt.focus))
		if reason != "" || len(items) != int(tt.to-tt.from) {
			t.Fatalf("%+v: %d elements, %s", tt, len(items), reason)
		}
		for i, n := range items {
			if want := strconv.Itoa(i + int(tt.from)); n.(*javaser.String).Value != want {
				t.Fatalf("%+v: element %d is %s", tt, i, n.(*javaser.String).Value)
			}
		}
	}
}

func TestImpossibleVectorsAreRefused(t *testing.T) {
	b := &builder{cat: loadCatalogues().of[FamilyB], message: "test"}
	for name, change := range map[string]func(o fields){
		"negative start":    func(o fields) { o.i32("startIndex", -1) },
		"end before start":  func(o fields) { o.i32("startIndex", 9).i32("endIndex", 8) },
		"endless":           func(o fields) { o.i32("endIndex", 1<<31-1) },
		"beyond its arrays": func(o fields) { o.i32("endIndex", 40) },
		"negative focus":    func(o fields) { o.i32("focus", -1) },
		"far focus":         func(o fields) { o.i32("focus", 1<<30) },
		"no array":          func(o fields) { o.ref("display0", nil) },
	} {
		v := vector212(b, 1, 0, 10, 0)
		change(fields{b: b, o: v})
		if _, reason := readSeq(v); reason == "" {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMalformedCollectionsAreRefused(t *testing.T) {
	b12 := &builder{cat: loadCatalogues().of[FamilyB], message: "test"}
	b13 := &builder{cat: loadCatalogues().of[FamilyE], message: "test"}
	annotated := func(b *builder, class string, items ...javaser.Node) javaser.Node {
		o := b.object(class).o
		o.Annotations = []javaser.Annotation{{Class: o.Class, Items: items}}
		return o
	}
	one := &javaser.Block{Data: []byte{0, 0, 0, 1}}
	for name, n := range map[string]javaser.Node{
		"null":                  nil,
		"a string":              text("x"),
		"list without end":      annotated(b12, "scala.collection.immutable.List$SerializationProxy", text("x")),
		"list beyond its end":   annotated(b12, "scala.collection.immutable.List$SerializationProxy", b12.module(listEnd212), text("x")),
		"proxy without count":   annotated(b13, "scala.collection.generic.DefaultSerializationProxy", text("x")),
		"proxy of wrong count":  annotated(b13, "scala.collection.generic.DefaultSerializationProxy", one),
		"proxy without all":     b13.object("scala.collection.generic.DefaultSerializationProxy").o,
		"buffer without array":  b12.object("scala.collection.mutable.ArrayBuffer").i32("size0", 1).o,
		"buffer of minus one":   b12.object("scala.collection.mutable.ArrayBuffer").i32("size0", -1).o,
		"another class":         b12.object("scala.Tuple2").o,
		"proxy without its end": annotated(b13, "scala.collection.generic.DefaultSerializationProxy", &javaser.Block{Data: []byte{255, 255, 255, 255}}),
	} {
		if _, reason := readSeq(n); reason == "" {
			t.Errorf("sequence: %s: accepted", name)
		}
	}
	for name, n := range map[string]javaser.Node{
		"null":             nil,
		"odd elements":     annotated(b12, "scala.collection.immutable.HashMap$SerializationProxy", one, text("x")),
		"no count":         annotated(b12, "scala.collection.mutable.HashMap", one),
		"nothing":          b12.object("scala.collection.mutable.HashMap").o,
		"elements no pair": annotated(b13, "scala.collection.generic.DefaultSerializationProxy", one, text("x")),
		"another class":    b12.object("scala.Tuple2").o,
	} {
		if _, reason := readMap(n); reason == "" {
			t.Errorf("map: %s: accepted", name)
		}
	}
}
