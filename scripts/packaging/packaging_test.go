package packaging

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	testVersion = "1.2.3"
	testCommit  = "0123456789abcdef0123456789abcdef01234567"
	nfpm        = "github.com/goreleaser/nfpm/v2@v2.45.2"
)

// built are the binaries that most tests share, made when the first of them asks.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "packaging")
	if err != nil {
		return "", err
	}
	out, err := command("build", dir).CombinedOutput()
	if err != nil {
		return dir, fmt.Errorf("build: %w: %s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	used := false
	build := built
	built = func() (string, error) { used = true; return build() }
	code := m.Run()
	if used {
		if dir, _ := build(); dir != "" {
			if err := os.RemoveAll(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	os.Exit(code)
}

func binaries(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("./"+name, args...)
	cmd.Env = append(os.Environ(), "VERSION="+testVersion, "COMMIT="+testCommit, "SOURCE_DATE_EPOCH=1767322000")
	return cmd
}

// script runs a script of this directory and gives what it prints. It takes the binaries from a directory, and makes them for
// "".
func script(t *testing.T, binaries, name string, args ...string) string {
	t.Helper()
	cmd := command(name, args...)
	cmd.Env = append(cmd.Env, "BINARIES="+binaries)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, errOut.String())
	}
	return strings.TrimSpace(string(out))
}

// tool skips, by name, where a program is missing.
func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("NOT CHECKED: %s is not installed", name)
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test builds binaries")
	}
	if runtime.GOOS != "linux" {
		t.Skip("NOT CHECKED: packages are made on Linux")
	}
}

// The binaries need nothing of the machine that they run on, and know what they were made from.
func TestBinariesAreStaticAndStamped(t *testing.T) {
	slow(t)
	dir := binaries(t)
	for _, name := range []string{"raftmaster", "raftctl"} {
		path := filepath.Join(dir, name)
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s is not static: %v", name, p.Type)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f MiB", name, float64(info.Size())/(1<<20))
		if got := output(t, path, "version"); !strings.Contains(got, testVersion) || !strings.Contains(got, testCommit) {
			t.Errorf("%s version:\n%s", name, got)
		}
	}
	got, err := exec.Command("./build").CombinedOutput()
	if err == nil || !strings.Contains(string(got), "usage:") {
		t.Errorf("without a directory: %v\n%s", err, got)
	}
}

// settings gives the lines of a unit's section [Service] as lists of values.
func settings(t *testing.T, unit string) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	out, section := make(map[string][]string), ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		if key, value, ok := strings.Cut(line, "="); ok && section == "[Service]" && !strings.HasPrefix(line, "#") {
			out[key] = append(out[key], value)
		}
	}
	return out
}

func TestUnits(t *testing.T) {
	for unit, want := range map[string]map[string]string{
		"systemd/raftmaster.service": {"Type": "notify", "NotifyAccess": "main", "WatchdogSec": "60", "Restart": "on-failure", "RestartPreventExitStatus": "2",
			"NoNewPrivileges": "yes", "ProtectSystem": "strict", "StateDirectory": "raftmaster", "KillMode": "mixed", "ExecStart": "/usr/bin/raftmaster server"},
		"systemd/raftmaster-worker.service": {"Type": "notify", "NotifyAccess": "main", "WatchdogSec": "60", "Restart": "on-failure", "KillMode": "mixed",
			"NoNewPrivileges": "yes", "OOMPolicy": "continue", "ExecStart": "/usr/bin/raftmaster worker"},
	} {
		got := settings(t, unit)
		// What passes after an hour must find the master still being tried.
		if !strings.Contains(read(t, unit), "\nStartLimitIntervalSec=0\n") {
			t.Errorf("%s: systemd gives it up after a few failures", unit)
		}
		for key, value := range want {
			if !slices.Equal(got[key], []string{value}) {
				t.Errorf("%s: %s=%q, want %q", unit, key, got[key], value)
			}
		}
	}
	// A JVM writes code; jobs share /tmp and use devices.
	for _, key := range []string{"MemoryDenyWriteExecute", "PrivateTmp", "PrivateDevices", "SystemCallFilter", "ProtectHome"} {
		if got := settings(t, "systemd/raftmaster-worker.service")[key]; got != nil {
			t.Errorf("the worker's unit has %s=%q, which jobs would inherit", key, got)
		}
	}
}

