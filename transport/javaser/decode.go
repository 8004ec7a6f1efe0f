package javaser

import (
	"encoding/binary"

	"raftmaster/transport/javaser/mutf8"
)

// Graph is a decoded stream.
type Graph struct {
	Root Node
	// Classes holds every class descriptor of the stream, superclasses included, in order of appearance.
	Classes []*Class
}

// Decode decodes one stream: the header and exactly one object. Descriptors that known holds are taken from it; known
// may be nil. Nothing of the result refers to the memory of stream. A malformed stream gives an *Error.
func Decode(stream []byte, lim Limits, known *Registry) (Graph, error) {
	d := decoder{b: stream, lim: lim.withDefaults(), known: known}
	if len(stream) > d.lim.Bytes {
		d.fail(ErrLimit, "stream is too long")
		return Graph{}, d.err
	}
	if h := d.take(4); d.err == nil && binary.BigEndian.Uint32(h) != magicAndVersion {
		d.off = 0
		d.fail(ErrHeader, "")
	}
	root := d.content(0)
	if d.err == nil && d.off != len(d.b) {
		d.fail(ErrTrailing, "")
	}
	if d.err != nil {
		return Graph{}, d.err
	}
	return Graph{Root: root, Classes: d.classes}, nil
}

// decoder reads one stream. The first error sticks; after it every read gives zero values and loops end.
type decoder struct {
	b       []byte
	off     int
	lim     Limits
	known   *Registry
	handles []any // Node, or *Class; nil while a descriptor is being read
	classes []*Class
	values  int     // fields and elements so far
	slab    []Value // room for the fields of the next objects
	class   string  // innermost class, for errors
	err     error
}

func (d *decoder) fail(cause error, detail string) {
	if d.err == nil {
		d.err = &Error{Offset: d.off, Class: d.class, Cause: cause, Detail: detail}
	}
}

func (d *decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n > len(d.b)-d.off {
		d.fail(ErrTruncated, "")
		return nil
	}
	b := d.b[d.off : d.off+n]
	d.off += n
	return b
}

func (d *decoder) u8() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() int {
	if b := d.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) i32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// nameBytes reads the bytes of a short name.
func (d *decoder) nameBytes() []byte {
	n := d.u16()
	if n > MaxNameBytes {
		d.fail(ErrLimit, "name is too long")
	}
	return d.take(n)
}

// text converts n bytes of modified UTF-8.
func (d *decoder) text(n int) string {
	start := d.off
	raw := d.take(n)
	if d.err != nil {
		return ""
	}
	s, err := mutf8.Decode(raw)
	if err != nil {
		d.off = start
		d.fail(ErrMalformed, "string is not modified UTF-8")
	}
	return s
}

// handle gives h the next handle.
func (d *decoder) handle(h any) int {
	if d.err == nil && len(d.handles) >= d.lim.Handles {
		d.fail(ErrLimit, "too many handles")
	}
	if d.err != nil {
		return 0
	}
	if d.handles == nil {
		d.handles = make([]any, 0, min(64, d.lim.Handles))
	}
	d.handles = append(d.handles, h)
	return len(d.handles) - 1
}

// reference reads the handle of a TC_REFERENCE and returns what has it.
func (d *decoder) reference() any {
	n := int64(d.i32()) - baseHandle
	if d.err != nil {
		return nil
	}
	if n < 0 || n >= int64(len(d.handles)) {
		d.off -= 4
		d.fail(ErrMalformed, "reference to a handle not given yet")
		return nil
	}
	h := d.handles[n]
	if h == nil {
		d.off -= 4
		d.fail(ErrMalformed, "reference to a descriptor inside itself")
	}
	return h
}

// content reads one object, string, array, enum, class, null or reference.
func (d *decoder) content(depth int) Node {
	tc := d.u8()
	return d.contentOf(tc, depth)
}

func (d *decoder) contentOf(tc byte, depth int) Node {
	if d.err == nil && depth >= d.lim.Depth {
		d.off--
		d.fail(ErrLimit, "nested too deeply")
	}
	if d.err != nil {
		return nil
	}
	switch tc {
	case tcNull:
		return nil
	case tcReference:
		if n, ok := d.reference().(Node); ok {
			return n
		}
		d.fail(ErrMalformed, "reference to a descriptor where an object belongs")
	case tcObject:
		return d.object(depth)
	case tcString, tcLongString:
		return d.newString(tc)
	case tcArray:
		return d.array(depth)
	case tcEnum:
		return d.enum()
	case tcClass:
		c := d.classDesc(0)
		if d.err == nil && c == nil {
			d.fail(ErrMalformed, "class object without descriptor")
			return nil
		}
		n := &ClassObject{Class: c}
		d.handle(n)
		return n
	default:
		d.off--
		d.fail(ErrUnsupported, "element type")
	}
	return nil
}

func (d *decoder) newString(tc byte) *String {
	var n uint64
	if tc == tcLongString {
		n = d.u64()
	} else {
		n = uint64(d.u16())
	}
	if d.err == nil && n > uint64(len(d.b)-d.off) {
		d.fail(ErrTruncated, "string")
	}
	s := &String{}
	d.handle(s)
	s.Value = d.text(int(n))
	return s
}

// room counts n more values and reports whether the limits and the rest of the stream allow them; every value takes
// at least one byte.
func (d *decoder) room(n int) bool {
	switch {
	case d.err != nil:
	case n > len(d.b)-d.off:
		d.fail(ErrTruncated, "")
	case n > d.lim.Values-d.values:
		d.fail(ErrLimit, "too many fields and elements")
	default:
		d.values += n
		return true
	}
	return false
}

