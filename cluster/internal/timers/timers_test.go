package timers

import (
	"slices"
	"testing"
	"time"
)

func drain(q *Queue, now time.Time) {
	for fn := q.Due(now); fn != nil; fn = q.Due(now) {
		fn()
	}
}

func TestTimersRunInTheOrderOfTheirMomentsThenOfTheirCreation(t *testing.T) {
	var q Queue
	var ran []string
	base := time.Unix(1000, 0)
	note := func(s string) func() { return func() { ran = append(ran, s) } }
	q.Add(base.Add(2*time.Second), note("c"))
	q.Add(base.Add(time.Second), note("a"))
	q.Add(base.Add(time.Second), note("b"))
	q.Add(base.Add(time.Second), note("stopped")).Stop()
	q.Add(base.Add(3*time.Second), note("later"))
	q.Add(base.Add(time.Second), func() { q.Add(base.Add(time.Second), note("added meanwhile")) })
	drain(&q, base)
	if len(ran) > 0 {
		t.Fatalf("ran too early: %v", ran)
	}
	drain(&q, base.Add(2*time.Second))
	if want := []string{"a", "b", "added meanwhile", "c"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	if at, any := q.Next(); !any || !at.Equal(base.Add(3*time.Second)) {
		t.Errorf("next at %v, %t", at, any)
	}
}

func TestShiftedTimersWaitLonger(t *testing.T) {
	var q Queue
	ran := 0
	base := time.Unix(1000, 0)
	q.Add(base, func() { ran++ })
	q.Shift(time.Minute)
	drain(&q, base.Add(59*time.Second))
	if ran != 0 {
		t.Error("it ran before the moment it was moved to")
	}
	drain(&q, base.Add(time.Minute))
	if ran != 1 {
		t.Error("it did not run at the moment it was moved to")
	}
}

func TestStoppedAndForgottenTimersNeverRun(t *testing.T) {
	var q Queue
	var none *Timer
	none.Stop()
	base := time.Unix(1000, 0)
	stopped := q.Add(base, func() { t.Error("a stopped timer ran") })
	stopped.Stop()
	stopped.Stop()
	if q.Len() != 0 || q.Held() != 1 {
		t.Errorf("%d to run and %d held, want 0 and 1", q.Len(), q.Held())
	}
	if at, any := q.Next(); any || q.Held() != 0 {
		t.Errorf("a stopped timer is next, at %v", at)
	}
	q.Add(base, func() { t.Error("a forgotten timer ran") })
	q.Clear()
	drain(&q, base.Add(time.Hour))
}
