package javaser

import (
	"encoding/binary"

	"raftmaster/transport/javaser/mutf8"
)

// Append appends root as a stream of its own to dst. It fails with an *Error if the graph exceeds lim or is not well
// formed (field counts, blocks outside annotations); dst's new part is then worthless. The graph is only read.
func Append(dst []byte, root Node, lim Limits) ([]byte, error) {
	e := encoder{dst: dst, start: len(dst), lim: lim.withDefaults()}
	e.dst = binary.BigEndian.AppendUint32(e.dst, magicAndVersion)
	e.content(root, 0)
	if e.err == nil && len(e.dst)-e.start > e.lim.Bytes {
		e.fail(ErrLimit, "stream is too long")
	}
	if e.err != nil {
		return nil, e.err
	}
	return e.dst, nil
}

// Encode returns root as a stream; see Append.
func Encode(root Node, lim Limits) ([]byte, error) { return Append(nil, root, lim) }

// encoder writes one stream; the first error sticks.
type encoder struct {
	dst     []byte
	start   int
	lim     Limits
	nodes   map[Node]uint32
	classes []writtenClass
	sigs    map[string]uint32 // field signatures by content
	next    uint32
	class   string
	err     error
}

// Streams hold few distinct descriptors, at most MaxClasses: searching a slice costs less than filling a map.
type writtenClass struct {
	c *Class
	h uint32
}

func (e *encoder) fail(cause error, detail string) {
	if e.err == nil {
		e.err = &Error{Offset: len(e.dst) - e.start, Class: e.class, Cause: cause, Detail: detail}
	}
}

// handle takes the next handle.
func (e *encoder) handle() uint32 {
	if int(e.next) >= e.lim.Handles {
		e.fail(ErrLimit, "too many handles")
	}
	if len(e.dst)-e.start > e.lim.Bytes {
		e.fail(ErrLimit, "stream is too long")
	}
	h := e.next
	e.next++
	return h
}

func (e *encoder) remember(n Node) {
	if e.nodes == nil {
		e.nodes = make(map[Node]uint32, 32)
	}
	e.nodes[n] = e.handle()
}

func (e *encoder) reference(h uint32) {
	e.dst = binary.BigEndian.AppendUint32(append(e.dst, tcReference), baseHandle+h)
}

func (e *encoder) content(n Node, depth int) {
	if e.err == nil && depth >= e.lim.Depth {
		e.fail(ErrLimit, "nested too deeply")
	}
	if e.err != nil {
		return
	}
	if n == nil {
		e.dst = append(e.dst, tcNull)
		return
	}
	if h, ok := e.nodes[n]; ok {
		e.reference(h)
		return
	}
	switch n := n.(type) {
	case *String:
		e.newString(n)
	case *Object:
		e.object(n, depth)
	case *Array:
		e.array(n, depth)
	case *Enum:
		e.dst = append(e.dst, tcEnum)
		e.classDesc(n.Class)
		e.remember(n)
		if n.Name == nil {
			e.fail(ErrMalformed, "enum without name")
			return
		}
		e.content(n.Name, depth)
	case *ClassObject:
		e.dst = append(e.dst, tcClass)
		e.classDesc(n.Class)
		e.remember(n)
	default:
		e.fail(ErrMalformed, "block outside an annotation")
	}
}

func (e *encoder) newString(s *String) {
	n := mutf8.Len(s.Value)
	if n <= 1<<16-1 {
		e.dst = append(e.dst, tcString, byte(n>>8), byte(n))
	} else {
		e.dst = binary.BigEndian.AppendUint64(append(e.dst, tcLongString), uint64(n))
	}
	e.remember(s)
	e.dst = mutf8.Append(e.dst, s.Value)
}

// name writes a short string without handle.
func (e *encoder) name(s string) {
	n := mutf8.Len(s)
	if n > MaxNameBytes {
		e.fail(ErrLimit, "name is too long")
		return
	}
	e.dst = append(e.dst, byte(n>>8), byte(n))
	e.dst = mutf8.Append(e.dst, s)
}

func (e *encoder) object(o *Object, depth int) {
	c := o.Class
	e.dst = append(e.dst, tcObject)
	e.classDesc(c)
	e.remember(o)
	if e.err != nil {
		return
	}
	if c == nil {
		e.fail(ErrMalformed, "object without descriptor")
		return
	}
	outer := e.class
	e.class = c.Name
	if c.Flags&FlagExternalizable != 0 {
		e.annotation(o, c, depth)
	} else if len(o.Fields) != c.slots {
		e.fail(ErrMalformed, "number of fields differs from the descriptor's")
	} else {
		e.classData(o, c, depth)
	}
	e.class = outer
}

