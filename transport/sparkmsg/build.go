package sparkmsg

import "raftmaster/transport/javaser"

// builder makes the object graph of one message with the descriptors of one family. The first error sticks.
type builder struct {
	cat     *catalogue
	message string
	modules map[string]javaser.Node // Scala objects used so far: there is one instance of each in a JVM
	ints    map[int32]javaser.Node  // boxed integers that a JVM caches
	emptyL  javaser.Node            // Nil in its serialized form
	err     error
}

func (b *builder) fail(reason string) {
	if b.err == nil {
		b.err = &UnsupportedError{Message: b.message, Family: b.cat.fam, Reason: reason}
	}
}

// fields sets the fields of one new object.
type fields struct {
	b *builder
	o *javaser.Object
}

// object returns a new object of the named class.
func (b *builder) object(class string) fields {
	c := b.cat.classes[class]
	if c == nil {
		b.fail("has no class " + class)
		return fields{b: b}
	}
	return fields{b: b, o: javaser.New(c)}
}

// node returns the object, nil after an error.
func (f fields) node() javaser.Node {
	if f.o == nil {
		return nil
	}
	return f.o
}

func (f fields) set(name string, v javaser.Value) fields {
	if f.o != nil && !f.o.Set(name, v) {
		f.b.fail(f.o.Class.Name + " has no field " + name)
	}
	return f
}

func (f fields) ref(name string, n javaser.Node) fields { return f.set(name, javaser.Value{Ref: n}) }
func (f fields) str(name, s string) fields              { return f.set(name, javaser.Str(s)) }
func (f fields) i32(name string, v int32) fields        { return f.set(name, javaser.Int(v)) }
func (f fields) boolean(name string, v bool) fields     { return f.set(name, javaser.Bool(v)) }

// i32If sets an int field that not every family has.
func (f fields) i32If(name string, v int32) fields {
	if f.o != nil {
		f.o.Set(name, javaser.Int(v))
	}
	return f
}

// strOrNull writes "" as null.
func (f fields) strOrNull(name, s string) fields {
	if s == "" {
		return f
	}
	return f.str(name, s)
}

func text(s string) javaser.Node { return &javaser.String{Value: s} }

