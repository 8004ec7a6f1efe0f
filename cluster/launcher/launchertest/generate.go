package launchertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// javaOpts is a file of options with every kind of quoting.
const javaOpts = "-Dplain=1 \t-Dtwo=2\n\n  \n" +
	`-Dquoted="a b" 'whole word' -Dmid'd le'end=x` + "\n" +
	`-Descaped=a\ b "in \"double\"" 'in \single' "" ''` + "\n" +
	"-Dcrlf=yes\r\n-Dlast=ünï"

// Environments are the worker environments in which everything is compared.
func Environments() []map[string]string {
	base := func(more map[string]string) map[string]string {
		env := map[string]string{"PATH": Root + "/path:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", "SPARK_SCALA_VERSION": "2.12",
			"SPARK_HOME": Home, "SPARK_ENV_LOADED": "1"}
		for k, v := range more {
			env[k] = v
		}
		return env
	}
	return []map[string]string{
		base(nil),
		base(map[string]string{"JAVA_HOME": Root + "/jdk-worker", "SPARK_CONF_DIR": Root + "/conf-options", "LD_LIBRARY_PATH": "/worker/lib",
			"SPARK_WORKER_OPTS": "-Dspark.x=a b", "EMPTY": ""}),
		base(map[string]string{"JAVA_HOME": "", "SPARK_CONF_DIR": Root + "/conf-plain", "HADOOP_CONF_DIR": Root + "/hadoop",
			"YARN_CONF_DIR": Root + "/yarn", "SPARK_DIST_CLASSPATH": "/dist/*::" + Root + "/classes:/dist/*", "LD_LIBRARY_PATH": ""}),
		base(map[string]string{"SPARK_CONF_DIR": Root + "/conf-missing", "HADOOP_CONF_DIR": "/hadoop/missing", "SPARK_CLASSPATH": "/ignored",
			"_SPARK_AUTH_SECRET": "from the environment", "LINES": "a\nb"}),
	}
}

// Generate gives n cases that depend on the seed alone.
func Generate(seed uint64, n int) []Case {
	g := &generator{rand.New(rand.NewPCG(seed, 5))}
	cases := make([]Case, n)
	for i := range cases {
		if i%8 == 7 {
			line := g.line()
			cases[i] = Case{Split: &line}
			continue
		}
		cases[i] = g.command()
	}
	return cases
}

type generator struct{ *rand.Rand }

func (g *generator) one(pool []string) string { return pool[g.IntN(len(pool))] }

func (g *generator) some(pool []string, most int) []string {
	var out []string
	for range g.IntN(most + 1) {
		out = append(out, g.one(pool))
	}
	return out
}

// words are strings that a shell, or a careless program, would spoil.
var words = []string{"", " ", "plain", "two words", "$HOME", "`id`", "$(id)", "; id", "a'b", `a"b`, `back\slash`, "new\nline", "tab\tin", "*", "~",
	"--conf", "-", "ünï 字", "{{APP_ID}}", "x{{APP_ID}}", "{{EXECUTOR_ID}}", "{{HOSTNAME}}", "{{CORES}}", "{{WORKER_URL}}",
	"{{RESOURCE_PROFILE_ID}}", "{{USER_JAR}}", "{{UNKNOWN}}", "{{CORES}} ", "\u00a0", "%s", "-Dnot=an option", "&&", "a=b", "#"}

var options = []string{"-Dq=a b", "-Da={{APP_ID}}/{{EXECUTOR_ID}}/{{APP_ID}}", "{{EXECUTOR_ID}}", "-Dc={{CORES}}", "-Dspark.authenticate.secret=hidden",
	"-Dspark.authenticate.secretOther=hidden", "-Dspark.authenticate=true", "-Dspark.ssl.rpc.keyPassword=1", "-Dspark.ssl.rpc.privateKeyPassword=2",
	"-Dspark.ssl.rpc.keyStorePassword=3", "-Dspark.ssl.rpc.trustStorePasswordAndMore=4", "-Dspark.ssl.rpc.enabled=true", "-Dspark.ssl.keyStore=/k",
	"-Dspark.ssl.useNodeLocalConf=true", "-Dspark.ssl.useNodeLocalConf=false", "-Dspark.ssl.useNodeLocalConf=", "-Dspark.ssl.useNodeLocalConf=TRUE",
	"-Dspark.ssl.useNodeLocalConf=perhaps", "-Dmy.password=hunter2", "-Dmy.PassWord=", "-Dx=a token", "-D=y", "-D==secret", "-Dsecret", "-D", "-Daccess.key=x",
	"-Daccesskey=x", "-Daccess_key=x", "-DSECRET=a=b", "-XX:+UseG1GC", "-Xss4m", "--add-opens=java.base/java.lang=ALL-UNNAMED", "", "a b", "-Dspark.driver.port=1",
	"-javaagent:/x.jar=secret", "-Dü=ß"}