func (e *encoder) classData(o *Object, c *Class, depth int) {
	if c.Super != nil {
		e.classData(o, c.Super, depth)
	}
	base := c.slots - len(c.Fields)
	for i := range c.Fields {
		if e.err != nil {
			return
		}
		v := o.Fields[base+i]
		switch size, _ := elemSize(c.Fields[i].Type); size {
		case 1:
			e.dst = append(e.dst, byte(v.Bits))
		case 2:
			e.dst = binary.BigEndian.AppendUint16(e.dst, uint16(v.Bits))
		case 4:
			e.dst = binary.BigEndian.AppendUint32(e.dst, uint32(v.Bits))
		case 8:
			e.dst = binary.BigEndian.AppendUint64(e.dst, v.Bits)
		default:
			e.content(v.Ref, depth+1)
		}
	}
	if c.Flags&FlagWriteMethod != 0 {
		e.annotation(o, c, depth)
	}
}

func (e *encoder) annotation(o *Object, c *Class, depth int) {
	for i := range o.Annotations {
		if o.Annotations[i].Class != c {
			continue
		}
		for _, n := range o.Annotations[i].Items {
			b, ok := n.(*Block)
			if !ok {
				e.content(n, depth+1)
				continue
			}
			if len(b.Data) <= 0xFF {
				e.dst = append(e.dst, tcBlockData, byte(len(b.Data)))
			} else {
				e.dst = binary.BigEndian.AppendUint32(append(e.dst, tcBlockDataLong), uint32(len(b.Data)))
			}
			e.dst = append(e.dst, b.Data...)
		}
	}
	e.dst = append(e.dst, tcEndBlockData)
}

func (e *encoder) array(a *Array, depth int) {
	e.dst = append(e.dst, tcArray)
	e.classDesc(a.Class)
	e.remember(a)
	if e.err != nil {
		return
	}
	if a.Class == nil || len(a.Class.Name) < 2 {
		e.fail(ErrMalformed, "array without element type")
		return
	}
	outer := e.class
	e.class = a.Class.Name
	size, ok := elemSize(a.Class.Name[1])
	switch {
	case !ok || size > 0 && len(a.Raw)%size != 0:
		e.fail(ErrMalformed, "array element type")
	case size > 0:
		e.dst = binary.BigEndian.AppendUint32(e.dst, uint32(len(a.Raw)/size))
		e.dst = append(e.dst, a.Raw...)
	default:
		e.dst = binary.BigEndian.AppendUint32(e.dst, uint32(len(a.Refs)))
		for _, n := range a.Refs {
			e.content(n, depth+1)
		}
	}
	e.class = outer
}

// classDesc writes a descriptor, or a reference if an equal one was written.
func (e *encoder) classDesc(c *Class) {
	if c == nil {
		e.dst = append(e.dst, tcNull)
		return
	}
	for i := range e.classes {
		if w := &e.classes[i]; w.c == c || w.c.Name == c.Name && w.c.Equal(c) {
			e.reference(w.h)
			return
		}
	}
	if len(e.classes) >= MaxClasses {
		e.fail(ErrLimit, "too many classes")
		return
	}
	e.dst = append(e.dst, tcClassDesc)
	e.name(c.Name)
	e.dst = binary.BigEndian.AppendUint64(e.dst, uint64(c.SUID))
	if e.classes == nil {
		e.classes = make([]writtenClass, 0, 32)
	}
	e.classes = append(e.classes, writtenClass{c: c, h: e.handle()})
	e.dst = append(e.dst, c.Flags, byte(len(c.Fields)>>8), byte(len(c.Fields)))
	for i := range c.Fields {
		f := &c.Fields[i]
		e.dst = append(e.dst, f.Type)
		e.name(f.Name)
		if f.isRef() {
			e.signature(f.Signature)
		}
	}
	e.dst = append(e.dst, tcEndBlockData)
	if e.err == nil {
		e.classDesc(c.Super)
	}
}

// signature writes the type of a field. A JVM interns signatures, so equal ones are one instance.
func (e *encoder) signature(s *String) {
	if h, ok := e.nodes[s]; ok {
		e.reference(h)
		return
	}
	if h, ok := e.sigs[s.Value]; ok {
		e.reference(h)
		return
	}
	if e.sigs == nil {
		e.sigs = make(map[string]uint32, 16)
	}
	e.sigs[s.Value] = e.next
	e.newString(s)
}
