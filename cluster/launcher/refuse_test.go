package launcher_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"raftmaster/cluster/launcher"
	"raftmaster/cluster/launcher/launchertest"
	"raftmaster/transport/sparkmsg"
)

// TestStringsThatNoProcessTakes: NUL bytes would cut a string short; they are refused by the name of the string, and the
// error does not hold its value.
func TestStringsThatNoProcessTakes(t *testing.T) {
	home, jdk := install(t, "4.3.0")
	w := &launcher.Worker{Home: home, Env: []string{"JAVA_HOME=" + jdk}}
	const bad = "hidden\x00rest"
	for want, s := range map[string]launcher.ExecutorSpec{
		"argument 2 has a NUL byte":                      {Command: sparkmsg.Command{Arguments: []string{"a", bad}}},
		`java option "-Dx" has a NUL byte`:               {Command: sparkmsg.Command{JavaOpts: []string{"-Dx=" + bad}}},
		"java option number 4 has a NUL byte":            {Command: sparkmsg.Command{JavaOpts: []string{bad}}},
		"java option number 2 has a NUL byte":            {Command: sparkmsg.Command{ClassPathEntries: []string{bad}}}, // the class path
		`environment variable "X" has a NUL byte`:        {Command: sparkmsg.Command{Environment: []sparkmsg.EnvVar{{Name: "X", Value: bad}}}},
		`environment variable "X\x00Y" has a NUL byte`:   {Command: sparkmsg.Command{Environment: []sparkmsg.EnvVar{{Name: "X\x00Y", Value: "1"}}}},
		`environment variable "X=Y" has "=" in its name`: {Command: sparkmsg.Command{Environment: []sparkmsg.EnvVar{{Name: "X=Y", Value: "1"}}}},
		`environment variable "" has no name`:            {Command: sparkmsg.Command{Environment: []sparkmsg.EnvVar{{Value: "1"}}}},
		`environment variable "LD_LIBRARY_PATH" has a`:   {Command: sparkmsg.Command{LibraryPathEntries: []string{bad}}},
		"the working directory has a NUL byte":           {Dir: bad},
		`environment variable "SPARK_EXECUTOR_DIRS"`:     {LocalDirs: []string{bad}},
		`environment variable "SPARK_LOG_URL_STDERR"`:    {AppID: bad},
		"the path of java has a NUL byte":                {Command: sparkmsg.Command{Environment: []sparkmsg.EnvVar{{Name: "JAVA_HOME", Value: bad}}}},
		"the command names no main class":                {Command: sparkmsg.Command{MainClass: "-"}},
		"the command's arguments cannot be read":         {Command: sparkmsg.Command{Unread: []string{"arguments"}}},
	} {
		switch s.Command.MainClass {
		case "":
			s.Command.MainClass = "Main"
		case "-":
			s.Command.MainClass = ""
		}
		_, err := w.Executor(s)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err := w.Driver(launcher.DriverSpec{Command: sparkmsg.Command{MainClass: bad}})
	var refused *launcher.StringError
	if !errors.As(err, &refused) || refused.What != "the main class" {
		t.Error(err)
	}
}

// TestTooLargeCommands: what execve would answer with E2BIG is said in words, before anything is started.
func TestTooLargeCommands(t *testing.T) {
	home, jdk := install(t, "4.3.0")
	w := &launcher.Worker{Home: home, Env: []string{"JAVA_HOME=" + jdk}}
	one := strings.Repeat("x", 32*os.Getpagesize())
	_, err := w.Driver(launcher.DriverSpec{Command: sparkmsg.Command{MainClass: "Main", Arguments: []string{one}}})
	if !errors.Is(err, launcher.ErrTooLarge) || !strings.Contains(err.Error(), "argument 1 has 131072 bytes") && os.Getpagesize() == 4096 {
		t.Error(err)
	}
	var many []string
	for range 70 {
		many = append(many, one[:len(one)-1])
	}
	_, err = w.Driver(launcher.DriverSpec{Command: sparkmsg.Command{MainClass: "Main", Arguments: many}})
	if !errors.Is(err, launcher.ErrTooLarge) || !strings.Contains(err.Error(), "ulimit -s") {
		t.Error(err)
	}
	// The largest single argument does start.
	c, err := w.Driver(launcher.DriverSpec{Command: sparkmsg.Command{MainClass: "Main", Arguments: many[:1]}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Env, cmd.Dir = c.Env, c.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestJavaThatIsNotThere names where it was looked for.
func TestJavaThatIsNotThere(t *testing.T) {
	home, jdk := install(t, "3.5.9")
	empty, plain := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(plain, "bin", "java"), 0o755); err != nil { // a directory
		t.Fatal(err)
	}
	locked := t.TempDir()
	if err := launchertest.MakeJava(locked); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(locked, "bin", "java"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env, command []string
		want         string
	}{
		{[]string{"PATH=/nowhere"}, nil, "no Java found: no java in PATH, and JAVA_HOME is not set"},
		{[]string{"PATH=relative:" + empty, "JAVA_HOME="}, nil, "no Java found"},
		{[]string{"JAVA_HOME=" + empty}, nil, "JAVA_HOME in the worker's environment cannot be started: stat " + empty + "/bin/java: no such file"},
		{[]string{"JAVA_HOME=" + jdk}, []string{empty}, "JAVA_HOME in the command's environment cannot be started: stat " + empty},
		{[]string{"JAVA_HOME=" + plain}, nil, "not an executable file"},
		{[]string{"JAVA_HOME=" + locked}, nil, "cannot be started"},
		{[]string{"JAVA_HOME=" + jdk}, nil, ""},
		{[]string{"PATH=/nowhere:" + jdk + "/bin"}, nil, ""},
	} {
		w := &launcher.Worker{Home: home, Env: c.env}
		command := sparkmsg.Command{MainClass: "Main"}
		for _, v := range c.command {
			command.Environment = append(command.Environment, sparkmsg.EnvVar{Name: "JAVA_HOME", Value: v})
		}
		_, err := w.Executor(launcher.ExecutorSpec{Command: command})
		if len(c.command) == 0 && (w.CheckJava() == nil) != (c.want == "") {
			t.Errorf("%q at the start: %v", c.env, w.CheckJava())
		}
		var java *launcher.JavaError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.env, err)
		case c.want != "" && (!errors.As(err, &java) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "set JAVA_HOME or PATH")):
			t.Errorf("%q: %v, want %q", c.env, err, c.want)
		}
	}
}

