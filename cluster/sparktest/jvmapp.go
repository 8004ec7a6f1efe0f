package sparktest

import (
	"archive/zip"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed testdata/SumApp.java
var sumAppSource []byte

// ErrNoCompiler is returned when the installed Java has no javac.
var ErrNoCompiler = errors.New("no javac: the JVM application needs a JDK (Debian: openjdk-17-jdk-headless)")

// StartSumApp compiles the JVM application against the given Spark, and starts
// it for n tasks. It prints SUM=<sum of the squares of 0..n-1> APP=<id>.
func (c *Cluster) StartSumApp(opts AppOptions, n int) (*Process, error) {
	if opts.Spark.Home == "" {
		opts.Spark = c.opts.Spark
	}
	if opts.Name == "" {
		opts.Name = "sumapp"
	}
	jar, err := c.compileSumApp(opts.Spark)
	if err != nil {
		return nil, err
	}
	host := c.host(firstApp + 100 + len(c.procs)%20)
	return c.submit(opts, host, nil, []string{"--class", "SumApp"}, jar, fmt.Sprint(n))
}

func (c *Cluster) compileSumApp(spark Spark) (string, error) {
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
	dir, err := os.MkdirTemp(c.dir, "sumapp-"+spark.Release+"-")
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, "SumApp.java")
	if err := os.WriteFile(source, sumAppSource, 0o644); err != nil {
		return "", err
	}
	classes := filepath.Join(dir, "classes")
	cmd := exec.Command(javac, "-proc:none", "-cp", filepath.Join(spark.Home, "jars", "*"), "-d", classes, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("javac: %w\n%s", err, out)
	}
	jar := filepath.Join(dir, "sumapp.jar")
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
