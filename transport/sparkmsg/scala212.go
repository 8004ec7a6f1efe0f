package sparkmsg

import (
	"encoding/binary"

	"raftmaster/transport/javaser"
)

// The forms of Scala 2.12 (Spark 3).

// module212 builds a Scala object: it travels as itself, and readResolve replaces it by the receiver's own.
func (b *builder) module212(name string) javaser.Node {
	if name == listEnd212 {
		if n := b.cat.enums.listEnd; n != nil {
			return n
		}
	}
	return b.object(name).node()
}

const listEnd212 = "scala.collection.immutable.ListSerializeEnd$"

func (b *builder) list212(items []javaser.Node) javaser.Node {
	f := b.object("scala.collection.immutable.List$SerializationProxy")
	if f.o == nil {
		return nil
	}
	all := append(items[:len(items):len(items)], b.module(listEnd212))
	f.o.Annotations = []javaser.Annotation{{Class: f.o.Class, Items: all}}
	return f.o
}

func (b *builder) hashMap212(entries []pair) javaser.Node {
	f := b.object("scala.collection.immutable.HashMap$SerializationProxy")
	if f.o == nil {
		return nil
	}
	items := make([]javaser.Node, 1, 1+2*len(entries))
	items[0] = &javaser.Block{Data: binary.BigEndian.AppendUint32(nil, uint32(len(entries)))}
	for _, e := range entries {
		items = append(items, e.key, e.value)
	}
	f.o.Annotations = []javaser.Annotation{{Class: f.o.Class, Items: items}}
	return f.o
}

const (
	executorStateClass = "org.apache.spark.deploy.ExecutorState$"
	driverStateClass   = "org.apache.spark.deploy.master.DriverState$"
)

// enumTemplates holds Scala 2.12's enumerations. There, each value that is sent drags the whole enumeration along:
// every value, the table of values, and (ExecutorState) the list of final states. The nodes are shared by all messages
// of a family and never change.
type enumTemplates struct {
	executor [executorStates]javaser.Node
	driver   [driverStates]javaser.Node
	ints     [driverStates]javaser.Node // the boxed keys of the tables, which a JVM shares with equal small integers
	listEnd  javaser.Node
}

// integer returns the boxed integer that the tables hold, nil if v is not in them.
func (t *enumTemplates) integer(v int32) javaser.Node {
	if v < 0 || int(v) >= len(t.ints) {
		return nil
	}
	return t.ints[v]
}

// tableOrder212 is the order in which Scala 2.12's mutable.HashMap iterates over the keys 0 to 7 in a table of 16 with
// seed 4; keys that are not there are passed over.
var tableOrder212 = [...]int32{2, 5, 4, 7, 1, 3, 6, 0}

// newEnumTemplates builds the enumerations of a 2.12 family; for 2.13, where an enumeration is a module proxy, all are nil.
func newEnumTemplates(cat *catalogue) enumTemplates {
	var t enumTemplates
	if cat.fam.scala213() {
		return t
	}
	b := &builder{cat: cat, message: "enumeration"}
	var ints [driverStates]javaser.Node
	for i := range ints {
		ints[i] = b.object("java.lang.Integer").i32("value", int32(i)).node()
	}
	end := b.module(listEnd212)
	executors := b.enum212(executorStateClass, executorStateNames[:], ints[:])
	copy(t.executor[:], executors.values)
	finished := make([]javaser.Node, 0, 4)
	for _, s := range []ExecutorState{ExecutorKilled, ExecutorFailed, ExecutorLost, ExecutorExited} {
		finished = append(finished, t.executor[s])
	}
	executors.object.ref("finishedStates", b.list212(finished))
	copy(t.driver[:], b.enum212(driverStateClass, driverStateNames[:], ints[:]).values)
	t.ints, t.listEnd = ints, end
	if b.err != nil {
		panic(b.err)
	}
	return t
}

type enum212 struct {
	object fields
	values []javaser.Node
}

func (b *builder) enum212(class string, names []string, ints []javaser.Node) enum212 {
	e := enum212{object: b.object(class), values: make([]javaser.Node, len(names))}
	count := int32(len(names))
	for i, name := range names {
		e.values[i] = b.object("scala.Enumeration$Val").ref("$outer", e.object.node()).
			ref("scala$Enumeration$$outerEnum", e.object.node()).i32("i", int32(i)).node()
		e.object.ref(name, e.values[i])
	}
	var entries []javaser.Node
	for _, i := range tableOrder212 {
		if i < count {
			entries = append(entries, ints[i], e.values[i])
		}
	}
	e.object.i32("nextId", count).i32("scala$Enumeration$$topId", count).
		ref("nmap", b.mutableHashMap212(nil)).ref("scala$Enumeration$$vmap", b.mutableHashMap212(entries))
	return e
}

// mutableHashMap212 builds a mutable.HashMap of alternating keys and values. Its header is the load factor (750 of
// 1000), the size, the seed (4 for the initial table of 16) and a byte that says that no size map follows.
func (b *builder) mutableHashMap212(entries []javaser.Node) javaser.Node {
	f := b.object("scala.collection.mutable.HashMap")
	head := binary.BigEndian.AppendUint32(nil, 750)
	head = binary.BigEndian.AppendUint32(head, uint32(len(entries)/2))
	head = append(binary.BigEndian.AppendUint32(head, 4), 0)
	items := append([]javaser.Node{&javaser.Block{Data: head}}, entries...)
	f.o.Annotations = []javaser.Annotation{{Class: f.o.Class, Items: items}}
	return f.o
}

func (b *builder) executorState(s ExecutorState) javaser.Node {
	if s >= executorStates {
		b.fail(s.String() + " is no state")
		return nil
	}
	if n := b.cat.enums.executor[s]; n != nil {
		return n
	}
	return b.enumValue213(executorStateClass, int32(s))
}

func (b *builder) driverState(s DriverState) javaser.Node {
	if s >= driverStates {
		b.fail(s.String() + " is no state")
		return nil
	}
	if n := b.cat.enums.driver[s]; n != nil {
		return n
	}
	return b.enumValue213(driverStateClass, int32(s))
}
