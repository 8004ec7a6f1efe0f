package sparktest

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// harness stands in for testing.TB where there is no test: a fatal error unwinds to Guard, which runs the cleanups and
// returns it.
type harness struct {
	name     string
	progress func(format string, args ...any)
	failed   atomic.Bool
	cleanups []func()
}

type fatal struct{ error }

func (h *harness) Helper()                      {}
func (h *harness) Name() string                 { return h.name }
func (h *harness) Failed() bool                 { return h.failed.Load() }
func (h *harness) Cleanup(f func())             { h.cleanups = append(h.cleanups, f) }
func (h *harness) Logf(format string, a ...any) { h.progress(format, a...) }
func (h *harness) Errorf(format string, a ...any) {
	h.failed.Store(true)
	h.progress("ERROR: "+format, a...)
}

func (h *harness) Fatalf(format string, a ...any) {
	h.failed.Store(true)
	panic(fatal{fmt.Errorf(format, a...)})
}

// Guard runs f, which drives clusters outside of a test, and always its cleanups; what would fail a test is returned.
// progress is given what a test would log.
func Guard(name string, progress func(format string, args ...any), f func(tb TB) error) (err error) {
	h := &harness{name: name, progress: progress}
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
