package launcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"raftmaster/cluster/launcher"
	"raftmaster/cluster/launcher/launchertest"
	"raftmaster/transport/sparkmsg"
)

// BenchmarkExecutor assembles an executor as a real driver asks for it, with as many jars in the installation as Spark has.
func BenchmarkExecutor(b *testing.B) {
	dir, jdk := b.TempDir(), b.TempDir()
	r := launchertest.Recording{Release: "4.3.0", Scala: "2.13", SLF4J: []string{"slf4j-api-2.0.17.jar"}}
	if err := r.MakeHome(dir); err != nil {
		b.Fatal(err)
	}
	if err := launchertest.MakeJava(jdk); err != nil {
		b.Fatal(err)
	}
	for i := range 250 {
		if err := os.WriteFile(filepath.Join(dir, "jars", fmt.Sprintf("some-library-%d.jar", i)), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	home, err := launcher.OpenHome(dir)
	if err != nil {
		b.Fatal(err)
	}
	w := &launcher.Worker{Home: home, Env: append(os.Environ(), "JAVA_HOME="+jdk), ID: "worker-1", Host: "127.0.0.1", Port: 1}
	spec := launcher.ExecutorSpec{AppID: "app-1", Cores: 1, MemoryMB: 1024, Command: sparkmsg.Command{MainClass: "Main", Arguments: []string{"--app-id", "{{APP_ID}}"}}}
	for range 30 {
		spec.Command.JavaOpts = append(spec.Command.JavaOpts, "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED")
	}
	for b.Loop() {
		if _, err := w.Executor(spec); err != nil {
			b.Fatal(err)
		}
	}
}
