package launcher_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"raftmaster/cluster/launcher"
	"raftmaster/cluster/launcher/launchertest"
	"raftmaster/transport/sparkmsg"
)

// install makes an installation and a Java in temporary directories, at the paths of the samples as far as the caller
// replaces them.
func install(t *testing.T, release string) (home *launcher.Home, jdk string) {
	t.Helper()
	r := launchertest.Recording{Release: release, Scala: "2.12"}
	if release[0] == '4' {
		r.Scala, r.SLF4J = "2.13", []string{"slf4j-api-2.0.17.jar"}
	}
	dir, jdk := t.TempDir(), t.TempDir()
	if err := r.MakeHome(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := launchertest.MakeJava(jdk); err != nil {
		t.Fatal(err)
	}
	home, err := launcher.OpenHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	return home, jdk
}

// sample reads one line per element, of a process that Spark's own worker had started.
func sample(t *testing.T, name string, r *strings.Replacer) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "samples", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(r.Replace(string(text)), "\n"), "\n")
}

// between gives the elements after first and before last.
func between(list []string, first, last string) []string {
	return list[slices.Index(list, first)+1 : slices.Index(list, last)]
}

func value(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// TestSamplesOfExecutors: the processes of executors as /proc showed them.
func TestSamplesOfExecutors(t *testing.T) {
	for release, port := range map[string]int{"3.5.9": 22181, "4.3.0": 22381} {
		home, jdk := install(t, release)
		// A conf directory that is there gets a "/" at its end; it was not there when the samples were taken.
		if err := os.Remove(filepath.Join(home.Dir, "conf")); err != nil {
			t.Fatal(err)
		}
		paths := strings.NewReplacer("/opt/spark", home.Dir, "/usr/lib/jvm/java-17-openjdk-amd64", jdk)
		want, wantEnv := sample(t, release+"-executor_cmdline.txt", paths), sample(t, release+"-executor_environ.txt", paths)
		app := want[slices.Index(want, "--app-id")+1]
		const main = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
		var options, base []string
		for _, o := range between(want, "-Xmx600M", main) {
			options = append(options, strings.NewReplacer("app="+app, "app={{APP_ID}}", "exec=0", "exec={{EXECUTOR_ID}}").Replace(o))
		}
		command := sparkmsg.Command{MainClass: main, JavaOpts: options, Arguments: []string{"--driver-url", want[slices.Index(want, "--driver-url")+1],
			"--executor-id", "{{EXECUTOR_ID}}", "--hostname", "{{HOSTNAME}}", "--cores", "{{CORES}}", "--app-id", "{{APP_ID}}", "--worker-url", "{{WORKER_URL}}",
			"--resourceProfileId", "{{RESOURCE_PROFILE_ID}}"}}
		for _, name := range []string{"SPARK_USER", "SPARK_EXECUTOR_MEMORY"} {
			if v := value(wantEnv, name); v != "" {
				command.Environment = append(command.Environment, sparkmsg.EnvVar{Name: name, Value: v})
			}
		}
		added := []string{"SPARK_USER", "SPARK_EXECUTOR_MEMORY", "SPARK_EXECUTOR_DIRS", "SPARK_LAUNCH_WITH_SCALA", "SPARK_LOG_URL_STDERR", "SPARK_LOG_URL_STDOUT"}
		for _, e := range wantEnv {
			if name, _, _ := strings.Cut(e, "="); !slices.Contains(added, name) {
				base = append(base, e)
			}
		}
		base = append(base, "JAVA_HOME="+jdk)
		w := &launcher.Worker{Home: home, Env: base, ID: "worker-1", Host: "127.0.0.1", Port: port, PublicAddress: "127.0.0.1", WebUIPort: port + 1}
		got, err := w.Executor(launcher.ExecutorSpec{AppID: app, ExecutorID: 0, Cores: 1, MemoryMB: 600, Command: command, Dir: "/work/app/0",
			LocalDirs: []string{value(wantEnv, "SPARK_EXECUTOR_DIRS")}})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Argv, want) || got.Dir != "/work/app/0" {
			t.Errorf("%s:\ngot  %q\nwant %q", release, got.Argv, want)
		}
		sameEnvironment(t, release, got.Env, append(wantEnv, "JAVA_HOME="+jdk))
		header := "Spark Executor Command: \"" + strings.Join(want, "\" \"") + "\"\n========================================\n\n"
		if got.LogHeader != header {
			t.Errorf("%s:\ngot  %q\nwant %q", release, got.LogHeader, header)
		}
	}
}

func sameEnvironment(t *testing.T, release string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", release, got, want)
	}
}

