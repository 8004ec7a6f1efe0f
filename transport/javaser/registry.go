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
