package drill

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// A report of very many rounds does not make the history unreadable.
func TestALongReportIsKeptShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drills.jsonl")
	long := &Report{Drill: "long", Outcome: Passed}
	for range 110 {
		x := newRound(len(long.Rounds)+1, Transfer)
		x.Outcome = Passed
		x.Timeline = append(x.Timeline, Moment{What: strings.Repeat("x", maxHistoryLine/100)})
		long.Rounds = append(long.Rounds, *x)
	}
	hopeless := &Report{Drill: "hopeless", By: strings.Repeat("x", maxHistoryLine)}
	if err := errors.Join(Append(path, &Report{Drill: "first"}), Append(path, long)); err != nil {
		t.Fatal(err)
	}
	if err := Append(path, hopeless); !errors.Is(err, errTooLong) {
		t.Errorf("one that cannot be read back: %v", err)
	}
	if err := Append(path, &Report{Drill: "last"}); err != nil {
		t.Fatal(err)
	}
	reports, broken, err := History(path, 0)
	if err != nil || broken != 0 || len(reports) != 3 || reports[1].Drill != "long" || len(reports[1].Rounds) != 110 || reports[2].Drill != "last" {
		t.Errorf("%d reports, %d broken, %v", len(reports), broken, err)
	}
	if len(long.Rounds[0].Timeline) != 1 {
		t.Error("the caller's report has lost its timeline")
	}
}
