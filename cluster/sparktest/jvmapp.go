package sparktest

import (
	"archive/zip"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

//go:embed testdata/ControlApp.java
var controlAppSource []byte

// controlClass is the main class of ControlJar.
const controlClass = "ControlApp"

// ErrNoCompiler is returned when the installed Java has no javac.
var ErrNoCompiler = errors.New("no javac: the JVM application needs a JDK (Debian: openjdk-17-jdk-headless)")

var jars struct {
	sync.Mutex
	dir       string            // holds them all; "" before the first
	byRelease map[string]string // path
}

// ControlJar compiles the JVM program against the given Spark, once per process,
// and returns the path of its jar. RemoveBinaries deletes it.
func ControlJar(spark Spark) (string, error) {
	jars.Lock()
	defer jars.Unlock()
	if jar := jars.byRelease[spark.Release]; jar != "" {
		return jar, nil
	}
	if jars.dir == "" {
		dir, err := os.MkdirTemp("", "sparktest-jar-")
		if err != nil {
			return "", err
		}
		jars.dir, jars.byRelease = dir, map[string]string{}
	}
	jar, err := compileControlApp(spark, filepath.Join(jars.dir, spark.Release))
	if err == nil {
		jars.byRelease[spark.Release] = jar
	}
	return jar, err
}

func compileControlApp(spark Spark, dir string) (string, error) {
	java, err := JavaHome()
	if err != nil {
		return "", err
	}
	javac := filepath.Join(java, "bin", "javac")
	if _, err := os.Stat(javac); err != nil {
		if javac, err = exec.LookPath("javac"); err != nil {
			return "", ErrNoCompiler
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	source := filepath.Join(dir, controlClass+".java")
	if err := os.WriteFile(source, controlAppSource, 0o644); err != nil {
		return "", err
	}
	classes := filepath.Join(dir, "classes")
	cmd := exec.Command(javac, "-proc:none", "-cp", filepath.Join(spark.Home, "jars", "*"), "-d", classes, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("javac: %w\n%s", err, out)
	}
	jar := filepath.Join(dir, "control.jar")
	return jar, zipDirectory(jar, classes)
}

func zipDirectory(path, dir string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := zip.NewWriter(file)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		member, err := archive.Create(entry.Name())
		if err != nil {
			return err
		}
		if _, err := member.Write(data); err != nil {
			return err
		}
	}
	return archive.Close()
}
