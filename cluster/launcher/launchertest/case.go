package launchertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"raftmaster/cluster/launcher"
	"raftmaster/transport/sparkmsg"
)

// Tokens that stand for paths.
const (
	Root     = "@ROOT@"
	Home     = "@HOME@"
	JavaHome = "@JAVAHOME@"
)

// Case is one question. The names of its fields in JSON are those that LauncherOracle.java reads.
type Case struct {
	// Split asks for the words of a line of a java-opts file; nothing else of the case counts then.
	Split *string `json:"split,omitempty"`

	Kind          string            `json:"kind,omitempty"` // executor or driver
	AppID         string            `json:"appId,omitempty"`
	ExecutorID    int32             `json:"executorId"`
	Cores         int32             `json:"cores"`
	MemoryMB      int32             `json:"memoryMB"`
	Profile       int32             `json:"profile"`
	UserJar       string            `json:"userJar,omitempty"`
	Host          string            `json:"host,omitempty"`
	Port          int               `json:"port"`
	ResourcesFile string            `json:"resourcesFile,omitempty"`
	Properties    map[string]string `json:"properties,omitempty"`
	Command       *Command          `json:"command,omitempty"`
}

// Command is sparkmsg.Command.
type Command struct {
	MainClass   string            `json:"mainClass"`
	Arguments   []string          `json:"arguments,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	ClassPath   []string          `json:"classPath,omitempty"`
	LibraryPath []string          `json:"libraryPath,omitempty"`
	JavaOpts    []string          `json:"javaOpts,omitempty"`
}

// Answer is what is made of a case.
type Answer struct {
	Argv   []string          `json:"argv"`
	Env    map[string]string `json:"env,omitempty"`
	Header string            `json:"header,omitempty"`
	Error  string            `json:"error,omitempty"`
}

// Recording is what a release of Spark answers in one environment of a worker.
type Recording struct {
	Release string `json:"release"`
	Scala   string `json:"scala"`
	// SLF4J are the names jars/slf4j-api-*.
	SLF4J []string `json:"slf4j,omitempty"`
	// Env is the worker's environment.
	Env   map[string]string `json:"env"`
	Pairs []Pair            `json:"pairs"`
}

// Pair is a case and Spark's answer.
type Pair struct {
	Case   Case   `json:"case"`
	Answer Answer `json:"answer"`
}

// Place replaces the tokens in v, by way of JSON; Unplace is its inverse.
func Place[T any](v T, root, home, javaHome string) (out T, err error) {
	return replace(v, strings.NewReplacer(Root, root, Home, home, JavaHome, javaHome))
}

// Unplace puts the tokens where the paths are. home and javaHome must not lie in root.
func Unplace[T any](v T, root, home, javaHome string) (out T, err error) {
	return replace(v, strings.NewReplacer(root, Root, home, Home, javaHome, JavaHome))
}

func replace[T any](v T, r *strings.Replacer) (out T, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	err = json.Unmarshal([]byte(r.Replace(string(text))), &out)
	return out, err
}

// Entries is an environment as NAME=value, sorted.
func Entries(env map[string]string) []string {
	var out []string
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	sort.Strings(out)
	return out
}

// Added are the variables that the runners of executors and drivers put over what the command builder has made.
var Added = []string{"SPARK_EXECUTOR_DIRS", "SPARK_LAUNCH_WITH_SCALA", "SPARK_LOG_URL_STDERR", "SPARK_LOG_URL_STDOUT",
	"SPARK_DRIVER_LOG_URL_STDOUT", "SPARK_DRIVER_LOG_URL_STDERR"}

// Ask gives our answer to a case; env is the worker's environment, scratch a directory for a file.
func (c Case) Ask(home *launcher.Home, env []string, scratch string) Answer {
	if c.Split != nil {
		return askSplit(home, *c.Split, scratch)
	}
	w := &launcher.Worker{Home: home, Env: env, ID: "worker-1", Host: c.Host, Port: c.Port, PublicAddress: "public", WebUIPort: 8081,
		WebUIURL: "http://public:8081", Properties: c.Properties}
	if pattern, ok := c.Properties["spark.redaction.regex"]; ok {
		w.Redaction = regexp.MustCompile(pattern)
	}
	command := sparkmsg.Command{MainClass: c.Command.MainClass, Arguments: c.Command.Arguments, ClassPathEntries: c.Command.ClassPath,
		LibraryPathEntries: c.Command.LibraryPath, JavaOpts: c.Command.JavaOpts}
	for name, value := range c.Command.Environment {
		command.Environment = append(command.Environment, sparkmsg.EnvVar{Name: name, Value: value})
	}
	var out launcher.Command
	var err error
	if c.Kind == "executor" {
		out, err = w.Executor(launcher.ExecutorSpec{AppID: c.AppID, ExecutorID: c.ExecutorID, Cores: c.Cores, MemoryMB: c.MemoryMB,
			ResourceProfileID: c.Profile, Command: command, Dir: "/", LocalDirs: []string{"/local"}, ResourcesFile: c.ResourcesFile})
	} else {
		out, err = w.Driver(launcher.DriverSpec{DriverID: "driver-1", MemoryMB: c.MemoryMB, Command: command, UserJar: c.UserJar, Dir: "/",
			ResourcesFile: c.ResourcesFile})
	}
	if err != nil {
		return Answer{Error: err.Error()}
	}
	answer := Answer{Argv: out.Argv, Env: map[string]string{}, Header: out.LogHeader}
	for _, entry := range out.Env {
		name, value, _ := strings.Cut(entry, "=")
		answer.Env[name] = value
	}
	for _, name := range Added {
		delete(answer.Env, name)
	}
	return answer
}

// askSplit puts the line into a file java-opts and finds its words between java and -cp.
func askSplit(home *launcher.Home, line, scratch string) Answer {
	if err := errors.Join(MakeJava(scratch), os.WriteFile(filepath.Join(scratch, "java-opts"), []byte(line), 0o644)); err != nil {
		return Answer{Error: err.Error()}
	}
	w := &launcher.Worker{Home: home, Env: []string{"JAVA_HOME=" + scratch, "SPARK_CONF_DIR=" + scratch}}
	out, err := w.Driver(launcher.DriverSpec{Command: sparkmsg.Command{MainClass: "Main"}})
	if err != nil {
		return Answer{Error: err.Error()}
	}
	const behind = 4 // -cp, its value, -Xmx, the main class
	return Answer{Argv: out.Argv[1 : len(out.Argv)-behind]}
}

// MakeRoot makes in dir what the cases name: directories, conf directories with java-opts, and homes of Java. realJava is
// the program that the java of the worker's PATH links to.
func MakeRoot(dir, realJava string) error {
	for _, d := range []string{"classes", "classes/deep", "conf-plain", "conf-options", "hadoop", "yarn", "path"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, jdk := range []string{"jdk-command", "jdk-worker"} {
		if err := MakeJava(filepath.Join(dir, jdk)); err != nil {
			return err
		}
	}
	if err := os.Symlink(realJava, filepath.Join(dir, "path", "java")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "conf-options", "java-opts"), []byte(javaOpts), 0o644)
}

// MakeJava makes a home of Java with a program that does nothing.
func MakeJava(home string) error {
	if err := os.MkdirAll(filepath.Join(home, "bin"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(home, "bin", "java"), []byte("#!/bin/sh\nexit 0\n"), 0o755)
}

// Difference tells how our answer differs from Spark's: "" if it does not. An error must meet an error; the words differ.
func Difference(spark, ours Answer) string {
	if (spark.Error != "") != (ours.Error != "") {
		return fmt.Sprintf("errors: Spark %q, we %q", spark.Error, ours.Error)
	}
	if spark.Error != "" {
		return ""
	}
	if !slices.Equal(spark.Argv, ours.Argv) {
		return fmt.Sprintf("argv:\nSpark %q\nwe    %q", spark.Argv, ours.Argv)
	}
	if !maps.Equal(spark.Env, ours.Env) {
		return fmt.Sprintf("environment:\nSpark %q\nwe    %q", Entries(spark.Env), Entries(ours.Env))
	}
	if spark.Header != "" && spark.Header != ours.Header {
		return fmt.Sprintf("header:\nSpark %q\nwe    %q", spark.Header, ours.Header)
	}
	return ""
}

// MakeHome makes a directory that looks like the installation of the recording, as far as the assembly looks at it.
func (r Recording) MakeHome(dir string) error {
	jars := filepath.Join(dir, "jars")
	if err := os.MkdirAll(jars, 0o755); err != nil {
		return err
	}
	for _, name := range append([]string{fmt.Sprintf("spark-core_%s-%s.jar", r.Scala, r.Release)}, r.SLF4J...) {
		if err := os.WriteFile(filepath.Join(jars, name), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}
