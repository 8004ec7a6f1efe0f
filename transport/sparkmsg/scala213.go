package sparkmsg

import (
	"encoding/binary"

	"raftmaster/transport/javaser"
)

// The forms of Scala 2.13 (Spark 4).

// moduleProxy213 builds the proxy for a Scala object: a class object that the receiver resolves to its own instance.
func (b *builder) moduleProxy213(name string) javaser.Node {
	c := b.cat.classes[name]
	if c == nil {
		b.fail("has no class " + name)
		return nil
	}
	return b.object("scala.runtime.ModuleSerializationProxy").ref("moduleClass", &javaser.ClassObject{Class: c}).node()
}

// proxy213 builds a DefaultSerializationProxy, the form of most collections: a factory, a count (or -1 and an end
// marker where the sender did not know it), and the elements.
func (b *builder) proxy213(factory javaser.Node, count int32, items []javaser.Node) javaser.Node {
	f := b.object("scala.collection.generic.DefaultSerializationProxy").ref("factory", factory)
	if f.o == nil {
		return nil
	}
	all := make([]javaser.Node, 1, len(items)+2)
	all[0] = &javaser.Block{Data: binary.BigEndian.AppendUint32(nil, uint32(count))}
	all = append(all, items...)
	if count < 0 {
		all = append(all, b.module("scala.collection.generic.SerializeEnd$"))
	}
	f.o.Annotations = []javaser.Annotation{{Class: f.o.Class, Items: all}}
	return f.o
}

func (b *builder) list213(items []javaser.Node) javaser.Node {
	factory := b.object("scala.collection.IterableFactory$ToFactory").
		ref("factory", b.module("scala.collection.immutable.List$")).node()
	if len(items) == 0 {
		return b.proxy213(factory, 0, nil) // only Nil knows its size
	}
	return b.proxy213(factory, -1, items)
}

func (b *builder) hashMap213(entries []pair) javaser.Node {
	factory := b.object("scala.collection.MapFactory$ToFactory").
		ref("factory", b.module("scala.collection.immutable.HashMap$")).node()
	items := make([]javaser.Node, len(entries))
	for i, e := range entries {
		items[i] = b.object("scala.Tuple2").ref("_1", e.key).ref("_2", e.value).node()
	}
	return b.proxy213(factory, int32(len(entries)), items)
}

// enumValue213 builds a value of a Scala Enumeration; the enumeration itself is a module proxy. One value is one
// instance, so equal values in a message are kept apart only by number.
func (b *builder) enumValue213(enum string, i int32) javaser.Node {
	key := enum + string(rune('0'+i))
	if n := b.modules[key]; n != nil {
		return n
	}
	outer := b.module(enum)
	n := b.object("scala.Enumeration$Val").ref("$outer", outer).
		ref("scala$Enumeration$$outerEnum", outer).i32("i", i).node()
	b.setModule(key, n)
	return n
}
