package javaser

import "raftmaster/transport/javaser/mutf8"

// classDesc reads a class descriptor, a reference to one, or null (nil). supers counts the subclasses on the way.
func (d *decoder) classDesc(supers int) *Class {
	switch d.u8() {
	case tcNull:
		return nil
	case tcReference:
		c, ok := d.reference().(*Class)
		if !ok {
			d.fail(ErrMalformed, "reference to an object where a descriptor belongs")
		}
		return c
	case tcClassDesc:
		return d.newClass(supers)
	}
	if d.err == nil {
		d.off--
		d.fail(ErrUnsupported, "descriptor type")
	}
	return nil
}

// newClass reads the descriptor after TC_CLASSDESC. While it agrees with a registered one, nothing is allocated.
func (d *decoder) newClass(supers int) *Class {
	name := d.nameBytes()
	suid := int64(d.u64())
	h := d.handle(nil)
	flags := d.u8()
	count := d.u16()
	if d.err == nil && (count > MaxFields || supers > MaxSupers) {
		d.fail(ErrLimit, "too many fields or superclasses")
	}
	if d.err == nil && len(name) == 0 {
		d.fail(ErrMalformed, "class without name")
	}
	if d.err != nil {
		return nil
	}
	like := d.known.candidate(name, suid, flags, count)
	outer := d.class
	if like != nil {
		d.class = like.Name
	} else {
		text, err := mutf8.Decode(name)
		if err != nil {
			d.fail(ErrMalformed, "class name is not modified UTF-8")
			return nil
		}
		d.class = text
	}
	c := &Class{Name: d.class, SUID: suid, Flags: flags}
	fields, same := d.fields(like, count)
	if end := d.u8(); d.err == nil && end != tcEndBlockData {
		d.off--
		d.fail(ErrUnsupported, "annotated descriptor")
	}
	c.Fields = fields
	c.Super = d.classDesc(supers + 1)
	if d.err != nil {
		return nil
	}
	if c.Super != nil && c.Super.depth >= MaxSupers {
		d.fail(ErrLimit, "too many superclasses")
		return nil
	}
	if k := d.known.match(like, same, c.Super); k != nil {
		c = k
	} else {
		c.link()
	}
	if c.slots > MaxFields*2 {
		d.fail(ErrLimit, "too many fields")
		return nil
	}
	if len(d.classes) >= MaxClasses {
		d.fail(ErrLimit, "too many classes")
		return nil
	}
	d.class = outer
	d.handles[h] = c
	d.classes = append(d.classes, c)
	return c
}

// fields reads count fields. While they are those of like, its slice is the result and same is true.
func (d *decoder) fields(like *Class, count int) (fields []Field, same bool) {
	same = like != nil
	if same {
		fields = like.Fields
	}
	for i := 0; i < count && d.err == nil; i++ {
		typ := d.u8()
		name := d.nameBytes()
		if same && (fields[i].Type != typ || fields[i].Name != string(name)) {
			same = false
			fields = append([]Field(nil), fields[:i]...)
		}
		if _, ok := elemSize(typ); !ok {
			d.fail(ErrMalformed, "field type")
		}
		f := Field{Type: typ}
		if f.isRef() {
			var like *String
			if same {
				like = fields[i].Signature
			}
			f.Signature = d.signature(like)
			if same && f.Signature != like && (f.Signature == nil || f.Signature.Value != like.Value) {
				same = false
				fields = append([]Field(nil), fields[:i]...)
			}
		}
		if same || d.err != nil {
			continue
		}
		text, err := mutf8.Decode(name)
		if err != nil {
			d.fail(ErrMalformed, "field name is not modified UTF-8")
		}
		f.Name = text
		fields = append(fields, f)
	}
	return fields, same
}

// signature reads the type of a reference field; a new string equal to like becomes like.
func (d *decoder) signature(like *String) *String {
	if like != nil && d.err == nil && d.off+3 <= len(d.b) && d.b[d.off] == tcString {
		n := int(d.b[d.off+1])<<8 | int(d.b[d.off+2])
		from := d.off + 3
		if from+n <= len(d.b) && string(d.b[from:from+n]) == like.Value {
			d.off = from + n
			d.handle(like)
			return like
		}
	}
	return d.stringNode("field signature")
}
