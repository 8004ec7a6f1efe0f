package sparktest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"raftmaster/cluster/launcher"
	"raftmaster/cluster/launcher/launchertest"
)

var (
	launcherSeed   = flag.Uint64("launcher-seed", 1, "seed of the commands that are compared with Spark's command builder")
	launcherCases  = flag.Int("launcher-cases", 150, "commands for each of the four worker environments")
	recordLauncher = flag.Bool("record-launcher", false, "write the golden files of cluster/launcher")
)

// recordedCases of each environment go into the golden files.
const recordedCases = 28

const launcherTestdata = "../launcher/testdata"

// TestLauncherAgainstSparksBuilder: random commands make the same argument vectors, environments and log headers as in
// Spark's own CommandUtils.
func TestLauncherAgainstSparksBuilder(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test needs real Spark")
	}
	for _, release := range releases() {
		t.Run(release, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			spark, err := Install(ctx, release, t.Logf)
			if err != nil {
				t.Fatal(err)
			}
			home, err := launcher.OpenHome(spark.Home)
			if err != nil {
				t.Fatal(err)
			}
			classes := compileOracle(ctx, t, spark)
			var recordings []launchertest.Recording
			for i, env := range launchertest.Environments() {
				seed := *launcherSeed<<8 + uint64(i)
				recordings = append(recordings, compareLauncher(ctx, t, home, classes, env, seed))
			}
			if *recordLauncher {
				writeRecordings(t, release, recordings)
			}
		})
	}
}

// TestEnvironmentOfSparkClass: the environment that processes get is the one that a JVM started by spark-class has.
func TestEnvironmentOfSparkClass(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test needs real Spark")
	}
	for _, release := range releases() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		spark, err := Install(ctx, release, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		home, err := launcher.FindHome(spark.Home, nil)
		if err != nil {
			t.Fatal(err)
		}
		conf, out := t.TempDir(), filepath.Join(t.TempDir(), "answers")
		script := "SPARK_WORKER_CORES=3\nMULTI='a\nb=c'\nunset GONE\nPATH=$PATH:/more\n"
		if err := os.WriteFile(filepath.Join(conf, "spark-env.sh"), []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		base := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + conf, "SPARK_CONF_DIR=" + conf, "GONE=1", "KEPT= x ", "LC_ALL=C.UTF-8",
			"SPARK_DIST_CLASSPATH=" + compileOracle(ctx, t, spark)}
		ours, err := launcher.Environment(ctx, home, base)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, filepath.Join(spark.Home, "bin", "spark-class"), "LauncherOracle", "environment", os.DevNull, out)
		cmd.Env, cmd.Dir = append(base, "SPARK_HOME="+home.Dir), "."
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("spark-class: %v\n%s", err, lastLines(string(said), 30))
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		var spoken launchertest.Answer
		if err := json.Unmarshal(text, &spoken); err != nil {
			t.Fatal(err)
		}
		want := launchertest.Entries(spoken.Env)
		slices.Sort(ours)
		if !slices.Equal(ours, want) {
			t.Errorf("%s:\nspark-class %q\nwe          %q", release, want, ours)
		}
	}
}

func compileOracle(ctx context.Context, t *testing.T, spark Spark) (classes string) {
	t.Helper()
	java, err := JavaHome()
	if err != nil {
		t.Fatal(err)
	}
	javac := filepath.Join(java, "bin", "javac")
	if _, err := os.Stat(javac); err != nil {
		if javac, err = exec.LookPath("javac"); err != nil {
			t.Fatal(ErrNoCompiler)
		}
	}
	classes = t.TempDir()
	cmd := exec.CommandContext(ctx, javac, "-nowarn", "-proc:none", "-cp", filepath.Join(spark.Home, "jars", "*"), "-d", classes,
		filepath.Join(launcherTestdata, "LauncherOracle.java"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return classes
}

// compareLauncher compares in one worker environment and returns the first cases with Spark's answers.
func compareLauncher(ctx context.Context, t *testing.T, home *launcher.Home, classes string, env map[string]string, seed uint64) launchertest.Recording {
	t.Helper()
	java, err := JavaHome()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := launchertest.MakeRoot(root, filepath.Join(java, "bin", "java")); err != nil {
		t.Fatal(err)
	}
	cases, err := launchertest.Place(launchertest.Generate(seed, *launcherCases), root, home.Dir, java)
	if err != nil {
		t.Fatal(err)
	}
	env["SPARK_SCALA_VERSION"] = home.Scala // spark-class exports it, and Spark's builder needs it
	placed, err := launchertest.Place(env, root, home.Dir, java)
	if err != nil {
		t.Fatal(err)
	}
	answers := askSpark(ctx, t, home, classes, launchertest.Entries(placed), cases)
	rec := launchertest.Recording{Release: home.Release, Scala: home.Scala, Env: env}
	failed := 0
	for i, c := range cases {
		if i < recordedCases {
			rec.Pairs = append(rec.Pairs, launchertest.Pair{Case: c, Answer: answers[i]})
		}
		ours := c.Ask(home, launchertest.Entries(placed), t.TempDir())
		if strings.HasPrefix(home.Release, "3.2.") || strings.HasPrefix(home.Release, "3.3.") {
			answers[i].Header = "" // their default redaction hides less (no access.key)
		}
		if d := launchertest.Difference(answers[i], ours); d != "" && failed < 3 {
			failed++
			text, err := json.Marshal(c)
			t.Errorf("seed %d, case %d: %s\n%s (%v)", seed, i, d, text, err)
		}
	}
	if rec.Pairs, err = launchertest.Unplace(rec.Pairs, root, home.Dir, java); err != nil {
		t.Fatal(err)
	}
	jars, err := filepath.Glob(filepath.Join(home.Dir, "jars", "slf4j-api-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, jar := range jars {
		rec.SLF4J = append(rec.SLF4J, filepath.Base(jar))
	}
	return rec
}

// askSpark runs LauncherOracle in the worker's environment.
func askSpark(ctx context.Context, t *testing.T, home *launcher.Home, classes string, env []string, cases []launchertest.Case) []launchertest.Answer {
	t.Helper()
	java, err := JavaHome()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var questions bytes.Buffer
	encoder := json.NewEncoder(&questions)
	encoder.SetEscapeHTML(false)
	for _, c := range cases {
		if err := encoder.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	in, out := filepath.Join(dir, "questions"), filepath.Join(dir, "answers")
	if err := os.WriteFile(in, questions.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	opens := []string{"java.base/java.lang=ALL-UNNAMED", "java.base/sun.nio.ch=ALL-UNNAMED", "java.base/java.nio=ALL-UNNAMED"}
	args := []string{"-Xmx512m", "-cp", classes + ":" + filepath.Join(home.Dir, "jars", "*")}
	for _, o := range opens {
		args = append(args, "--add-opens", o)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(java, "bin", "java"), append(args, "LauncherOracle", home.Dir, in, out)...)
	cmd.Env = env
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("LauncherOracle: %v\n%s", err, lastLines(string(said), 30))
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	var answers []launchertest.Answer
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a launchertest.Answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	if err := lines.Err(); err != nil || len(answers) != len(cases) {
		t.Fatalf("%d answers to %d questions (%v)", len(answers), len(cases), err)
	}
	return answers
}

func writeRecordings(t *testing.T, release string, recordings []launchertest.Recording) {
	t.Helper()
	text, err := json.MarshalIndent(recordings, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(launcherTestdata, fmt.Sprintf("spark-%s.json", strings.TrimSpace(release)))
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
