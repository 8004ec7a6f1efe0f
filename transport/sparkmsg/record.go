package sparkmsg

import "raftmaster/transport/javaser"

// record reads the fields of one object; reads after an error give zero values.
type record struct {
	o  *javaser.Object
	st *readState
}

// readState is common to all records of one message.
type readState struct {
	err error // the first error
	// left is how many more elements of collections may be read. A short stream can refer to one collection many times,
	// and so stand for far more elements than it has bytes.
	left int
}

func newRecord(o *javaser.Object) record { return record{o: o, st: &readState{left: maxElements}} }

func (r record) fail(field, reason string) {
	if r.st.err == nil {
		r.st.err = &FieldError{Class: r.o.Class.Name, Field: field, Reason: reason}
	}
}

// mustBe fails unless the object is of that very class.
func (r record) mustBe(class string) {
	if r.o.Class.Name != class {
		r.fail("class", "is not "+class)
	}
}

// spend takes n elements from what is left and reports whether that many were.
func (r record) spend(field string, n int) bool {
	if r.st.left -= n; r.st.left < 0 {
		r.fail(field, "makes too many elements in all")
	}
	return r.st.err == nil
}

func (r record) value(field string, types ...byte) javaser.Value {
	v, typ, ok := r.o.Get(field)
	if !ok {
		r.fail(field, "missing")
		return javaser.Value{}
	}
	for _, t := range types {
		if t == typ {
			return v
		}
	}
	r.fail(field, "has an unexpected type")
	return javaser.Value{}
}

// has reports whether the class declares the field: some do in some families only.
func (r record) has(field string) bool {
	_, _, ok := r.o.Get(field)
	return ok
}

func (r record) i32(field string) int32    { return r.value(field, 'I').Int() }
func (r record) i64(field string) int64    { return r.value(field, 'J').Long() }
func (r record) f64(field string) float64  { return r.value(field, 'D').Double() }
func (r record) boolean(field string) bool { return r.value(field, 'Z').Bool() }

func (r record) node(field string) javaser.Node { return r.value(field, 'L', '[').Ref }

// asString returns the text of a string node; null gives "".
func (r record) asString(field string, n javaser.Node) string {
	switch n := n.(type) {
	case nil:
	case *javaser.String:
		return n.Value
	default:
		r.fail(field, "is not a string")
	}
	return ""
}

func (r record) str(field string) string { return r.asString(field, r.node(field)) }

// asObject returns a record for an object node; ok is false for null, which is an error unless nullable.
func (r record) asObject(field string, n javaser.Node, nullable bool) (record, bool) {
	switch n := n.(type) {
	case nil:
		if !nullable {
			r.fail(field, "is null")
		}
	case *javaser.Object:
		return record{o: n, st: r.st}, true
	default:
		r.fail(field, "is not an object")
	}
	return record{}, false
}

func (r record) object(field string) (record, bool) { return r.asObject(field, r.node(field), false) }

// integer reads a java.lang.Integer.
func (r record) integer(field string, n javaser.Node) int32 {
	o, ok := r.asObject(field, n, false)
	if !ok {
		return 0
	}
	if o.o.Class.Name != "java.lang.Integer" {
		r.fail(field, "is not an Integer")
		return 0
	}
	return o.i32("value")
}

// option reads a scala.Option; ok is false for None.
func (r record) option(field string) (n javaser.Node, ok bool) {
	n = r.node(field)
	if moduleName(n) == "scala.None$" {
		return nil, false
	}
	o, isObject := r.asObject(field, n, false)
	if !isObject {
		return nil, false
	}
	if o.o.Class.Name != "scala.Some" {
		r.fail(field, "is not an Option")
		return nil, false
	}
	return o.node("value"), true
}

func (r record) optString(field string) *string {
	n, ok := r.option(field)
	if !ok {
		return nil
	}
	s := r.asString(field, n)
	return &s
}

func (r record) optInt(field string) *int32 {
	n, ok := r.option(field)
	if !ok {
		return nil
	}
	v := r.integer(field, n)
	return &v
}

// address reads an RpcAddress, nil for null.
func (r record) address(field string) *Address {
	o, ok := r.asObject(field, r.node(field), true)
	if !ok {
		return nil
	}
	return &Address{Host: o.str("host"), Port: o.i32("port")}
}

// optRef reads an endpoint reference, nil for null.
func (r record) optRef(field string) *EndpointRef {
	o, ok := r.asObject(field, r.node(field), true)
	if !ok {
		return nil
	}
	if o, ok = o.object("endpointAddress"); !ok {
		return nil
	}
	return &EndpointRef{Name: o.str("name"), Address: o.address("rpcAddress")}
}

