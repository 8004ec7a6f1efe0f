package main

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// harness stands in for testing.TB: a fatal error unwinds to guard, which runs
// the cleanups and returns it.
type harness struct {
	name     string
	failed   atomic.Bool
	cleanups []func()
}

type fatal struct{ error }

func (h *harness) Helper()                      {}
func (h *harness) Name() string                 { return "bench-" + h.name }
func (h *harness) Failed() bool                 { return h.failed.Load() }
func (h *harness) Cleanup(f func())             { h.cleanups = append(h.cleanups, f) }
func (h *harness) Logf(format string, a ...any) { progress(format, a...) }
func (h *harness) Errorf(format string, a ...any) {
	h.failed.Store(true)
	progress("ERROR: "+format, a...)
}

func (h *harness) Fatalf(format string, a ...any) {
	h.failed.Store(true)
	panic(fatal{fmt.Errorf(format, a...)})
}

// guard runs f with a harness and always its cleanups.
func guard(name string, f func(h *harness) error) (err error) {
	h := &harness{name: name}
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(fatal)
			if !ok {
				h.failed.Store(true)
				h.runCleanups()
				panic(r)
			}
			err = errors.Join(err, f.error)
		}
		if err != nil {
			h.failed.Store(true)
		}
		h.runCleanups()
	}()
	return f(h)
}

func (h *harness) runCleanups() {
	for i := len(h.cleanups) - 1; i >= 0; i-- {
		h.cleanups[i]()
	}
	h.cleanups = nil
}
