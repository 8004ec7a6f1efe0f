package runner

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

func TestLocalDirs(t *testing.T) {
	r := newRunner(t, Options{})
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(base, "a"), filepath.Join(base, "b")
	l, err := r.NewLocalDirs([]string{a, "", a, filepath.Join(file, "x"), b})
	if err != nil {
		t.Fatal(err)
	}
	if exists(a) {
		t.Error("made before it is needed")
	}
	first, err := l.Create("app-1")
	if err != nil || len(first) != 2 {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := l.Create("app-1")
	if err != nil || len(again) != 2 || again[0] != first[0] || again[1] != first[1] {
		t.Errorf("executors of one application have different directories: %v, %v", again, err)
	}
	other, err := l.Create("app-2")
	if err != nil || filepath.Dir(other[0]) != filepath.Dir(first[0]) || other[0] == first[0] {
		t.Errorf("%v, %v", other, err)
	}
	const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
	shape := regexp.MustCompile(`^` + regexp.QuoteMeta(a) + `/spark-` + uuid + `/executor-` + uuid + `$`)
	if !shape.MatchString(first[0]) {
		t.Errorf("path %s", first[0])
	}
	for _, dir := range []string{first[0], filepath.Dir(first[0]), first[1]} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v %v", dir, info, err)
		}
	}
	precious := filepath.Join(base, "precious")
	if err := os.WriteFile(precious, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(base, filepath.Join(first[0], "link")); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove("app-1"); err != nil || exists(first[0]) || exists(first[1]) || !exists(other[0]) || !exists(precious) {
		t.Errorf("after removal: %v", err)
	}
	if err := l.Remove("app-1"); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil || exists(filepath.Dir(first[0])) || !exists(a) {
		t.Errorf("after close: %v", err)
	}
	if left, err := readNote(l.note); err != nil || len(left) != 0 {
		t.Errorf("note %v, %v", left, err)
	}
}

func TestLocalDirsAllFail(t *testing.T) {
	r := newRunner(t, Options{})
	if _, err := r.NewLocalDirs([]string{""}); err == nil {
		t.Error("no roots")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := r.NewLocalDirs([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	if dirs, err := l.Create("app-1"); err == nil {
		t.Errorf("made %v", dirs)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if dirs, err := l.Create("app-1"); err != nil || len(dirs) != 1 {
		t.Errorf("after mending: %v, %v", dirs, err)
	}
}

// TestLocalDirsOfAKilledWorker are removed by the next one, and nothing that a damaged note names.
func TestLocalDirsOfAKilledWorker(t *testing.T) {
	work, root := t.TempDir(), t.TempDir()
	r, err := New(Options{WorkDir: work})
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.NewLocalDirs([]string{root})
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := l.Create("app-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(0, time.Second); err != nil { // without l.Close
		t.Fatal(err)
	}
	victim := filepath.Join(root, "data")
	if err := os.Mkdir(victim, 0o755); err != nil {
		t.Fatal(err)
	}
	note := `["` + filepath.Dir(dirs[0]) + `","` + victim + `","relative","/","` + root + `"]`
	if err := os.WriteFile(l.note, []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	next := newRunner(t, Options{WorkDir: work})
	l, err = next.NewLocalDirs([]string{root})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := l.Create("app-2")
	if err != nil {
		t.Fatal(err)
	}
	n, err := l.RemoveLeftovers(context.Background())
	if err != nil || n != 1 || exists(filepath.Dir(dirs[0])) || !exists(victim) || !exists(mine[0]) {
		t.Errorf("removed %d, %v", n, err)
	}
	if left, err := readNote(l.note); err != nil || len(left) != 1 || left[0] != filepath.Dir(mine[0]) {
		t.Errorf("note %v, %v", left, err)
	}
}