func texts(list []string) []javaser.Node {
	out := make([]javaser.Node, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

// integer boxes v. A JVM has one Integer for each value from -128 to 127.
func (b *builder) integer(v int32) javaser.Node {
	if n := b.cat.enums.integer(v); n != nil {
		return n
	}
	if n := b.ints[v]; n != nil {
		return n
	}
	n := b.object("java.lang.Integer").i32("value", v).node()
	if v >= -128 && v <= 127 {
		if b.ints == nil {
			b.ints = make(map[int32]javaser.Node)
		}
		b.ints[v] = n
	}
	return n
}

func (b *builder) none() javaser.Node { return b.module("scala.None$") }

func (b *builder) some(n javaser.Node) javaser.Node {
	return b.object("scala.Some").ref("value", n).node()
}

func (b *builder) optString(s *string) javaser.Node {
	if s == nil {
		return b.none()
	}
	return b.some(text(*s))
}

func (b *builder) optInt(v *int32) javaser.Node {
	if v == nil {
		return b.none()
	}
	return b.some(b.integer(*v))
}

func (b *builder) address(a Address) javaser.Node {
	return b.object("org.apache.spark.rpc.RpcAddress").i32("port", a.Port).str("host", a.Host).node()
}

// endpointRefAt builds a reference whose address shares the host's string instance, if it is that host.
func (b *builder) endpointRefAt(r EndpointRef, host *javaser.String) javaser.Node {
	n := b.endpointRef(r)
	if o, ok := n.(*javaser.Object); ok && r.Address != nil && r.Address.Host == host.Value {
		endpoint := field(o, "endpointAddress").Ref.(*javaser.Object)
		field(endpoint, "rpcAddress").Ref.(*javaser.Object).Set("host", javaser.Ref(host))
	}
	return n
}

// endpointRef builds a reference with Spark's default ask time-out. Family A's retry fields stay 0, which it accepts.
func (b *builder) endpointRef(r EndpointRef) javaser.Node {
	unit := &javaser.Enum{Class: b.cat.classes["java.util.concurrent.TimeUnit"], Name: &javaser.String{Value: "SECONDS"}}
	duration := b.object("scala.concurrent.duration.FiniteDuration").set("length", javaser.Long(120)).ref("unit", unit)
	timeout := b.object("org.apache.spark.rpc.RpcTimeout").
		ref("duration", duration.node()).str("timeoutProp", "spark.rpc.askTimeout")
	endpoint := b.object("org.apache.spark.rpc.RpcEndpointAddress").str("name", r.Name).str("toString", r.URI())
	if r.Address != nil {
		endpoint.ref("rpcAddress", b.address(*r.Address))
	}
	return b.object("org.apache.spark.rpc.netty.NettyRpcEndpointRef").
		ref("defaultAskTimeout", timeout.node()).ref("endpointAddress", endpoint.node()).node()
}

func (b *builder) optRef(r *EndpointRef) javaser.Node {
	if r == nil {
		return nil
	}
	return b.endpointRef(*r)
}

// resources builds a Map[String, ResourceInformation]. keyOf gives the string instance to use as key; nil means a new one.
func (b *builder) resources(list []ResourceInformation, keyOf func(name *javaser.String) javaser.Node) javaser.Node {
	entries := make([]pair, len(list))
	for i, r := range list {
		addresses := &javaser.Array{Class: b.cat.classes["[Ljava.lang.String;"], Refs: texts(r.Addresses)}
		name := &javaser.String{Value: r.Name}
		var key javaser.Node
		if keyOf != nil {
			key = keyOf(name)
		}
		if key == nil {
			key = text(r.Name)
		}
		entries[i] = pair{key, b.object("org.apache.spark.resource.ResourceInformation").
			ref("addresses", addresses).ref("name", name).node()}
	}
	return b.mapOf(entries)
}

// keyIsName uses one instance as key and as name, as a worker does for its own resources.
func keyIsName(name *javaser.String) javaser.Node { return name }

// keysOf returns a keyOf that finds the instances in the requests of a description, from which Spark's master takes its
// keys: each request is an object with a resourceName.
func keysOf(requests []javaser.Node) func(*javaser.String) javaser.Node {
	return func(name *javaser.String) javaser.Node {
		for _, n := range requests {
			o, ok := n.(*javaser.Object)
			if !ok {
				continue
			}
			if s, ok := field(o, "resourceName").Ref.(*javaser.String); ok && s.Value == name.Value {
				return s
			}
		}
		return nil
	}
}

// exception builds a throwable: the graph it came in, or a new java.lang.Exception without stack trace.
func (b *builder) exception(e *Exception) javaser.Node {
	if e.Graph != nil {
		return e.Graph
	}
	f := b.object("java.lang.Exception")
	trace := &javaser.Array{Class: b.cat.classes["[Ljava.lang.StackTraceElement;"]}
	// A throwable without cause refers to itself (Throwable.cause).
	return f.ref("cause", f.node()).strOrNull("detailMessage", e.Message).ref("stackTrace", trace).
		ref("suppressedExceptions", b.object("java.util.Collections$EmptyList").node()).node()
}

func (b *builder) optException(e *Exception) javaser.Node {
	if e == nil {
		return b.none()
	}
	return b.some(b.exception(e))
}

// adopt makes the builder use the Scala objects that a received graph already holds, because in the JVM of a real
// master they would be the same instances.
func (b *builder) adopt(graph *javaser.Object) {
	if graph == nil {
		return
	}
	seen := make(map[javaser.Node]bool, 64)
	var walk func(n javaser.Node)
	walk = func(n javaser.Node) {
		switch n := n.(type) {
		case *javaser.Object:
			if seen[n] {
				return
			}
			seen[n] = true
			if name := moduleName(n); adoptable[name] && b.modules[name] == nil {
				b.setModule(name, n)
			}
			for _, v := range n.Fields {
				walk(v.Ref)
			}
			for _, a := range n.Annotations {
				for _, item := range a.Items {
					walk(item)
				}
			}
		case *javaser.Array:
			if len(n.Refs) == 0 || seen[n] {
				return
			}
			seen[n] = true
			for _, item := range n.Refs {
				walk(item)
			}
		}
	}
	walk(graph)
}

// adoptable are the Scala objects that messages with a payload use outside it.
var adoptable = map[string]bool{"scala.None$": true, "scala.collection.immutable.Map$EmptyMap$": true}

func (b *builder) setModule(name string, n javaser.Node) {
	if b.modules == nil {
		b.modules = make(map[string]javaser.Node, 4)
	}
	b.modules[name] = n
}

// module returns the serialized form of a Scala object.
func (b *builder) module(name string) javaser.Node {
	if n := b.modules[name]; n != nil {
		return n
	}
	var n javaser.Node
	if b.cat.fam.scala213() {
		n = b.moduleProxy213(name)
	} else {
		n = b.module212(name)
	}
	b.setModule(name, n)
	return n
}

// list builds a List.
func (b *builder) list(items []javaser.Node) javaser.Node {
	if len(items) == 0 && b.emptyL != nil {
		return b.emptyL
	}
	var n javaser.Node
	if b.cat.fam.scala213() {
		n = b.list213(items)
	} else {
		n = b.list212(items)
	}
	if len(items) == 0 {
		b.emptyL = n
	}
	return n
}

func (b *builder) strings(list []string) javaser.Node { return b.list(texts(list)) }

// mapOf builds an immutable map: one of the small classes, or a HashMap, whose elements are in the given order.
func (b *builder) mapOf(entries []pair) javaser.Node {
	switch n := len(entries); {
	case n == 0:
		return b.module("scala.collection.immutable.Map$EmptyMap$")
	case n <= 4:
		f := b.object("scala.collection.immutable.Map$Map" + string(rune('0'+n)))
		if f.o == nil {
			return nil
		}
		for i, e := range entries { // key1..keyN sort before value1..valueN
			f.o.Fields[i].Ref, f.o.Fields[n+i].Ref = e.key, e.value
		}
		return f.o
	case b.cat.fam.scala213():
		return b.hashMap213(entries)
	}
	return b.hashMap212(entries)
}