// TestStartErrors explains what the system says.
func TestStartErrors(t *testing.T) {
	_, jdk := install(t, "3.5.9")
	good := launcher.Command{Argv: []string{jdk + "/bin/java"}, Dir: "/"}
	for _, c := range []struct {
		cmd  launcher.Command
		err  error
		want string
	}{
		{good, syscall.E2BIG, "too large"},
		{good, syscall.ENOEXEC, "no program for this machine"},
		{good, syscall.EAGAIN, "start " + jdk},
		{good, syscall.ENOENT, "start " + jdk},
		{launcher.Command{Argv: good.Argv, Dir: "/gone/away"}, syscall.ENOENT, "the working directory /gone/away is gone"},
		{launcher.Command{Argv: []string{"/no/java"}, Dir: "/"}, syscall.ENOENT, "the Java of this process cannot be started"},
		{launcher.Command{}, syscall.EINVAL, "start nothing"},
	} {
		got := launcher.StartError(c.cmd, &os.PathError{Op: "fork/exec", Path: "x", Err: c.err})
		if got == nil || !strings.Contains(got.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.err, got, c.want)
		}
	}
	if launcher.StartError(good, nil) != nil {
		t.Error("no error became one")
	}
}

// TestOptionsFileErrors: a java-opts file that Spark refuses is refused, by its name.
func TestOptionsFileErrors(t *testing.T) {
	home, jdk := install(t, "3.5.9")
	w := &launcher.Worker{Home: home, Env: []string{"JAVA_HOME=" + jdk}}
	file := filepath.Join(home.Dir, "conf", "java-opts")
	for text, want := range map[string]string{
		"-Da=1\n-Db='open":               "java-opts: a line ends inside a quotation",
		`-Da=1\`:                         "with a backslash",
		strings.Repeat("x", 1<<20) + "y": "more than 1048576 bytes",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Executor(launcher.ExecutorSpec{Command: sparkmsg.Command{MainClass: "Main"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestHeaderHidesSecrets: more than Spark's, which shows a value with a line break; a nil expression is Spark's default.
func TestHeaderHidesSecrets(t *testing.T) {
	home, jdk := install(t, "3.5.9")
	w := &launcher.Worker{Home: home, Env: []string{"JAVA_HOME=" + jdk}}
	options := []string{"-Dmy.password=hunter2", "-Dx=line\nhunter2 token", "-Dmy.secret=hunter2\nhunter2", "-Dshown=1"}
	c, err := w.Driver(launcher.DriverSpec{Command: sparkmsg.Command{MainClass: "Main", JavaOpts: options}})
	if err != nil || strings.Contains(c.LogHeader, "hunter2") || !strings.Contains(c.LogHeader, `"-Dmy.password=*********(redacted)"`) ||
		!strings.Contains(c.LogHeader, `"-Dshown=1"`) {
		t.Errorf("%v\n%s", err, c.LogHeader)
	}
	if !strings.Contains(strings.Join(c.Argv, " "), "-Dmy.password=hunter2") {
		t.Error("the process does not get its password")
	}
	w.Redaction = regexp.MustCompile("") // everything
	if c, err = w.Driver(launcher.DriverSpec{Command: sparkmsg.Command{MainClass: "Main", JavaOpts: options}}); err != nil || strings.Contains(c.LogHeader, "shown=1") {
		t.Errorf("%v\n%s", err, c.LogHeader)
	}
}

func TestAuthenticationWithoutSecret(t *testing.T) {
	home, jdk := install(t, "3.5.9")
	w := &launcher.Worker{Home: home, Env: []string{"JAVA_HOME=" + jdk}, Properties: map[string]string{"spark.authenticate": "true"}}
	if _, err := w.Driver(launcher.DriverSpec{Command: sparkmsg.Command{MainClass: "Main"}}); err == nil || !strings.Contains(err.Error(), "spark.authenticate.secret") {
		t.Error(err)
	}
}

func TestHomes(t *testing.T) {
	home, _ := install(t, "4.3.0")
	if home.Release != "4.3.0" || home.Scala != "2.13" {
		t.Errorf("%+v", home)
	}
	if f, err := home.Family(); err != nil || f != sparkmsg.FamilyE {
		t.Errorf("%v %v", f, err)
	}
	if _, err := (&launcher.Home{Release: "2.4.8"}).Family(); err == nil || !strings.Contains(err.Error(), "2.4.8") {
		t.Error(err)
	}
	empty, several, strange := t.TempDir(), t.TempDir(), t.TempDir()
	for dir, jars := range map[string][]string{several: {"spark-core_2.12-3.5.9.jar", "spark-core_2.13-4.3.0.jar"}, strange: {"spark-core_x.jar"}} {
		for _, jar := range jars {
			if err := errors.Join(os.MkdirAll(dir+"/jars", 0o755), os.WriteFile(dir+"/jars/"+jar, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for dir, want := range map[string]string{"": "set SPARK_HOME", empty: "is no Spark installation: open", several: "several Spark releases", strange: "has no spark-core_SCALA-RELEASE.jar"} {
		if _, err := launcher.OpenHome(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", dir, err, want)
		}
	}
	for what, dir := range map[string]string{"is no Spark installation": strange + "/jars/spark-core_x.jar", "cannot be read": strings.Repeat("x", 300)} {
		if _, err := launcher.OpenHome(dir); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v, want %q", dir, err, what)
		}
	}
	// spark-class of an unpacked release, by a link as packagers make them; and what pip makes.
	bin, venv := t.TempDir(), t.TempDir()
	packaged := filepath.Join(venv, "lib", "python3.11", "site-packages", "pyspark", "jars")
	script := []byte("#!/bin/sh\n")
	err := errors.Join(os.MkdirAll(filepath.Join(home.Dir, "bin"), 0o755), os.WriteFile(filepath.Join(home.Dir, "bin", "spark-class"), script, 0o755),
		os.Symlink(filepath.Join(home.Dir, "bin", "spark-class"), filepath.Join(bin, "spark-class")),
		os.MkdirAll(filepath.Join(venv, "bin"), 0o755), os.WriteFile(filepath.Join(venv, "bin", "spark-submit"), script, 0o755),
		os.MkdirAll(packaged, 0o755), os.WriteFile(filepath.Join(packaged, "spark-core_2.12-3.5.9.jar"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, env, want string
	}{
		{home.Dir, "SPARK_HOME=/wrong", "4.3.0"}, {"", "SPARK_HOME=" + home.Dir, "4.3.0"}, {"", "PATH=/x:" + bin, "4.3.0"}, {"", "PATH=" + venv + "/bin", "3.5.9"},
		{"", "PATH=/x", ""}, {"", "SPARK_HOME=" + empty, ""},
	} {
		h, err := launcher.FindHome(c.dir, []string{c.env})
		if (err == nil) != (c.want != "") || err == nil && h.Release != c.want {
			t.Errorf("%+v: %+v %v", c, h, err)
		}
	}
}

// TestEnvironment runs the script that stands for bin/load-spark-env.sh.
func TestEnvironment(t *testing.T) {
	home, _ := install(t, "4.3.0")
	base := []string{"PATH=" + os.Getenv("PATH"), "SPARK_HOME=/another", "KEPT=a\nb", "not a variable"}
	if _, err := launcher.Environment(context.Background(), home, base); err == nil || !strings.Contains(err.Error(), "load-spark-env.sh") {
		t.Errorf("without the script: %v", err)
	}
	loader := `export SPARK_ENV_LOADED=1
export SPARK_CONF_DIR="${SPARK_CONF_DIR:-"${SPARK_HOME}"/conf}"
set -a
. "$SPARK_CONF_DIR/spark-env.sh"
set +a
export SPARK_SCALA_VERSION=2.13
`
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(home.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("bin/load-spark-env.sh", loader)
	write("conf/spark-env.sh", "echo printed\necho complained >&2\nSPARK_WORKER_CORES=7\nMULTI='x\ny=z'\n(sleep 3 >/dev/null 2>&1 &)\n")
	var said strings.Builder
	env, err := launcher.EnvironmentOutput(context.Background(), home, base, &said)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"SPARK_HOME": home.Dir, "SPARK_WORKER_CORES": "7", "SPARK_SCALA_VERSION": "2.13", "SPARK_CONF_DIR": home.Dir + "/conf",
		"SPARK_ENV_LOADED": "1", "KEPT": "a\nb", "MULTI": "x\ny=z"} {
		if got := value(env, name); got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
	if !strings.Contains(said.String(), "printed") || !strings.Contains(said.String(), "complained") {
		t.Errorf("output: %q", said.String())
	}
	for text, want := range map[string]string{
		"echo that went wrong >&2; exit 3":       "exit status 3; it said: that went wrong",
		"echo bye >&2; exit 0":                   "ended the shell (exit) before the environment was complete; it said: bye",
		"if true; then":                          "syntax error",
		"kill -9 $$":                             "signal: killed",
		"head -c 9000000 /dev/zero | tr '\\0' x": "it printed too much",
	} {
		write("conf/spark-env.sh", text)
		_, err := launcher.Environment(context.Background(), home, base)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), home.Dir+"/conf/spark-env.sh") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	write("conf/spark-env.sh", "sleep 600")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the test's time is up"))
	if _, err := launcher.Environment(ctx, home, base); err == nil || !strings.Contains(err.Error(), "time is up") {
		t.Error(err)
	}
	if _, err := launcher.Environment(context.Background(), home, []string{"PATH=/nowhere"}); err == nil || !strings.Contains(err.Error(), "needs bash") {
		t.Error(err)
	}
}