// systemd itself reads the units, and judges what is left open to them.
func TestUnitsForSystemd(t *testing.T) {
	tool(t, "systemd-analyze")
	dir := t.TempDir()
	for unit, exposure := range map[string]string{"raftmaster.service": "20", "raftmaster-worker.service": "80"} {
		raw, err := os.ReadFile("systemd/" + unit)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, unit)
		// The program is not installed here.
		if err := os.WriteFile(path, bytes.ReplaceAll(raw, []byte("/usr/bin/raftmaster"), []byte("/bin/true")), 0o644); err != nil {
			t.Fatal(err)
		}
		if out := output(t, "systemd-analyze", "verify", "--man=no", path); out != "" {
			t.Errorf("systemd-analyze verify %s:\n%s", unit, out)
		}
		out := output(t, "systemd-analyze", "security", "--offline=true", "--threshold="+exposure, path)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		t.Log(lines[len(lines)-1])
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

type service struct {
	Image, Hostname string
	Environment     map[string]string
	Ports, Volumes  []string
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	Build           struct{ Context, Dockerfile string }
}

// The compose file is read as YAML (docker itself needs a plugin): three masters that agree on their list.
func TestComposeFile(t *testing.T) {
	var file struct {
		Services map[string]service
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) != 3 {
		t.Fatalf("%d services", len(file.Services))
	}
	ports := make(map[string]bool)
	for name, s := range file.Services {
		if s.Hostname != name || s.Environment["SPARK_MASTER_HOST"] != name || !slices.Equal(s.Volumes, []string{name + ":/data"}) || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: %+v", name, s)
		}
		if _, ok := file.Volumes[name]; !ok {
			t.Errorf("no volume %s", name)
		}
		if !strings.Contains(s.Environment["RAFTMASTER_CLUSTER"], name+":7077") || strings.Count(s.Environment["RAFTMASTER_CLUSTER"], ":7077") != 3 {
			t.Errorf("%s: list %q", name, s.Environment["RAFTMASTER_CLUSTER"])
		}
		for _, p := range s.Ports {
			if ports[p] || !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is taken twice, or open to all", name, p)
			}
			ports[p] = true
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Error(err)
		}
	}
}

func TestContainerfile(t *testing.T) {
	text := read(t, "Containerfile")
	if _, final, ok := strings.Cut(text, "\nFROM scratch\n"); !ok {
		t.Error("the image is not made from scratch")
	} else {
		for _, want := range []string{"USER 65532:65532", "VOLUME /data", "HEALTHCHECK", "RAFTMASTER_DATA_DIR=/data", `ENTRYPOINT ["/usr/bin/raftmaster"]`} {
			if !strings.Contains(final, want) {
				t.Errorf("the image lacks %s", want)
			}
		}
	}
	mod := read(t, "../../go.mod")
	_, rest, _ := strings.Cut(mod, "\ngo ")
	if need := strings.Join(strings.Split(strings.Fields(rest)[0], ".")[:2], "."); !strings.Contains(text, "golang:"+need+" ") {
		t.Errorf("go.mod wants Go %s", need)
	}
}