// slots returns n zero values from the slab.
func (d *decoder) slots(n int) []Value {
	if !d.room(n) || n == 0 {
		return nil
	}
	if n > len(d.slab) {
		d.slab = make([]Value, max(n, min(32, len(d.b)-d.off)))
	}
	s := d.slab[:n:n]
	d.slab = d.slab[n:]
	return s
}

func (d *decoder) object(depth int) Node {
	c := d.classDesc(0)
	if d.err != nil {
		return nil
	}
	if c == nil || c.Flags&FlagEnum != 0 || c.Flags&(FlagSerializable|FlagExternalizable) == 0 || c.Name[0] == '[' {
		d.fail(ErrMalformed, "descriptor does not fit an object")
		return nil
	}
	o := &Object{Class: c}
	d.handle(o)
	outer := d.class
	d.class = c.Name
	if c.Flags&FlagExternalizable != 0 {
		if c.Flags&FlagBlockData == 0 {
			d.fail(ErrUnsupported, "externalizable without block data")
		}
		d.annotation(o, c, depth)
	} else {
		o.Fields = d.slots(c.slots)
		d.classData(o, c, depth)
	}
	d.class = outer
	return o
}

// classData reads what c and its superclasses, the topmost first, wrote for o.
func (d *decoder) classData(o *Object, c *Class, depth int) {
	if c.Super != nil {
		d.classData(o, c.Super, depth)
	}
	if d.err != nil {
		return
	}
	if c.Flags&FlagSerializable == 0 {
		d.fail(ErrMalformed, "superclass is not serializable")
		return
	}
	base := c.slots - len(c.Fields)
	for i := range c.Fields {
		o.Fields[base+i] = d.value(c.Fields[i].Type, depth)
		if d.err != nil {
			return
		}
	}
	if c.Flags&FlagWriteMethod != 0 {
		d.annotation(o, c, depth)
	}
}

func (d *decoder) value(typ byte, depth int) Value {
	switch typ {
	case 'B':
		return Value{Bits: uint64(int64(int8(d.u8())))}
	case 'Z':
		b := d.u8()
		if b > 1 {
			d.fail(ErrMalformed, "boolean is neither 0 nor 1")
		}
		return Value{Bits: uint64(b)}
	case 'S':
		return Value{Bits: uint64(int64(int16(d.u16())))}
	case 'C':
		return Value{Bits: uint64(d.u16())}
	case 'I':
		return Int(d.i32())
	case 'F':
		return Value{Bits: uint64(uint32(d.i32()))}
	case 'J', 'D':
		return Value{Bits: d.u64()}
	}
	return Value{Ref: d.content(depth + 1)}
}

// annotation reads items up to TC_ENDBLOCKDATA and notes them in o if there are any.
func (d *decoder) annotation(o *Object, c *Class, depth int) {
	var items []Node
	for d.err == nil {
		tc := d.u8()
		if d.err != nil {
			return
		}
		var n int
		switch tc {
		case tcEndBlockData:
			if items != nil {
				o.Annotations = append(o.Annotations, Annotation{Class: c, Items: items})
			}
			return
		case tcBlockData:
			n = int(d.u8())
		case tcBlockDataLong:
			if n = int(d.i32()); n < 0 {
				d.fail(ErrMalformed, "negative block length")
			}
		default:
			if !d.room(1) {
				return
			}
			items = append(items, d.contentOf(tc, depth+1))
			continue
		}
		if b := d.take(n); d.room(0) {
			items = append(items, &Block{Data: append([]byte(nil), b...)})
		}
	}
}

func (d *decoder) array(depth int) Node {
	c := d.classDesc(0)
	if d.err != nil {
		return nil
	}
	if c == nil || len(c.Name) < 2 || c.Name[0] != '[' || len(c.Fields) > 0 || c.Super != nil {
		d.fail(ErrMalformed, "descriptor does not fit an array")
		return nil
	}
	size, ok := elemSize(c.Name[1])
	a := &Array{Class: c}
	d.handle(a)
	n := int(d.i32())
	if d.err == nil && (n < 0 || !ok) {
		d.fail(ErrMalformed, "array length or element type")
	}
	if d.err != nil {
		return nil
	}
	if size > 0 {
		if n > (len(d.b)-d.off)/size {
			d.fail(ErrTruncated, "array")
		}
		a.Raw = append([]byte(nil), d.take(n*size)...)
		return a
	}
	if !d.room(n) {
		return nil
	}
	a.Refs = make([]Node, n)
	outer := d.class
	d.class = c.Name
	for i := 0; i < n && d.err == nil; i++ {
		a.Refs[i] = d.content(depth + 1)
	}
	d.class = outer
	return a
}

func (d *decoder) enum() Node {
	c := d.classDesc(0)
	if d.err != nil {
		return nil
	}
	if c == nil || c.Flags&FlagEnum == 0 {
		d.fail(ErrMalformed, "descriptor does not fit an enum")
		return nil
	}
	e := &Enum{Class: c}
	d.handle(e)
	e.Name = d.stringNode("enum constant")
	return e
}

// stringNode reads a short string or a reference to a string.
func (d *decoder) stringNode(what string) *String {
	switch tc := d.u8(); tc {
	case tcString:
		if raw := d.b[d.off:]; len(raw) >= 2 && int(binary.BigEndian.Uint16(raw)) > MaxNameBytes {
			d.fail(ErrLimit, "name is too long")
		}
		return d.newString(tc)
	case tcReference:
		if s, ok := d.reference().(*String); ok {
			return s
		}
	}
	d.fail(ErrMalformed, what+" is not a string")
	return nil
}
