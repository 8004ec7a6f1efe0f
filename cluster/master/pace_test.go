package master

import (
	"testing"
	"time"
)

// Thousands of workers that register together are asked for their release, and whether they can be reached, only so many
// at a time; nobody is forgotten.
func TestQuestionsToManyPeersArePaced(t *testing.T) {
	w := newWorld(t)
	var begun, dropped int
	item := paced{begin: func() { begun++ }, dropped: func() { dropped++ }}
	p := &w.core.reachPace
	for range 3 * askBurst {
		w.core.begin(p, item)
	}
	if begun != askBurst {
		t.Fatalf("%d questions began at once, want %d", begun, askBurst)
	}
	w.advance(paceEvery)
	if want := askBurst + paceStep; begun != want {
		t.Fatalf("%d questions had begun after one pause, want %d", begun, want)
	}
	w.advance(time.Minute)
	if begun != 3*askBurst || dropped != 0 {
		t.Fatalf("%d questions began in all and %d were dropped, want %d and none", begun, dropped, 3*askBurst)
	}
	begun = 0
	for range askBurst {
		w.core.begin(p, item)
	}
	if begun != askBurst {
		t.Fatalf("after a rest %d questions began at once, want %d", begun, askBurst)
	}
}

// What waits when the term ends is told so, because a question for reach that was never asked must be asked again.
func TestAQuestionThatWaitsAtTheEndOfATermIsDropped(t *testing.T) {
	w := newWorld(t)
	var begun, dropped int
	for range askBurst + 5 {
		w.core.begin(&w.core.reachPace, paced{begin: func() { begun++ }, dropped: func() { dropped++ }})
	}
	w.core.Deposed(w.core.term)
	if begun != askBurst || dropped != 5 {
		t.Fatalf("%d began and %d were dropped, want %d and 5", begun, dropped, askBurst)
	}
}