// ref reads an endpoint reference that must be there.
func (r record) ref(field string) EndpointRef {
	p := r.optRef(field)
	if p == nil {
		r.fail(field, "is null")
		return EndpointRef{}
	}
	return *p
}

// seq reads a Scala sequence of any known class.
func (r record) seq(field string) []javaser.Node {
	items, reason := readSeq(r.node(field))
	if reason != "" {
		r.fail(field, reason)
	}
	if !r.spend(field, len(items)) {
		return nil
	}
	return items
}

func (r record) strings(field string) []string { return r.asStrings(field, r.seq(field)) }

func (r record) asStrings(field string, items []javaser.Node) []string {
	if len(items) == 0 {
		return nil
	}
	out := make([]string, len(items))
	for i, n := range items {
		out[i] = r.asString(field, n)
	}
	return out
}

// pairs reads a Scala map of any known class, in wire order.
func (r record) pairs(field string) []pair {
	entries, reason := readMap(r.node(field))
	if reason != "" {
		r.fail(field, reason)
	}
	if !r.spend(field, len(entries)) {
		return nil
	}
	return entries
}

// resources reads a Map[String, ResourceInformation].
func (r record) resources(field string) []ResourceInformation {
	entries := r.pairs(field)
	if len(entries) == 0 {
		return nil
	}
	out := make([]ResourceInformation, 0, len(entries))
	for _, e := range entries {
		o, ok := r.asObject(field, e.value, false)
		if !ok {
			return nil
		}
		info := ResourceInformation{Name: o.str("name")}
		if key := r.asString(field, e.key); key != info.Name {
			r.fail(field, "has a key that is not the name of its resource")
		}
		list, ok := o.node("addresses").(*javaser.Array)
		if !ok || len(list.Raw) > 0 {
			o.fail("addresses", "is not an array of strings")
			return nil
		}
		if !o.spend("addresses", len(list.Refs)) {
			return nil
		}
		info.Addresses = o.asStrings("addresses", list.Refs)
		out = append(out, info)
	}
	return out
}

// enumValue reads a value of a Scala Enumeration by its number, which is below count.
func (r record) enumValue(field string, n javaser.Node, enum string, count int32) uint8 {
	v, ok := r.asObject(field, n, false)
	if !ok {
		return 0
	}
	if v.o.Class.Name != "scala.Enumeration$Val" {
		r.fail(field, "is not an Enumeration value")
		return 0
	}
	if moduleName(v.node("$outer")) != enum {
		r.fail(field, "is a value of another Enumeration")
	}
	i := v.i32("i")
	if i < 0 || i >= count {
		r.fail(field, "is not a known value")
		return 0
	}
	return uint8(i)
}

func (r record) executorState(field string) ExecutorState {
	return ExecutorState(r.enumValue(field, r.node(field), executorStateClass, int32(executorStates)))
}

func (r record) driverState(field string, n javaser.Node) DriverState {
	return DriverState(r.enumValue(field, n, driverStateClass, int32(driverStates)))
}

// exception reads an Option[Exception].
func (r record) exception(field string) *Exception {
	n, ok := r.option(field)
	if !ok {
		return nil
	}
	o, ok := r.asObject(field, n, true) // Some(null) is no exception
	if !ok {
		return nil
	}
	return o.throwable()
}

func (r record) throwable() *Exception {
	return &Exception{Class: r.o.Class.Name, Message: throwableMessage(r.o, r.str("detailMessage")), Graph: r.o}
}

// throwableMessage is what getMessage returns, which java.nio.file.FileSystemException overrides: a worker reports one
// when a driver's jar is missing, and only its file says which.
func throwableMessage(o *javaser.Object, detail string) string {
	if !extends(o.Class, "java.nio.file.FileSystemException") {
		return detail
	}
	text := ""
	if v, _, _ := o.Get("file"); v.Ref != nil {
		text = stringOf(v.Ref)
	}
	if v, _, _ := o.Get("other"); v.Ref != nil {
		text += " -> " + stringOf(v.Ref)
	}
	switch {
	case text == "":
		return detail
	case detail == "":
		return text
	}
	return text + ": " + detail
}

func extends(c *javaser.Class, name string) bool {
	for ; c != nil; c = c.Super {
		if c.Name == name {
			return true
		}
	}
	return false
}

// stringOf returns the text of a string node, "" for any other.
func stringOf(n javaser.Node) string {
	if s, ok := n.(*javaser.String); ok {
		return s.Value
	}
	return ""
}
