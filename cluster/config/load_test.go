package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
)

func ptr[T any](v T) *T { return &v }

// world is an environment and a file system for Load.
type world struct {
	env   map[string]string
	files map[string]string
	flags Flags
}

func (w world) load() (Config, error) {
	return Load(Source{
		Flags:     w.flags,
		LookupEnv: func(k string) (string, bool) { v, ok := w.env[k]; return v, ok },
		ReadFile: func(path string) ([]byte, error) {
			if s, ok := w.files[path]; ok {
				return []byte(s), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		LocalHost: func() (string, error) { return "10.1.2.3", nil },
		HomeDir:   func() (string, error) { return "/home/spark", nil },
	})
}

func (w world) mustLoad(t *testing.T) Config {
	t.Helper()
	c, err := w.load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	c := world{env: map[string]string{"XDG_STATE_HOME": "/state"}}.mustLoad(t)
	if c.Host != "10.1.2.3" || c.Port != 7077 || c.AdvertiseHost != "10.1.2.3" || c.WebUIPort != 8080 || c.RESTPort != 6066 ||
		c.WebUIHost != "0.0.0.0" || c.PublicHost != "10.1.2.3" || c.RESTHost != "10.1.2.3" || !c.RESTEnabled {
		t.Errorf("addresses: %+v", c)
	}
	if c.FailoverTimeout != 500*time.Millisecond || c.LogLevel != "info" || c.DataDir != "/state/raftmaster/10.1.2.3-7077" {
		t.Errorf("%+v", c)
	}
	d := c.Deploy
	if d.WorkerTimeout != time.Minute || d.RecoveryTimeout != time.Minute || d.AppTimeout != 2*time.Minute || d.DeadWorkerPersistence != 15 ||
		d.RetainedApplications != 200 || d.RetainedDrivers != 200 || d.MaxExecutorRetries != 10 || !d.SpreadOutApps ||
		d.WorkerSelectionPolicy != fsm.CoresFreeDesc || d.DefaultCores != 1<<31-1 || c.PortMaxRetries != 16 {
		t.Errorf("%+v", d)
	}
	if got := c.ClusterURL(); got != "spark://10.1.2.3:7077" || c.MasterURL() != got || len(c.Cluster) != 1 {
		t.Errorf("a cluster of one at its own address: %s", got)
	}
	if len(c.Warnings) != 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

// TestPrecedence: flag, then environment (-D included), then file, then default.
func TestPrecedence(t *testing.T) {
	const conf = "/conf/spark-defaults.conf"
	full := func() world {
		return world{
			flags: Flags{WebUIPort: ptr(1111), RESTPort: ptr(1112), Host: ptr("flaghost"), DataDir: ptr("/flag"), LogLevel: ptr("debug")},
			env: map[string]string{"SPARK_CONF_DIR": "/conf", "SPARK_MASTER_HOST": "envhost", "SPARK_MASTER_WEBUI_PORT": "2222",
				"RAFTMASTER_DATA_DIR": "/env", "RAFTMASTER_LOG_LEVEL": "warn",
				"SPARK_MASTER_OPTS": "-Dspark.worker.timeout=77 -Dspark.master.rest.port=2223"},
			files: map[string]string{conf: "spark.master.ui.port 3333\nspark.master.rest.port=3334\nspark.worker.timeout: 88\n" +
				"spark.raftmaster.data.dir /file\nspark.raftmaster.log.level ERROR\n"},
		}
	}
	check := func(name string, w world, ui, rest int, host, dir, level string, timeout time.Duration) {
		t.Helper()
		c := w.mustLoad(t)
		if c.WebUIPort != ui || c.RESTPort != rest || c.Host != host || c.DataDir != dir || c.LogLevel != level || c.Deploy.WorkerTimeout != timeout {
			t.Errorf("%s: ui %d rest %d host %s dir %s level %s timeout %v", name, c.WebUIPort, c.RESTPort, c.Host, c.DataDir, c.LogLevel, c.Deploy.WorkerTimeout)
		}
	}
	w := full()
	check("flags", w, 1111, 1112, "flaghost", "/flag", "debug", 77*time.Second)
	w.flags = Flags{}
	check("environment", w, 2222, 2223, "envhost", "/env", "warn", 77*time.Second)
	w.env = map[string]string{"SPARK_CONF_DIR": "/conf"}
	check("file", w, 3333, 3334, "10.1.2.3", "/file", "error", 88*time.Second)
	w.files, w.env = nil, map[string]string{"XDG_STATE_HOME": "/s"}
	check("default", w, 8080, 6066, "10.1.2.3", "/s/raftmaster/10.1.2.3-7077", "info", time.Minute)

	// -Dspark.master.ui.port wins over SPARK_MASTER_WEBUI_PORT, as in Spark.
	w = full()
	w.flags = Flags{}
	w.env["SPARK_MASTER_OPTS"] = "-Dspark.master.ui.port=4444"
	if c := w.mustLoad(t); c.WebUIPort != 4444 {
		t.Errorf("-D against the variable: %d", c.WebUIPort)
	}
	// SPARK_MASTER_OPTS comes after SPARK_DAEMON_JAVA_OPTS on Spark's command line.
	w.env["SPARK_DAEMON_JAVA_OPTS"] = "-Dspark.master.ui.port=5555 -Dspark.deploy.defaultCores=3"
	if c := w.mustLoad(t); c.WebUIPort != 4444 || c.Deploy.DefaultCores != 3 {
		t.Errorf("both option variables: %d %d", c.WebUIPort, c.Deploy.DefaultCores)
	}
}

func TestFileOrder(t *testing.T) {
	files := map[string]string{
		"/mine.conf": "spark.deploy.defaultCores 1", "/conf/spark-defaults.conf": "spark.deploy.defaultCores 2",
		"/spark/conf/spark-defaults.conf": "spark.deploy.defaultCores 3",
	}
	env := map[string]string{"SPARK_HOME": "/spark", "SPARK_CONF_DIR": "/conf"}
	for _, c := range []struct {
		env  map[string]string
		file *string
		want int
	}{
		{env, ptr("/mine.conf"), 1}, {env, nil, 2}, {map[string]string{"SPARK_HOME": "/spark"}, nil, 3},
	} {
		if got := (world{env: c.env, files: files, flags: Flags{PropertiesFile: c.file}}).mustLoad(t).Deploy.DefaultCores; got != c.want {
			t.Errorf("%v %v: %d, want %d", c.env, c.file, got, c.want)
		}
	}
	if _, err := (world{flags: Flags{PropertiesFile: ptr("/no.conf")}}).load(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/no.conf") {
		t.Errorf("a properties file that was named must exist: %v", err)
	}
	(world{env: map[string]string{"SPARK_CONF_DIR": "/nowhere"}}).mustLoad(t)
}

// TestPropertiesSyntax: what java.util.Properties accepts, and no expansion of ${...}.
func TestPropertiesSyntax(t *testing.T) {
	file := `# a comment
! another
spark.master.ui.title = ${HOME} and \
    more
spark.deploy.defaultCores:7
  spark.worker.timeout      90
spark.deploy.spreadOut=FALSE
log4j.something ignored
spark.ui.reverseProxyUrl	http\://proxy/spark
`
	c := world{files: map[string]string{"/f": file}, flags: Flags{PropertiesFile: ptr("/f")}}.mustLoad(t)
	if c.UI.Title != "${HOME} and more" || c.Deploy.DefaultCores != 7 || c.Deploy.WorkerTimeout != 90*time.Second ||
		c.Deploy.SpreadOutApps || c.UI.ReverseProxyURL != "http://proxy/spark" {
		t.Errorf("%+v", c)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "log4j.something") || c.Properties["spark.ui.reverseProxyUrl"] != "http://proxy/spark" {
		t.Errorf("warnings: %v", c.Warnings)
	}
	if _, err := (world{files: map[string]string{"/f": "spark.x \\uZZZZ"}, flags: Flags{PropertiesFile: ptr("/f")}}).load(); err == nil || !strings.Contains(err.Error(), "/f") {
		t.Errorf("a broken file: %v", err)
	}
}

func TestSplitOptions(t *testing.T) {
	for in, want := range map[string]string{
		`-Da=1  -Db=2`: "-Da=1|-Db=2", `"-Dk=a b" -Dc='x y'z`: "-Dk=a b|-Dc=x yz", `-Da=\"q\"`: `-Da="q"`, ``: "", ` ""`: "",
		`'a\b'`: `a\b`, "-Da=1\n\t-Db=2": "-Da=1|-Db=2",
	} {
		got, err := splitOptions(in)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{`"-Da`, `'x`, `x\`} {
		if _, err := splitOptions(in); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
	if _, err := (world{env: map[string]string{"SPARK_MASTER_OPTS": `"-Da`}}).load(); err == nil || !strings.Contains(err.Error(), "SPARK_MASTER_OPTS") {
		t.Error(err)
	}
}

// TestAllDeployKeys: every key that a master reads arrives in its field.
func TestAllDeployKeys(t *testing.T) {
	opts := strings.Join([]string{
		"-Dspark.worker.timeout=30", "-Dspark.deploy.recoveryTimeout=2min", "-Dspark.raftmaster.app.timeout=45",
		"-Dspark.dead.worker.persistence=0", "-Dspark.deploy.retainedApplications=5", "-Dspark.deploy.retainedDrivers=6",
		"-Dspark.deploy.maxExecutorRetries=-1", "-Dspark.deploy.spreadOut=true", "-Dspark.deploy.spreadOutApps=false",
		"-Dspark.deploy.workerSelectionPolicy=memory_free_asc", "-Dspark.deploy.defaultCores=4", "-Dspark.deploy.maxDrivers=9",
		"-Dspark.deploy.spreadOutDrivers=false", "-Dspark.master.rest.enabled=false", "-Dspark.master.rest.host=resthost",
		"-Dspark.ui.reverseProxy=true", "-Dspark.ui.killEnabled=false", "-Dspark.ui.contentSecurityPolicy.enabled=false",
		"-Dspark.port.maxRetries=3", "-Dspark.rpc.message.maxSize=8", "-Dspark.raftmaster.failover.timeout=750ms",
		"-Dspark.raftmaster.log.json=true", "-Dspark.raftmaster.admin.tokenFile=/t", "-Dspark.ui.allowFramingFrom=https://x", "-Dspark.ui.xXssProtection=1",
		"-Dspark.deploy.appIdPattern=a-%s-%d", "-Dspark.deploy.driverIdPattern=d-%s-%06d", "-Dspark.deploy.appNumberModulo=1000",
		"-Dspark.master.useAppNameAsAppId.enabled=true", "-Dspark.master.useDriverIdAsAppName.enabled=true",
		"-Dspark.raftmaster.driver.relaunchDelay=90", "-Dspark.decommission.enabled=true",
		"-Dspark.master.rest.maxRequestBodySize=64k", "'-Dspark.master.rest.allowedAppResourcePatterns=hdfs:.*, s3:.*'",
		"-Dspark.raftmaster.rest.placeholderEnv=ZONE,REGION", "-Dspark.raftmaster.rest.sparkVersion=3.5.9",
		"-Dspark.master.ui.historyServerUrl=http://hs", "-Dspark.master.ui.decommission.allow.mode=deny",
		"-Dspark.master.ui.visibleEnvVarPrefixes=SPARK_,JAVA", "'-Dspark.redaction.regex=(?i)key'", "-Dspark.master.ui.title=T",
		"-Dspark.ui.reverseProxyUrl=/p", "-Dspark.raftmaster.snapshot.dir=/s", "-Dspark.raftmaster.snapshot.interval=10min",
		"-Dspark.raftmaster.snapshot.keep=7", "-Dspark.raftmaster.snapshot.maxAge=3600",
	}, " ")
	c := world{env: map[string]string{"SPARK_MASTER_OPTS": opts}}.mustLoad(t)
	want := Deploy{WorkerTimeout: 30 * time.Second, RecoveryTimeout: 2 * time.Minute, AppTimeout: 45 * time.Second, DeadWorkerPersistence: 0,
		RetainedApplications: 5, RetainedDrivers: 6, MaxExecutorRetries: -1, SpreadOutApps: false, SpreadOutDrivers: false,
		WorkerSelectionPolicy: fsm.MemoryFreeAsc, DefaultCores: 4, MaxDrivers: 9,
		AppIDPattern: "a-%s-%d", DriverIDPattern: "d-%s-%06d", AppNumberModulo: 1000, UseAppNameAsAppID: true, UseDriverIDAsAppName: true,
		RelaunchDelay: 90 * time.Second, DecommissionEnabled: true}
	if c.Deploy != want {
		t.Errorf("got  %+v\nwant %+v", c.Deploy, want)
	}
	if want := (Snapshots{Dir: "/s", Interval: 10 * time.Minute, Keep: 7, MaxAge: time.Hour}); c.Snapshots != want {
		t.Errorf("got  %+v\nwant %+v", c.Snapshots, want)
	}
	rest := REST{MaxBodyBytes: 64 << 10, AllowedAppResources: []string{"hdfs:.*", "s3:.*"}, PlaceholderEnv: []string{"ZONE", "REGION"}, SparkVersion: "3.5.9"}
	if !reflect.DeepEqual(c.REST, rest) {
		t.Errorf("got  %+v\nwant %+v", c.REST, rest)
	}
	ui := UI{ReverseProxy: true, ReverseProxyURL: "/p", Title: "T", AllowFramingFrom: "https://x", XXSSProtection: "1", HistoryServerURL: "http://hs",
		DecommissionAllow: "DENY", VisibleEnvVarPrefixes: []string{"SPARK_", "JAVA"}, RedactionRegex: "(?i)key"}
	if !reflect.DeepEqual(c.UI, ui) {
		t.Errorf("got  %+v\nwant %+v", c.UI, ui)
	}
	if c.RESTEnabled || c.RESTHost != "resthost" || c.PortMaxRetries != 3 || c.MessageMaxBytes != 8<<20 || c.FailoverTimeout != 750*time.Millisecond ||
		!c.LogJSON || c.AdminTokenFile != "/t" {
		t.Errorf("%+v", c)
	}
	if len(c.Warnings) != 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
}

func TestRecoveryTimeoutFollowsWorkerTimeout(t *testing.T) {
	c := world{env: map[string]string{"SPARK_MASTER_OPTS": "-Dspark.worker.timeout=33"}}.mustLoad(t)
	if c.Deploy.RecoveryTimeout != 33*time.Second {
		t.Error(c.Deploy.RecoveryTimeout)
	}
}

func TestWarnings(t *testing.T) {
	c := world{env: map[string]string{
		"SPARK_MASTER_OPTS": "-Xmx1g -Dfoo=bar -Dspark.deploy.nonsense=1 -Dspark.master.typo=2 -Dspark.raftmaster.what=3 -Dspark.deploy.recoveryMode=FILESYSTEM " +
			"-Dspark.deploy.zookeeper.url=z:2181 -Dspark.executor.memory=1g",
		"SPARK_MASTER_PORT": "tcp://10.0.0.1:7077",
	}}.mustLoad(t)
	text := strings.Join(c.Warnings, "\n")
	for _, want := range []string{"-Xmx1g", "-Dfoo", "spark.deploy.nonsense", "spark.master.typo", "spark.raftmaster.what", "spark.deploy.recoveryMode has no effect: the state is replicated",
		"spark.deploy.zookeeper.url", "Kubernetes"} {
		if !strings.Contains(text, want) {
			t.Errorf("no warning names %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "executor.memory") {
		t.Error("a property of applications is none of a master's business")
	}
	if c.Port != 7077 {
		t.Errorf("port %d", c.Port)
	}
}

// TestG27_ACopiedZooKeeperConfigurationIsRefused: masters that elected through ZooKeeper and are started without a list would
// each be a cluster of their own; whoever names the masters, this one alone included, or had one only, may start.
func TestG27_ACopiedZooKeeperConfigurationIsRefused(t *testing.T) {
	for option, refused := range map[string]bool{
		"spark.deploy.recoveryMode=ZOOKEEPER": true, "spark.deploy.recoveryMode=zookeeper": true, "spark.deploy.recoveryMode=CUSTOM": true,
		"spark.deploy.recoveryMode=FILESYSTEM": false, "spark.deploy.recoveryMode=NONE": false, "spark.worker.timeout=61": false,
		"spark.deploy.recoveryMode=ZOOKEEPER -Dspark.raftmaster.cluster=spark://10.1.2.3:7077": false,
	} {
		w := world{env: map[string]string{"SPARK_MASTER_OPTS": "-D" + option}}
		if !refused {
			w.mustLoad(t)
			continue
		}
		_, err := w.load()
		var setting *SettingError
		if !errors.As(err, &setting) || setting.Key != "spark.deploy.recoveryMode" || !strings.Contains(err.Error(), "--cluster spark://10.1.2.3:7077") {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// What an operator asks for and does not get is said aloud; Spark's defaults, and what happens anyway, are not.
func TestWarnsOfWhatIsNotServed(t *testing.T) {
	for option, want := range map[string]string{
		"spark.rpc.message.maxSize=17": "up to 16 MiB", "spark.rpc.message.maxSize=2047": "up to 16 MiB",
		"spark.master.rest.maxRequestBodySize=100m": "4 MiB hold instead",
		"spark.master.rest.maxThreads":              "goroutine", "spark.master.rest.virtualThread.enabled": "no JVM",
		"spark.metrics.conf": "over HTTP", "spark.metrics.conf.*.sink.graphite.class": "over HTTP",
		"spark.redaction.regex=(?<!x)y": "every value is redacted",
	} {
		text := option
		if !strings.Contains(option, "=") {
			text += "=x"
		}
		c := world{env: map[string]string{"SPARK_MASTER_OPTS": "'-D" + text + "'"}}.mustLoad(t)
		key, _, _ := strings.Cut(option, "=")
		if len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], key) || !strings.Contains(c.Warnings[0], want) {
			t.Errorf("%s: warnings %q", option, c.Warnings)
		}
		if c.MessageMaxBytes != MaxMessageBytes || c.REST.MaxBodyBytes != DefaultRESTBodyBytes {
			t.Errorf("%s: %+v", option, c)
		}
	}
	for _, opts := range []string{"", "-Dspark.master.rest.enabled=false", "-Dspark.ui.killEnabled=false", "-Dspark.ui.reverseProxy=true",
		"-Dspark.rpc.message.maxSize=16", "-Dspark.deploy.maxDrivers=3", "-Dspark.master.rest.port=6067", "-Dspark.metrics.namespace=x"} {
		if c := (world{env: map[string]string{"SPARK_MASTER_OPTS": opts}}).mustLoad(t); len(c.Warnings) != 0 {
			t.Errorf("%q: %v", opts, c.Warnings)
		}
	}
}

func TestAddressEnvironment(t *testing.T) {
	c := world{env: map[string]string{"SPARK_LOCAL_IP": "10.9.9.9", "SPARK_LOCAL_HOSTNAME": "box", "SPARK_PUBLIC_DNS": "public.example", "SPARK_MASTER_PORT": "7177"}}.mustLoad(t)
	if c.Host != "box" || c.WebUIHost != "10.9.9.9" || c.PublicHost != "public.example" || c.Port != 7177 || c.BindAddress() != "box:7177" {
		t.Errorf("%+v", c)
	}
	if c := (world{env: map[string]string{"SPARK_LOCAL_IP": "10.9.9.9"}}).mustLoad(t); c.Host != "10.9.9.9" {
		t.Errorf("host %s", c.Host)
	}
	old := world{env: map[string]string{"SPARK_MASTER_IP": "10.8.8.8"}}
	if c := old.mustLoad(t); c.Host != "10.8.8.8" || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "SPARK_MASTER_IP is deprecated") {
		t.Errorf("%s, %v", c.Host, c.Warnings)
	}
	if old.env["SPARK_MASTER_HOST"] = "new"; old.mustLoad(t).Host != "new" {
		t.Error("the old variable won over the new one")
	}
	// Spark's scripts leave variables empty that are not set.
	if c := (world{env: map[string]string{"SPARK_MASTER_HOST": " ", "SPARK_MASTER_PORT": ""}}).mustLoad(t); c.Host != "10.1.2.3" || c.Port != 7077 {
		t.Errorf("empty variables: %+v", c)
	}
}

func TestDataDir(t *testing.T) {
	if c := (world{env: map[string]string{"STATE_DIRECTORY": "/var/lib/rm:/other"}}).mustLoad(t); c.DataDir != "/var/lib/rm/10.1.2.3-7077" {
		t.Error(c.DataDir)
	}
	c := world{flags: Flags{Host: ptr("::1")}, env: map[string]string{"XDG_STATE_HOME": "/s"}}.mustLoad(t)
	if c.DataDir != "/s/raftmaster/__1-7077" || c.MasterURL() != "spark://[::1]:7077" {
		t.Errorf("%s %s", c.DataDir, c.MasterURL())
	}
	got := world{}.mustLoad(t).DataDir
	want := filepath.Join("/home/spark", ".local", "state", "raftmaster", "10.1.2.3-7077")
	if os.Getuid() == 0 {
		want = "/var/lib/raftmaster/10.1.2.3-7077"
	}
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