// The package: what is in it, who owns it, that it installs and goes, and that it is made alike twice.
func TestDeb(t *testing.T) {
	slow(t)
	tool(t, "dpkg-deb")
	if out, err := exec.Command("go", "mod", "download", nfpm).CombinedOutput(); err != nil {
		t.Skipf("NOT CHECKED: nfpm cannot be fetched: %s", out)
	}
	deb, again := script(t, binaries(t), "deb", t.TempDir()), script(t, "", "deb", t.TempDir())
	if read(t, deb) != read(t, again) {
		t.Errorf("%s differs when it is made again", filepath.Base(deb))
	}
	info := output(t, "dpkg-deb", "--field", deb)
	for _, want := range []string{"Package: raftmaster", "Version: " + testVersion, "Architecture: " + runtime.GOARCH} {
		if !strings.Contains(info, want) {
			t.Errorf("%q is missing:\n%s", want, info)
		}
	}
	list := output(t, "dpkg-deb", "-c", deb)
	for path, mode := range map[string]string{
		"usr/bin/raftmaster": "-rwxr-xr-x root/root", "usr/bin/raftctl": "-rwxr-xr-x root/root",
		"usr/lib/systemd/system/raftmaster.service": "-rw-r--r-- root/root", "usr/lib/systemd/system/raftmaster-worker.service": "-rw-r--r-- root/root",
		"usr/lib/sysusers.d/raftmaster.conf": "-rw-r--r-- root/root", "usr/lib/tmpfiles.d/raftmaster.conf": "-rw-r--r-- root/root",
		"etc/raftmaster/master.env": "-rw-r----- root/root", "etc/raftmaster/worker.env": "-rw-r--r-- root/root",
		"usr/share/man/man8/raftmaster.8.gz": "-rw-r--r-- root/root", "usr/share/doc/raftmaster/OPERATIONS.md": "-rw-r--r-- root/root",
		"usr/share/bash-completion/completions/raftctl": "-rw-r--r-- root/root",
	} {
		if !slices.ContainsFunc(strings.Split(list, "\n"), func(l string) bool { return strings.HasPrefix(l, mode) && strings.HasSuffix(l, " ./"+path) }) {
			t.Errorf("%s with %s is missing:\n%s", path, mode, list)
		}
	}
	control := t.TempDir()
	output(t, "dpkg-deb", "--control", deb, control)
	if got := read(t, filepath.Join(control, "conffiles")); got != "/etc/raftmaster/master.env\n/etc/raftmaster/worker.env\n" {
		t.Errorf("conffiles: %q", got)
	}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		output(t, "sh", "-n", filepath.Join(control, name))
	}
	install(t, deb)
}

// install puts the package into a directory and takes it away again, as dpkg does.
func install(t *testing.T, deb string) {
	t.Helper()
	if _, err := exec.LookPath("fakeroot"); err != nil {
		t.Log("NOT CHECKED: the installation, fakeroot is not installed")
		return
	}
	dir := t.TempDir()
	state := filepath.Join(dir, "var/lib/dpkg")
	if err := errors.Join(os.MkdirAll(filepath.Join(state, "updates"), 0o755), os.MkdirAll(filepath.Join(state, "info"), 0o755),
		os.WriteFile(filepath.Join(state, "status"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	dpkg := func(args ...string) {
		t.Helper()
		output(t, "fakeroot", append([]string{"dpkg", "--root=" + dir, "--force-script-chrootless", "--force-not-root", "--log=" + filepath.Join(dir, "log")}, args...)...)
	}
	dpkg("--install", deb)
	if got := output(t, filepath.Join(dir, "usr/bin/raftmaster"), "version"); !strings.HasPrefix(got, "raftmaster "+testVersion+"\n") {
		t.Errorf("installed: %s", got)
	}
	config := filepath.Join(dir, "etc/raftmaster/master.env")
	if err := os.WriteFile(config, []byte("SPARK_MASTER_HOST=mine\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	dpkg("--force-confold", "--install", deb)
	if got := read(t, config); got != "SPARK_MASTER_HOST=mine\n" {
		t.Errorf("an upgrade has changed the configuration to %q", got)
	}
	dpkg("--purge", "raftmaster")
	if _, err := os.Stat(filepath.Join(dir, "usr/bin/raftmaster")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after a purge: %v", err)
	}
}

// The archive has all that the package has, for machines without dpkg.
func TestTar(t *testing.T) {
	slow(t)
	path := script(t, binaries(t), "tar", t.TempDir())
	list := output(t, "tar", "-tzf", path)
	root := "raftmaster-" + testVersion + "-linux-" + runtime.GOARCH + "/"
	for _, name := range []string{"bin/raftmaster", "bin/raftctl", "systemd/raftmaster.service", "config/master.env", "man/raftctl.8", "docs/OPERATIONS.md", "LICENSE"} {
		if !strings.Contains("\n"+list, "\n"+root+name+"\n") {
			t.Errorf("%s is missing:\n%s", name, list)
		}
	}
}
