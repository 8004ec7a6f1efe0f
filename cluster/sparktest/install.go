package sparktest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// CacheEnv names the environment variable that moves the Spark installations
// away from ~/.cache/raftmaster.
const CacheEnv = "RAFTMASTER_TEST_CACHE"

// Spark is one installed Spark release.
type Spark struct {
	Release string // for example "4.3.0"
	Home    string // SPARK_HOME: the package folder of PySpark
	Python  string // the interpreter of its virtual environment
}

var releasePattern = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// CacheDir returns the directory of the Spark installations.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory for the Spark installations (set %s): %w", CacheEnv, err)
	}
	return filepath.Join(home, ".cache", "raftmaster"), nil
}

// Install returns the Spark of the given release, and installs it from PyPI
// into its own virtual environment when the cache does not hold it. Processes
// that ask for the same release at once wait for each other. A damaged or
// half-made installation is replaced.
func Install(ctx context.Context, release string, logf func(string, ...any)) (Spark, error) {
	if !releasePattern.MatchString(release) {
		return Spark{}, fmt.Errorf("spark release %q is not of the form 1.2.3", release)
	}
	cache, err := CacheDir()
	if err != nil {
		return Spark{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Spark{}, fmt.Errorf("cache of Spark installations: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(cache, "spark-"+release+".lock"))
	if err != nil {
		return Spark{}, err
	}
	defer unlock()

	dir := filepath.Join(cache, "spark-"+release)
	spark, reason := inspect(ctx, dir, release)
	if reason == nil {
		return spark, nil
	}
	if _, err := os.Lstat(dir); err == nil {
		logf("replacing %s: %v", dir, reason)
	}
	logf("installing PySpark %s into %s (about 400 MB to fetch)", release, dir)
	if err := create(ctx, dir, release); err != nil {
		return Spark{}, fmt.Errorf("install PySpark %s: %w", release, err)
	}
	spark, err = inspect(ctx, dir, release)
	if err != nil {
		return Spark{}, fmt.Errorf("PySpark %s does not work after its installation: %w", release, err)
	}
	return spark, nil
}

// create makes the virtual environment under a temporary name and moves it into
// place when it is complete, so that an interrupted run leaves nothing that
// looks like an installation. Only `bin/python -m ...` is used afterwards: the
// other scripts in a moved environment name its first path.
func create(ctx context.Context, dir, release string) error {
	leftovers, err := filepath.Glob(dir + ".tmp.*")
	if err != nil {
		return err
	}
	for _, old := range leftovers { // the lock is held: nobody is working on them
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	temp := fmt.Sprintf("%s.tmp.%d", dir, os.Getpid())
	if err := runQuiet(ctx, "python3", "-m", "venv", temp); err != nil {
		return fmt.Errorf("%w (Debian: apt-get install python3-venv)", err)
	}
	python := filepath.Join(temp, "bin", "python")
	if err := runQuiet(ctx, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pyspark=="+release); err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}

// inspect tells whether dir holds a usable PySpark of the release.
func inspect(ctx context.Context, dir, release string) (Spark, error) {
	if _, err := os.Stat(dir); err != nil {
		return Spark{}, err
	}
	python := filepath.Join(dir, "bin", "python")
	const script = "import os, pyspark; print(pyspark.__version__); print(os.path.dirname(pyspark.__file__))"
	out, err := exec.CommandContext(ctx, python, "-I", "-c", script).Output()
	if err != nil {
		return Spark{}, fmt.Errorf("its python cannot import pyspark: %w", err)
	}
	lines := strings.Fields(string(out))
	if len(lines) != 2 || lines[0] != release {
		return Spark{}, fmt.Errorf("it holds %q, not %s", lines, release)
	}
	home := lines[1]
	jars, err := filepath.Glob(filepath.Join(home, "jars", "spark-core_*-"+release+".jar"))
	if err != nil || len(jars) != 1 {
		return Spark{}, fmt.Errorf("%s/jars holds no spark-core of %s", home, release)
	}
	if _, err := os.Stat(filepath.Join(home, "bin", "spark-class")); err != nil {
		return Spark{}, err
	}
	return Spark{Release: release, Home: home, Python: python}, nil
}

func runQuiet(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, lastLines(string(out), 20))
	}
	return nil
}

// lockFile takes an exclusive lock on path, creating it, and returns how to let
// it go. The kernel lets it go when the process dies.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, err = tryLockFile(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s is held by another process: %w", path, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func tryLockFile(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		closeErr := file.Close()
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), closeErr)
	}
	return func() { _ = file.Close() }, nil // closing releases the lock; it has no data to lose
}

// JavaHome returns the home of the Java that Spark will run on: JAVA_HOME, else
// the one that the java command of PATH belongs to.
func JavaHome() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if _, err := os.Stat(filepath.Join(home, "bin", "java")); err != nil {
			return "", fmt.Errorf("JAVA_HOME=%s has no bin/java: %w", home, err)
		}
		return home, nil
	}
	path, err := exec.LookPath("java")
	if err != nil {
		return "", errors.New("no java found: Spark needs Java 17 or later (Debian: apt-get install openjdk-17-jdk-headless)")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("java command: %w", err)
	}
	return filepath.Dir(filepath.Dir(real)), nil
}

// isMissing reports an error that only says "not there (yet)".
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
