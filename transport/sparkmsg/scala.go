package sparkmsg

import (
	"encoding/binary"

	"raftmaster/transport/javaser"
)

// Reading Scala's collections. Both Scala lines are read by one set of functions: the class says which form it is.

// maxElements bounds collections whose length is a number in the stream and not given by what follows it.
const maxElements = 100_000

// pair is one entry of a map.
type pair struct{ key, value javaser.Node }

// className returns the class of a node, "" for null and strings.
func className(n javaser.Node) string {
	switch n := n.(type) {
	case *javaser.Object:
		return n.Class.Name
	case *javaser.Array:
		return n.Class.Name
	case *javaser.Enum:
		return n.Class.Name
	case *javaser.String:
		return "java.lang.String"
	case *javaser.ClassObject:
		return "java.lang.Class"
	}
	return ""
}

// moduleName returns the class of a Scala object (None, Nil, case object...): with 2.12 the class of the node itself,
// with 2.13 the class named in a ModuleSerializationProxy. "" if n is no object node.
func moduleName(n javaser.Node) string {
	o, ok := n.(*javaser.Object)
	if !ok {
		return ""
	}
	if o.Class.Name != "scala.runtime.ModuleSerializationProxy" {
		return o.Class.Name
	}
	v, _, _ := o.Get("moduleClass")
	if c, ok := v.Ref.(*javaser.ClassObject); ok && c.Class != nil {
		return c.Class.Name
	}
	return ""
}

func field(o *javaser.Object, name string) javaser.Value {
	v, _, _ := o.Get(name)
	return v
}

// refs returns the elements of a reference array; null and other nodes give none.
func refs(n javaser.Node) []javaser.Node {
	if a, ok := n.(*javaser.Array); ok {
		return a.Refs
	}
	return nil
}

// readSeq returns the elements of a sequence, or why it cannot be read.
func readSeq(n javaser.Node) (items []javaser.Node, reason string) {
	o, ok := n.(*javaser.Object)
	if !ok {
		return nil, "is not a sequence"
	}
	switch moduleName(o) {
	case "scala.collection.immutable.Nil$":
		return nil, ""
	case "scala.collection.immutable.List$SerializationProxy":
		return untilEnd(o.Annotation(o.Class.Name), "scala.collection.immutable.ListSerializeEnd$")
	case "scala.collection.generic.DefaultSerializationProxy":
		return readProxy(o)
	case "scala.collection.immutable.Vector":
		return readVector212(o)
	case "scala.collection.mutable.ArraySeq":
		return firstOf(field(o, "array").Ref, field(o, "length").Int())
	case "scala.collection.mutable.ArrayBuffer":
		return firstOf(field(o, "array").Ref, field(o, "size0").Int())
	case "scala.collection.mutable.WrappedArray$ofRef", "scala.collection.mutable.ArraySeq$ofRef":
		return refs(field(o, "array").Ref), ""
	case "scala.collection.immutable.ArraySeq$ofRef":
		return refs(field(o, "unsafeArray").Ref), ""
	}
	return nil, "is a sequence of unknown class"
}

// firstOf returns the first count elements of an array with slack.
func firstOf(array javaser.Node, count int32) ([]javaser.Node, string) {
	items := refs(array)
	if count < 0 || int(count) > len(items) {
		return nil, "is longer than its array"
	}
	return items[:count], ""
}

func untilEnd(items []javaser.Node, end string) ([]javaser.Node, string) {
	for i, n := range items {
		if moduleName(n) == end {
			if i != len(items)-1 {
				return nil, "goes on after its end"
			}
			return items[:i], ""
		}
	}
	return nil, "has no end"
}

// readProxy reads Scala 2.13's DefaultSerializationProxy: a count and the elements, or -1 and elements up to an end.
func readProxy(o *javaser.Object) ([]javaser.Node, string) {
	items := o.Annotation(o.Class.Name)
	if len(items) == 0 {
		return nil, "has no count"
	}
	count, ok := block(items[0], 4)
	if !ok {
		return nil, "has no count"
	}
	items = items[1:]
	if n := int32(binary.BigEndian.Uint32(count)); n != -1 {
		if int(n) != len(items) {
			return nil, "differs from its count"
		}
		return items, ""
	}
	return untilEnd(items, "scala.collection.generic.SerializeEnd$")
}

