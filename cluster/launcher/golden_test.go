package launcher_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"raftmaster/cluster/launcher"
	"raftmaster/cluster/launcher/launchertest"
)

// TestRecordedAnswersOfSpark replays what Spark's own command builder made of random commands (cluster/sparktest,
// TestLauncherAgainstSparksBuilder, flag -record-launcher).
func TestRecordedAnswersOfSpark(t *testing.T) {
	files, err := filepath.Glob("testdata/spark-*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var recordings []launchertest.Recording
		if err := json.Unmarshal(text, &recordings); err != nil {
			t.Fatal(err)
		}
		pairs := 0
		for _, r := range recordings {
			pairs += len(r.Pairs)
			replay(t, r)
		}
		if pairs < 100 {
			t.Errorf("%s has only %d cases", file, pairs)
		}
	}
}

func replay(t *testing.T, r launchertest.Recording) {
	t.Helper()
	root, dir, jdk := t.TempDir(), t.TempDir(), t.TempDir()
	if err := launchertest.MakeJava(jdk); err != nil {
		t.Fatal(err)
	}
	if err := launchertest.MakeRoot(root, filepath.Join(jdk, "bin", "java")); err != nil {
		t.Fatal(err)
	}
	if err := r.MakeHome(dir); err != nil {
		t.Fatal(err)
	}
	home, err := launcher.OpenHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = launchertest.Place(r, root, dir, jdk); err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	for i, p := range r.Pairs {
		if d := launchertest.Difference(p.Answer, p.Case.Ask(home, launchertest.Entries(r.Env), scratch)); d != "" {
			t.Errorf("%s, case %d: %s\n%+v", r.Release, i, d, p.Case)
		}
	}
}
