package javaser

// Registry offers known class descriptors to the decoder, so that a stream of known classes makes no new ones, and
// equal descriptors of different streams are the same pointer. It is filled once and then only read, by any goroutine.
type Registry struct{ byName map[string][]*Class }

// NewRegistry returns an empty Registry.
func NewRegistry() *Registry { return &Registry{byName: make(map[string][]*Class)} }

// Intern returns the registered descriptor equal to c, registering c if there is none. Superclasses must have been
// interned before.
func (r *Registry) Intern(c *Class) *Class {
	for _, k := range r.byName[c.Name] {
		if k.Super == c.Super && k.sameSelf(c) {
			return k
		}
	}
	r.byName[c.Name] = append(r.byName[c.Name], c)
	return c
}

// Known reports whether any descriptor of that name is registered.
func (r *Registry) Known(name string) bool { return len(r.byName[name]) > 0 }

// candidate returns a descriptor that may turn out to be the one being read, judged by what comes before its fields.
func (r *Registry) candidate(name []byte, suid int64, flags byte, fields int) *Class {
	if r == nil {
		return nil
	}
	for _, k := range r.byName[string(name)] {
		if k.SUID == suid && k.Flags == flags && len(k.Fields) == fields {
			return k
		}
	}
	return nil
}

// match returns the registered descriptor that agrees with like but for the superclass, which is super; same tells
// whether all fields read were like's.
func (r *Registry) match(like *Class, same bool, super *Class) *Class {
	if like == nil || !same {
		return nil
	}
	for _, k := range r.byName[like.Name] {
		if k.Super == super && (k == like || k.sameSelf(like)) {
			return k
		}
	}
	return nil
}
