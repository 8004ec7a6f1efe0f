package javaser

import "math"

// Node is a value with identity: *Object, *String, *Array, *Enum, *ClassObject or, inside annotations only, *Block.
// A nil Node is Java's null.
type Node interface{ node() }

// Value is the content of one field. A field of primitive type uses Bits, any other Ref.
type Value struct {
	Bits uint64 // two's complement of integers, 0/1 of booleans, IEEE bits of floats (float in the low 32 bits)
	Ref  Node
}

// Object is an instance of a serializable class that is no string, array, enum or class.
type Object struct {
	Class *Class
	// Fields holds the values of all classes of the hierarchy, the topmost superclass first, each in declared order.
	Fields []Value
	// Annotations holds what writeObject methods wrote beyond the default fields; classes that wrote nothing are absent.
	Annotations []Annotation
}

// Annotation is what one class of an object's hierarchy wrote by itself.
type Annotation struct {
	Class *Class // the class in the hierarchy
	Items []Node // *Block for primitive data
}

// String is a Java string instance.
type String struct{ Value string }

// Array is a Java array. Primitive elements are kept as their big-endian bytes in Raw, references in Refs.
type Array struct {
	Class *Class
	Raw   []byte
	Refs  []Node
}

// Enum is a constant of a Java enum (not of scala.Enumeration, whose values are ordinary objects).
type Enum struct {
	Class *Class
	Name  *String
}

// ClassObject is an instance of java.lang.Class; Class is nil for none (never written by a JVM).
type ClassObject struct{ Class *Class }

// Block is primitive data inside an annotation. It has no identity in the stream.
type Block struct{ Data []byte }

func (*Object) node()      {}
func (*String) node()      {}
func (*Array) node()       {}
func (*Enum) node()        {}
func (*ClassObject) node() {}
func (*Block) node()       {}

// Flags of class descriptors (java.io.ObjectStreamConstants).
const (
	FlagWriteMethod    = 0x01 // has an annotation after the fields
	FlagSerializable   = 0x02
	FlagExternalizable = 0x04
	FlagBlockData      = 0x08 // externalizable content is in block data
	FlagEnum           = 0x10
)

// Class is a class descriptor. It is immutable once it is used, and may be shared.
type Class struct {
	Name   string // as in the stream: org.example.Outer$Inner, [I, [Ljava.lang.String;
	SUID   int64  // serialVersionUID
	Flags  byte
	Fields []Field
	Super  *Class // nil if the superclass is not serializable

	slots int // fields of the whole hierarchy
	depth int // superclasses above
}

// Field is one serializable field of a class descriptor.
type Field struct {
	Type byte   // B C D F I J S Z, or L and [ for references
	Name string // as in the stream
	// Signature is the type of a reference field, "Ljava/lang/String;", as the string node of the stream; else nil.
	Signature *String
}

// NewClass returns a descriptor. Fields must be in wire order. It panics if a reference field lacks a signature.
func NewClass(name string, suid int64, flags byte, fields []Field, super *Class) *Class {
	c := &Class{Name: name, SUID: suid, Flags: flags, Fields: fields, Super: super}
	for _, f := range fields {
		if f.isRef() && f.Signature == nil {
			panic("javaser: field " + name + "." + f.Name + " has no signature")
		}
	}
	c.link()
	return c
}

func (c *Class) link() {
	c.slots = len(c.Fields)
	if c.Super != nil {
		c.slots += c.Super.slots
		c.depth = c.Super.depth + 1
	}
}

// Slots returns how many values an object of the class has, superclasses included.
func (c *Class) Slots() int { return c.slots }

func (f Field) isRef() bool { return f.Type == 'L' || f.Type == '[' }

// Equal reports whether two descriptors say the same: name, SUID, flags, fields and superclasses.
func (c *Class) Equal(o *Class) bool {
	for c != o {
		if c == nil || o == nil || !c.sameSelf(o) {
			return false
		}
		c, o = c.Super, o.Super
	}
	return true
}

func (c *Class) sameSelf(o *Class) bool {
	if c.Name != o.Name || c.SUID != o.SUID || c.Flags != o.Flags || len(c.Fields) != len(o.Fields) {
		return false
	}
	for i, f := range c.Fields {
		g := o.Fields[i]
		if f.Type != g.Type || f.Name != g.Name || f.isRef() && f.Signature.Value != g.Signature.Value {
			return false
		}
	}
	return true
}

// Slot returns the index into Object.Fields of the named field, looking in c first and then in its superclasses, and
// the field's type; ok is false if there is none.
func (c *Class) Slot(name string) (slot int, typ byte, ok bool) {
	for k := c; k != nil; k = k.Super {
		for i := range k.Fields {
			if k.Fields[i].Name == name {
				return k.slots - len(k.Fields) + i, k.Fields[i].Type, true
			}
		}
	}
	return 0, 0, false
}

// New returns an object of class c with every field zero or null.
func New(c *Class) *Object { return &Object{Class: c, Fields: make([]Value, c.slots)} }

// Get returns the named field; ok is false if the class has no such field.
func (o *Object) Get(name string) (v Value, typ byte, ok bool) {
	slot, typ, ok := o.Class.Slot(name)
	if !ok || slot >= len(o.Fields) { // an externalizable object has no fields

		return Value{}, 0, false
	}
	return o.Fields[slot], typ, true
}

// Set sets the named field and reports whether the class has it.
func (o *Object) Set(name string, v Value) bool {
	slot, _, ok := o.Class.Slot(name)
	ok = ok && slot < len(o.Fields)
	if ok {
		o.Fields[slot] = v
	}
	return ok
}

// Annotation returns what the named class of the hierarchy wrote, nil if nothing.
func (o *Object) Annotation(class string) []Node {
	for i := range o.Annotations {
		if o.Annotations[i].Class.Name == class {
			return o.Annotations[i].Items
		}
	}
	return nil
}

// Int returns a value for a field of type int, short or byte.
func Int(v int32) Value { return Value{Bits: uint64(int64(v))} }

// Long returns a value for a field of type long.
func Long(v int64) Value { return Value{Bits: uint64(v)} }

// Bool returns a value for a field of type boolean.
func Bool(v bool) Value {
	if v {
		return Value{Bits: 1}
	}
	return Value{}
}

// Double returns a value for a field of type double.
func Double(v float64) Value { return Value{Bits: math.Float64bits(v)} }

// Ref returns a value for a reference field.
func Ref(n Node) Value { return Value{Ref: n} }

// Str returns a value for a reference field that holds a new string instance.
func Str(s string) Value { return Value{Ref: &String{Value: s}} }

// Int returns the value of an int field.
func (v Value) Int() int32 { return int32(v.Bits) }

// Long returns the value of a long field.
func (v Value) Long() int64 { return int64(v.Bits) }

// Bool returns the value of a boolean field.
func (v Value) Bool() bool { return v.Bits != 0 }

// Double returns the value of a double field.
func (v Value) Double() float64 { return math.Float64frombits(v.Bits) }
