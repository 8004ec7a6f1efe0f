package sparktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// BinariesOf are the programs under test.
type BinariesOf struct {
	Raftmaster, Raftctl string
	dir                 string
}

// RaceMasters makes Binaries build the masters with the race detector. Set it
// before the first use.
var RaceMasters bool

// QuickJVMs makes the JVMs of all clusters compile less and collect garbage with one thread, so that the short ones of
// tests cost half of the processor time. Figures must not be taken so. Set it before the first cluster.
var QuickJVMs bool

const quickJVMs = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

var built struct {
	once sync.Once
	bin  BinariesOf
	err  error
}

// Binaries builds raftmaster and raftctl from the source tree that this package
// belongs to, once per process. RemoveBinaries deletes them.
func Binaries() (BinariesOf, error) {
	built.once.Do(func() { built.bin, built.err = buildBinaries() })
	return built.bin, built.err
}

// RemoveBinaries deletes what Binaries and ControlJar built; call it at the end of
// TestMain.
func RemoveBinaries() error {
	var errs []error
	for _, dir := range []string{built.bin.dir, jars.dir} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

func buildBinaries() (BinariesOf, error) {
	root, err := ModuleRoot()
	if err != nil {
		return BinariesOf{}, err
	}
	dir, err := os.MkdirTemp("", "sparktest-bin-")
	if err != nil {
		return BinariesOf{}, err
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if RaceMasters {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/raftmaster", "./cmd/raftctl")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return BinariesOf{}, errors.Join(fmt.Errorf("go build: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return BinariesOf{Raftmaster: filepath.Join(dir, "raftmaster"), Raftctl: filepath.Join(dir, "raftctl"), dir: dir}, nil
}

// ModuleRoot is the directory of go.mod above the working directory.
func ModuleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("root of the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