var paths = []string{"/a.jar", Root + "/classes", Root + "/classes/", Root + "/classes/deep", "/a.jar:/b.jar", ":", "", "/missing/", "/x/*", Root + "/conf-plain",
	"relative.jar", "{{APP_ID}}", "/sp ace", Home + "/jars/*", Root + "/classes::" + Root + "/classes/"}

var variables = map[string][]string{
	"JAVA_HOME":            {"", Root + "/jdk-command", Root + "/jdk-command/", Root + "//jdk-worker"},
	"SPARK_CONF_DIR":       {"", Root + "/conf-options", Root + "/conf-plain", Root + "/conf-missing", Root + "/conf-options/"},
	"SPARK_HOME":           {"", "/elsewhere"},
	"LD_LIBRARY_PATH":      {"", "/cmd/lib", "/a:/b"},
	"HADOOP_CONF_DIR":      {"", Root + "/hadoop", "/h1:/h2"},
	"YARN_CONF_DIR":        {"", Root + "/yarn"},
	"SPARK_DIST_CLASSPATH": {"", "/d/*:/d2/*"},
	"SPARK_CLASSPATH":      {"/never"},
	"SPARK_USER":           {"root", "someone else"},
	"OMP_NUM_THREADS":      {"1"},
	"EMPTY":                {"", "not any more"},
	"HOME":                 {"/home/x"},
	"A B":                  {"c=d", "line\nbreak"},
	"_SPARK_AUTH_SECRET":   {"the application's"},
}

var variableNames = []string{"JAVA_HOME", "SPARK_CONF_DIR", "SPARK_HOME", "LD_LIBRARY_PATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH",
	"SPARK_CLASSPATH", "SPARK_USER", "OMP_NUM_THREADS", "EMPTY", "HOME", "A B", "_SPARK_AUTH_SECRET"}

// properties of the worker.
var properties = []map[string]string{
	nil, nil, nil,
	{"spark.ssl.enabled": "false"},
	{"spark.ssl.keyStore": "/node/local"},
	{"spark.authenticate": "true", "spark.authenticate.secret": "from the properties"},
	{"spark.authenticate": "false", "spark.authenticate.secret": "from the properties"},
	{"spark.ssl.rpc.keyPassword": "not enabled"},
	{"spark.ssl.rpc.enabled": "true", "spark.ssl.rpc.keyPassword": "k", "spark.ssl.keyStorePassword": "from spark.ssl", "spark.ssl.rpc.trustStorePassword": ""},
	{"spark.ssl.enabled": "true", "spark.ssl.rpc.keyPassword": "k"},
	{"spark.ssl.enabled": "true", "spark.ssl.rpc.enabled": "true", "spark.ssl.keyPassword": "k", "spark.ssl.rpc.privateKeyPassword": "p"},
	{"spark.redaction.regex": "(?i)port"},
}

func (g *generator) command() Case {
	c := Case{Kind: "executor", AppID: fmt.Sprintf("app-20261130120816-%04d", g.IntN(10000)), ExecutorID: int32(g.IntN(1000)),
		Cores: int32(g.IntN(64)), MemoryMB: int32(g.IntN(100000)), Profile: int32(g.IntN(3)), Host: g.one([]string{"127.0.0.1", "node-1", "[::1]"}),
		Port: 1 + g.IntN(65535), Properties: properties[g.IntN(len(properties))]}
	if g.IntN(3) == 0 {
		c.Kind, c.UserJar = "driver", g.one([]string{"/work/driver-1/a b.jar", "/work/driver-1"})
	}
	if g.IntN(5) == 0 {
		c.ResourcesFile = "/work/resource-" + c.Kind + "-1.json"
	}
	c.Command = &Command{MainClass: g.one([]string{"org.apache.spark.executor.CoarseGrainedExecutorBackend", "Main", "{{APP_ID}}"}),
		Arguments: g.some(words, 12), ClassPath: g.some(paths, 5), LibraryPath: g.some(paths, g.IntN(3)), JavaOpts: g.some(options, 10),
		Environment: map[string]string{}}
	if severalTLS(c.Properties) { // Spark adds node-local settings in the order of a hash table
		c.Command.JavaOpts = slices.DeleteFunc(c.Command.JavaOpts, func(o string) bool { return strings.Contains(o, "useNodeLocalConf") })
	}
	for range g.IntN(7) {
		name := g.one(variableNames)
		c.Command.Environment[name] = g.one(variables[name])
	}
	return c
}

func severalTLS(properties map[string]string) bool {
	n := 0
	for key := range properties {
		if strings.HasPrefix(key, "spark.ssl.") {
			n++
		}
	}
	return n > 1
}

// line makes a line of a java-opts file out of pieces that matter to its splitter.
func (g *generator) line() string {
	pieces := []string{" ", "\t", "'", `"`, `\`, "a", "-Dx=", "ü", "\u00a0", "\u2003", "\u2007", "\x1c", "\x0b", "b c", `\\`, `''`}
	return strings.Join(g.some(pieces, 14), "")
}
