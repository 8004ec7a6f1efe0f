package launcher

import (
	"strings"

	"raftmaster/transport/sparkmsg"
)

// environ is an environment in which each name occurs once, in the order in which names first came.
type environ struct {
	names  []string
	values map[string]string
}

// newEnviron reads NAME=value entries; entries without "=" are no variables and are left out, as the JVM leaves them out.
func newEnviron(entries []string) *environ {
	e := &environ{names: make([]string, 0, len(entries)), values: make(map[string]string, len(entries))}
	for _, entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			e.set(name, value)
		}
	}
	return e
}

// commandEnviron is the environment of a command alone.
func commandEnviron(vars []sparkmsg.EnvVar) *environ {
	e := &environ{values: make(map[string]string, len(vars))}
	for _, v := range vars {
		e.set(v.Name, v.Value)
	}
	return e
}

func (e *environ) get(name string) string { return e.values[name] }

func (e *environ) lookup(name string) (string, bool) {
	v, ok := e.values[name]
	return v, ok
}

func (e *environ) set(name, value string) {
	if _, known := e.values[name]; !known {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environ) setAll(o *environ) {
	for _, name := range o.names {
		e.set(name, o.values[name])
	}
}

func (e *environ) entries() []string {
	out := make([]string, len(e.names))
	for i, name := range e.names {
		out[i] = name + "=" + e.values[name]
	}
	return out
}

// pair is where Spark's launcher looks a variable up: the command's environment first, then the worker's; "" counts as
// unset (AbstractCommandBuilder.getenv).
type pair struct{ command, worker *environ }

func (p pair) get(name string) string {
	if v := p.command.get(name); v != "" {
		return v
	}
	return p.worker.get(name)
}