// TestSamplesOfDrivers: the processes of drivers that came through REST.
func TestSamplesOfDrivers(t *testing.T) {
	for release, port := range map[string]int{"3.5.9": 22181, "4.3.0": 22381} {
		home, jdk := install(t, release)
		if err := os.Remove(filepath.Join(home.Dir, "conf")); err != nil {
			t.Fatal(err)
		}
		paths := strings.NewReplacer("/opt/spark", home.Dir, "/usr/lib/jvm/java-17-openjdk-amd64", jdk)
		want := sample(t, release+"-driver_cmdline.txt", paths)
		const main = "org.apache.spark.deploy.worker.DriverWrapper"
		behind := want[slices.Index(want, main)+1:]
		command := sparkmsg.Command{MainClass: main, JavaOpts: between(want, "-Xmx500M", main),
			Arguments: append([]string{"{{WORKER_URL}}", "{{USER_JAR}}"}, behind[2:]...)}
		id := filepath.Base(behind[1])
		w := &launcher.Worker{Home: home, Host: "127.0.0.1", Port: port, WebUIURL: "http://127.0.0.1:22382", Env: []string{"JAVA_HOME=" + jdk}}
		wantEnv := []string{"SPARK_DRIVER_LOG_URL_STDERR=http://127.0.0.1:22382/logPage/?driverId=" + id + "&logType=stderr",
			"SPARK_DRIVER_LOG_URL_STDOUT=http://127.0.0.1:22382/logPage/?driverId=" + id + "&logType=stdout"}
		if release == "4.3.0" { // of the older release there is no sample of the environment
			wantEnv = sample(t, release+"-driver_environ.txt", paths)
			w.Env = nil
			for _, e := range append(wantEnv, "JAVA_HOME="+jdk) {
				if !strings.HasPrefix(e, "SPARK_DRIVER_LOG_URL_") {
					w.Env = append(w.Env, e)
				}
			}
		}
		got, err := w.Driver(launcher.DriverSpec{DriverID: id, MemoryMB: 500, Command: command, UserJar: behind[1], Dir: behind[1]})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Argv, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", release, got.Argv, want)
		}
		sameEnvironment(t, release, got.Env, append(wantEnv, "JAVA_HOME="+jdk))
		if !strings.HasPrefix(got.LogHeader, "Launch Command: \""+jdk+"/bin/java\" \"-cp\" ") {
			t.Error(got.LogHeader)
		}
	}
}

// TestReverseProxyURLs: logs are reached through the master's pages; drivers by their own id, as with Spark.
func TestReverseProxyURLs(t *testing.T) {
	home, jdk := install(t, "3.5.9")
	for base, want := range map[string]string{"": "", "https://proxy/spark/": "https://proxy/spark", "https://proxy": "https://proxy"} {
		w := &launcher.Worker{Home: home, Env: []string{"JAVA_HOME=" + jdk}, ID: "worker-1", ReverseProxy: true, ReverseProxyURL: base}
		command := sparkmsg.Command{MainClass: "Main"}
		e, err := w.Executor(launcher.ExecutorSpec{AppID: "app-1", ExecutorID: 3, Command: command, LocalDirs: []string{"/a", "/b"}})
		if err != nil {
			t.Fatal(err)
		}
		d, err := w.Driver(launcher.DriverSpec{DriverID: "driver-1", Command: command})
		if err != nil {
			t.Fatal(err)
		}
		if got := value(e.Env, "SPARK_LOG_URL_STDERR"); got != want+"/proxy/worker-1/logPage/?appId=app-1&executorId=3&logType=stderr" {
			t.Error(got)
		}
		if got := value(d.Env, "SPARK_DRIVER_LOG_URL_STDOUT"); got != want+"/proxy/driver-1/logPage/?driverId=driver-1&logType=stdout" {
			t.Error(got)
		}
		if got := value(e.Env, "SPARK_EXECUTOR_DIRS"); got != "/a:/b" {
			t.Error(got)
		}
	}
}

// TestResourcesFiles: where executors and drivers learn of their file.
func TestResourcesFiles(t *testing.T) {
	home, jdk := install(t, "4.3.0")
	w := &launcher.Worker{Home: home, Env: []string{"JAVA_HOME=" + jdk}}
	command := sparkmsg.Command{MainClass: "Main", Arguments: []string{"a"}, JavaOpts: []string{"-Dx=1"}}
	e, err := w.Executor(launcher.ExecutorSpec{Command: command, ResourcesFile: "/r.json"})
	if err != nil || !slices.Equal(e.Argv[len(e.Argv)-5:], []string{"-Dx=1", "Main", "a", "--resourcesFile", "/r.json"}) {
		t.Errorf("%q %v", e.Argv, err)
	}
	d, err := w.Driver(launcher.DriverSpec{Command: command, ResourcesFile: "/r.json"})
	if err != nil || !slices.Equal(d.Argv[len(d.Argv)-4:], []string{"-Dx=1", "-Dspark.driver.resourcesFile=/r.json", "Main", "a"}) {
		t.Errorf("%q %v", d.Argv, err)
	}
	if len(command.Arguments) != 1 || len(command.JavaOpts) != 1 {
		t.Error("the caller's command was changed")
	}
}