func block(n javaser.Node, size int) ([]byte, bool) {
	b, ok := n.(*javaser.Block)
	if !ok || len(b.Data) != size {
		return nil, false
	}
	return b.Data, true
}

// readVector212 reads a Vector of Scala 2.12, a tree of 32-slot arrays. As in Vector.getElem, the level at which an
// element is looked up follows from its distance to the focus, because arrays above that level may be out of date.
func readVector212(o *javaser.Object) ([]javaser.Node, string) {
	start, end, focus := field(o, "startIndex").Int(), field(o, "endIndex").Int(), field(o, "focus").Int()
	if start < 0 || end < start || end-start > maxElements || focus < 0 {
		return nil, "has impossible bounds"
	}
	var display [6][]javaser.Node
	for i := range display {
		display[i] = refs(field(o, "display"+string(rune('0'+i))).Ref)
	}
	items := make([]javaser.Node, 0, min(int(end-start), 32))
	for i := start; i < end; i++ {
		level := 0
		for i^focus >= 1<<(5*(level+1)) {
			if level++; level == len(display) {
				return nil, "has impossible bounds"
			}
		}
		node := display[level]
		for ; level > 0; level-- {
			at := int(i>>(5*level)) & 31
			if at >= len(node) {
				return nil, "lacks elements"
			}
			node = refs(node[at])
		}
		if int(i&31) >= len(node) {
			return nil, "lacks elements"
		}
		items = append(items, node[i&31])
	}
	return items, ""
}

// readMap returns the entries of a map in wire order, or why it cannot be read.
func readMap(n javaser.Node) (entries []pair, reason string) {
	o, ok := n.(*javaser.Object)
	if !ok {
		return nil, "is not a map"
	}
	switch name := moduleName(o); name {
	case "scala.collection.immutable.Map$EmptyMap$":
		return nil, ""
	case "scala.collection.immutable.Map$Map1", "scala.collection.immutable.Map$Map2",
		"scala.collection.immutable.Map$Map3", "scala.collection.immutable.Map$Map4":
		count := int(name[len(name)-1] - '0')
		if len(o.Fields) != 2*count {
			return nil, "has an unexpected number of entries"
		}
		for i := range count { // key1..keyN sort before value1..valueN
			entries = append(entries, pair{o.Fields[i].Ref, o.Fields[count+i].Ref})
		}
		return entries, ""
	case "scala.collection.immutable.HashMap$SerializationProxy":
		return alternating(o.Annotation(name), 4, 0)
	case "scala.collection.mutable.HashMap":
		return alternating(o.Annotation(name), 13, 4) // load factor, size, seed, whether a size map follows
	case "scala.collection.generic.DefaultSerializationProxy":
		items, reason := readProxy(o)
		if reason != "" {
			return nil, reason
		}
		return tuples(items)
	case "scala.collection.immutable.Map$WithDefault":
		inner, _, _ := o.Get("underlying")
		if className(inner.Ref) == name {
			return nil, "is a map with two defaults"
		}
		return readMap(inner.Ref)
	}
	return nil, "is a map of unknown class"
}

// alternating reads a block of the given size that holds the count at an offset, then key, value, key, value.
func alternating(items []javaser.Node, size, at int) ([]pair, string) {
	if len(items) == 0 {
		return nil, "has no count"
	}
	head, ok := block(items[0], size)
	if !ok {
		return nil, "has no count"
	}
	items = items[1:]
	count := int32(binary.BigEndian.Uint32(head[at:]))
	if count < 0 || len(items) != 2*int(count) {
		return nil, "differs from its count"
	}
	entries := make([]pair, count)
	for i := range entries {
		entries[i] = pair{items[2*i], items[2*i+1]}
	}
	return entries, ""
}

func tuples(items []javaser.Node) ([]pair, string) {
	entries := make([]pair, 0, len(items))
	for _, n := range items {
		if className(n) != "scala.Tuple2" {
			return nil, "has an entry that is no pair"
		}
		o := n.(*javaser.Object)
		entries = append(entries, pair{field(o, "_1").Ref, field(o, "_2").Ref})
	}
	return entries, ""
}
