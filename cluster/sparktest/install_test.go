package sparktest

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fakePython stands in for python3, and for the interpreter of the environments
// that it makes: `-m venv DIR`, `-m pip install pyspark==R`, and the question of
// inspect. It notes what pip was asked for.
const fakePython = `#!/bin/sh
case "$*" in
"-m venv "*)
  mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip install "*)
  echo "$*" >> "$FAKE_PIP_LOG"
  [ -z "$FAKE_PIP_FAILS" ] || { echo "no such release" >&2; exit 1; }
  for argument in "$@"; do release=${argument##*==}; done
  home=$(dirname "$0")/../pyspark
  mkdir -p "$home/jars" "$home/bin"
  echo "$release" > "$home/release"
  : > "$home/jars/spark-core_2.13-$release.jar"
  : > "$home/bin/spark-class" ;;
"-I -c "*)
  home=$(dirname "$0")/../pyspark
  cat "$home/release" && echo "$home" ;;
*)
  echo "unexpected: $*" >&2; exit 2 ;;
esac
`

// fakeCache points Install at an empty cache and at fakePython, and returns the
// cache and how often pip has run so far.
func fakeCache(t *testing.T) (cache string, pipRuns func() int) {
	t.Helper()
	cache, bin := t.TempDir(), t.TempDir()
	log := filepath.Join(bin, "pip.log")
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(fakePython), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(CacheEnv, cache)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("FAKE_PIP_LOG", log)
	return cache, func() int {
		data, err := os.ReadFile(log)
		if err != nil && !isMissing(err) {
			t.Fatal(err)
		}
		return strings.Count(string(data), "\n")
	}
}

func TestInstallOnceForAll(t *testing.T) {
	cache, pipRuns := fakeCache(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			spark, err := Install(t.Context(), "3.5.9", t.Logf)
			if err != nil {
				t.Error(err)
				return
			}
			if spark.Release != "3.5.9" || spark.Python != filepath.Join(cache, "spark-3.5.9", "bin", "python") {
				t.Errorf("%+v", spark)
			}
		})
	}
	all.Wait()
	if n := pipRuns(); n != 1 {
		t.Errorf("pip ran %d times, want once", n)
	}
}

func TestInstallReplacesWhatIsBroken(t *testing.T) {
	cache, pipRuns := fakeCache(t)
	dir := filepath.Join(cache, "spark-3.5.9")
	breakIt := map[string]func() error{
		"an empty directory": func() error { return os.MkdirAll(dir, 0o755) },
		"a jar is missing": func() error {
			return os.Remove(filepath.Join(dir, "pyspark", "jars", "spark-core_2.13-3.5.9.jar"))
		},
		"another release": func() error {
			return os.WriteFile(filepath.Join(dir, "pyspark", "release"), []byte("3.5.8\n"), 0o644)
		},
		"no interpreter": func() error { return os.Remove(filepath.Join(dir, "bin", "python")) },
	}
	for n, name := range []string{"an empty directory", "a jar is missing", "another release", "no interpreter"} {
		if err := breakIt[name](); err != nil {
			t.Fatal(err)
		}
		if _, err := Install(t.Context(), "3.5.9", t.Logf); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := pipRuns(); got != n+1 {
			t.Errorf("%s: pip has run %d times, want %d", name, got, n+1)
		}
	}
}

func TestInstallLeavesNothingHalfMade(t *testing.T) {
	cache, _ := fakeCache(t)
	t.Setenv("FAKE_PIP_FAILS", "1")
	_, err := Install(t.Context(), "3.5.9", t.Logf)
	if err == nil || !strings.Contains(err.Error(), "no such release") {
		t.Fatalf("error %v does not say what pip said", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "spark-3.5.9*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || filepath.Base(left[0]) != "spark-3.5.9.lock" {
		t.Errorf("left behind: %v", left)
	}
}

func TestInstallRefusesOddReleases(t *testing.T) {
	fakeCache(t)
	for _, release := range []string{"", "3.5", "../x", "3.5.9; rm -rf /", "3.5.9.dev1"} {
		if _, err := Install(t.Context(), release, t.Logf); err == nil {
			t.Errorf("release %q was accepted", release)
		}
	}
}
