package config

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

// workerWorld is an environment and a machine for LoadWorker.
type workerWorld struct {
	env     map[string]string
	files   map[string]string
	flags   WorkerFlags
	release string
}

func (w workerWorld) load() (*Worker, []Warning, error) {
	var environ []string
	for k, v := range w.env {
		environ = append(environ, k+"="+v)
	}
	if w.flags.Masters == nil {
		w.flags.Masters = ptr("spark://m1:7077,m2:7078")
	}
	return LoadWorker(w.flags, environ, WorkerHost{
		SparkHome: "/spark", Release: w.release,
		ReadFile: func(path string) ([]byte, error) {
			if s, ok := w.files[path]; ok {
				return []byte(s), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		LocalHost: func() (string, error) { return "10.1.2.3", nil },
		CPUs:      func() int { return 12 },
		MemoryMB:  func() (int, error) { return 24000, nil },
	})
}

func (w workerWorld) mustLoad(t *testing.T) (*Worker, []Warning) {
	t.Helper()
	c, warnings, err := w.load()
	if err != nil {
		t.Fatal(err)
	}
	return c, warnings
}

func TestWorkerDefaults(t *testing.T) {
	w, warnings := workerWorld{release: "4.3.0"}.mustLoad(t)
	want := Worker{
		Masters: []Address{{"m1", 7077}, {"m2", 7078}}, Host: "10.1.2.3", BindHost: "10.1.2.3", WebUIHost: "0.0.0.0", WebUIPort: 8081, PublicHost: "10.1.2.3",
		PortMaxRetries: 16, Cores: 12, MemoryMB: 24000 - 1024, WorkDir: "/spark/work", LocalDirs: []string{"/tmp"}, Timeout: time.Minute,
		InitialRegistrationRetries: 6, MaxRegistrationRetries: 16, ExecutorStateSyncMaxAttempts: 5, IDPattern: "worker-%s-%s-%d",
		AskTimeout: 2 * time.Minute, DriverTerminateTimeout: 10 * time.Second,
		Cleanup: WorkerCleanup{Enabled: true, Interval: 1800 * time.Second, AppDataTTL: 604800 * time.Second}, CleanupFilesAfterExecutorExit: true,
		Rolling: WorkerRolling{Interval: 24 * time.Hour, MaxBytes: 1 << 20, MaxRetainedFiles: -1}, DecommissionSignal: "PWR",
		RetainedExecutors: 1000, RetainedDrivers: 1000,
		UI:       WorkerUI{RedactionRegex: DefaultRedactionRegex, XXSSProtection: "0", ContentSecurityPolicy: true},
		LogLevel: "info", MessageMaxBytes: 16 << 20, Properties: map[string]string{},
	}
	if !reflect.DeepEqual(*w, want) || len(warnings) != 0 {
		t.Errorf("got  %+v\nwant %+v\nwarnings %q", *w, want, warnings)
	}
	if w.MasterURL() != "spark://m1:7077,m2:7078" || w.Signal() != syscall.SIGPWR {
		t.Errorf("%s %v", w.MasterURL(), w.Signal())
	}
	// Spark 3.5 does not clean the work directory by itself, Spark 4 does.
	if w, _ := (workerWorld{release: "3.5.9"}).mustLoad(t); w.Cleanup.Enabled {
		t.Error("3.5.9 cleans its work directory by default")
	}
}

// TestWorkerPrecedence: flag, -D, environment, file, default.
func TestWorkerPrecedence(t *testing.T) {
	w := workerWorld{
		flags: WorkerFlags{Host: ptr("flaghost"), Port: ptr(1), WebUIPort: ptr(2), Cores: ptr(3), Memory: ptr("4g"), WorkDir: ptr("/flag"), LogLevel: ptr("DEBUG"), LogJSON: ptr(true)},
		env: map[string]string{
			"SPARK_LOCAL_HOSTNAME": "envhost", "SPARK_WORKER_PORT": "11", "SPARK_WORKER_WEBUI_PORT": "12", "SPARK_WORKER_CORES": "13", "SPARK_WORKER_MEMORY": "14g",
			"SPARK_WORKER_DIR": "/env", "RAFTMASTER_LOG_LEVEL": "warn", "SPARK_CONF_DIR": "/conf", "SPARK_PUBLIC_DNS": "public", "SPARK_LOCAL_IP": "127.0.0.9",
			"SPARK_LOCAL_DIRS": "/a, /b,", "SPARK_DAEMON_JAVA_OPTS": "-Dspark.worker.timeout=20 -Dspark.worker.cleanup.interval=5",
			"SPARK_WORKER_OPTS": "-Dspark.worker.timeout=30",
		},
		files: map[string]string{"/conf/spark-defaults.conf": "spark.worker.timeout 40\nspark.worker.ui.port 41\nspark.local.dir /c\nspark.worker.cleanup.appDataTtl 9\n"},
	}
	check := func(name, host string, port, ui, cores, memory int, dir, level string, timeout time.Duration, locals ...string) {
		t.Helper()
		c, _ := w.mustLoad(t)
		if c.Host != host || c.Port != port || c.WebUIPort != ui || c.Cores != cores || c.MemoryMB != memory || c.WorkDir != dir || c.LogLevel != level ||
			c.Timeout != timeout || !reflect.DeepEqual(c.LocalDirs, locals) {
			t.Errorf("%s: %+v", name, *c)
		}
	}
	check("flags", "flaghost", 1, 2, 3, 4096, "/flag", "debug", 30*time.Second, "/a", "/b")
	c, _ := w.mustLoad(t)
	if !c.LogJSON || c.PublicHost != "public" || c.WebUIHost != "127.0.0.9" || c.Cleanup.Interval != 5*time.Second || c.Cleanup.AppDataTTL != 9*time.Second {
		t.Errorf("%+v", *c)
	}
	w.flags = WorkerFlags{}
	check("environment", "envhost", 11, 12, 13, 14*1024, "/env", "warn", 30*time.Second, "/a", "/b")
	w.env["SPARK_EXECUTOR_DIRS"] = "/x:/y"
	check("executor dirs win", "envhost", 11, 12, 13, 14*1024, "/env", "warn", 30*time.Second, "/x", "/y")
	w.env["SPARK_WORKER_OPTS"] = "-Dspark.worker.ui.port=99"
	check("-D against the variable", "envhost", 11, 99, 13, 14*1024, "/env", "warn", 20*time.Second, "/x", "/y")
	w.env = map[string]string{"SPARK_CONF_DIR": "/conf"}
	check("file", "10.1.2.3", 0, 41, 12, 24000-1024, "/spark/work", "info", 40*time.Second, "/c")
}

func TestAllWorkerKeys(t *testing.T) {
	file := `spark.worker.timeout 30
spark.worker.initialRegistrationRetries 2
spark.worker.maxRegistrationRetries 3
spark.worker.preferConfiguredMasterAddress true
spark.worker.executorStateSync.maxAttempts 7
spark.worker.idPattern w-%s-%s-%05d
spark.network.timeout 90
spark.rpc.askTimeout 45s
spark.worker.driverTerminateTimeout 1500
spark.worker.cleanup.enabled true
spark.worker.cleanup.interval 60
spark.worker.cleanup.appDataTtl 61
spark.storage.cleanupFilesAfterExecutorExit false
spark.worker.ui.retainedExecutors 5
spark.worker.ui.retainedDrivers 6
spark.decommission.enabled true
spark.worker.decommission.signal SIGusr2
spark.executor.logs.rolling.strategy time
spark.executor.logs.rolling.time.interval hourly
spark.executor.logs.rolling.maxSize 131072
spark.executor.logs.rolling.maxRetainedFiles 4
spark.executor.logs.rolling.enableCompression true
spark.port.maxRetries 1
spark.rpc.message.maxSize 8
spark.ui.reverseProxy true
spark.ui.reverseProxyUrl http://proxy/
spark.ui.xXssProtection 1
spark.ui.allowFramingFrom https://x
spark.ui.contentSecurityPolicy.enabled false
spark.redaction.regex (?i)key
spark.log.structuredLogging.enabled true
spark.worker.resourcesFile /resources.json
spark.worker.resource.gpu.amount 2
spark.worker.resource.gpu.discoveryScript /gpu.sh
spark.worker.resource.gpu.vendor nvidia.com
spark.worker.resource.fpga.amount 0
`
	w, warnings := workerWorld{files: map[string]string{"/f": file}, flags: WorkerFlags{PropertiesFile: ptr("/f")}, release: "3.5.9"}.mustLoad(t)
	want := Worker{
		Masters: w.Masters, Host: w.Host, BindHost: w.BindHost, WebUIHost: w.WebUIHost, WebUIPort: 8081, PublicHost: w.PublicHost, PortMaxRetries: 1,
		Cores: 12, MemoryMB: w.MemoryMB, WorkDir: w.WorkDir, LocalDirs: w.LocalDirs, Timeout: 30 * time.Second, InitialRegistrationRetries: 2,
		MaxRegistrationRetries: 3, PreferConfiguredMasterAddress: true, ExecutorStateSyncMaxAttempts: 7, IDPattern: "w-%s-%s-%05d",
		AskTimeout: 45 * time.Second, DriverTerminateTimeout: 1500 * time.Millisecond,
		Cleanup:             WorkerCleanup{Enabled: true, Interval: time.Minute, AppDataTTL: 61 * time.Second},
		Rolling:             WorkerRolling{Strategy: RollingTime, Interval: time.Hour, MaxBytes: 131072, MaxRetainedFiles: 4, Compress: true},
		DecommissionEnabled: true, DecommissionSignal: "USR2", ResourcesFile: "/resources.json",
		Resources:         []WorkerResource{{Name: "fpga"}, {Name: "gpu", Amount: 2, Script: "/gpu.sh", Vendor: "nvidia.com"}},
		RetainedExecutors: 5, RetainedDrivers: 6,
		UI:       WorkerUI{ReverseProxy: true, ReverseProxyURL: "http://proxy/", RedactionRegex: "(?i)key", XXSSProtection: "1", AllowFramingFrom: "https://x"},
		LogLevel: "info", LogJSON: true, MessageMaxBytes: 8 << 20, Properties: w.Properties,
	}
	if !reflect.DeepEqual(*w, want) || len(warnings) != 0 {
		t.Errorf("got  %+v\nwant %+v\nwarnings %q", *w, want, warnings)
	}
	if len(w.Properties) != strings.Count(file, "\n") || w.Signal() != syscall.SIGUSR2 {
		t.Errorf("%d properties, signal %v", len(w.Properties), w.Signal())
	}
	at := time.Date(2026, 11, 30, 12, 8, 16, 0, time.Local)
	if id := w.WorkerID(at, 77); id != "w-20261130120816-10.1.2.3-00077" {
		t.Error(id)
	}
	if !w.Redaction().MatchString("a KEY") || w.Redaction().MatchString("secret") {
		t.Error("redaction")
	}
}

// TestWorkerMemory: a bare number counts bytes, as with Spark's --memory, and what is below 1 MiB is refused with a hint.
func TestWorkerMemory(t *testing.T) {
	for in, want := range map[string]int{"512m": 512, "16g": 16384, "1048576": 1, "2048k": 2, "1T": 1 << 20, "1500MB": 1500, "1073741824b": 1024, " 2g ": 2048} {
		w, _ := workerWorld{flags: WorkerFlags{Memory: &in}}.mustLoad(t)
		if w.MemoryMB != want {
			t.Errorf("%q: %d, want %d", in, w.MemoryMB, want)
		}
	}
	for in, want := range map[string]string{"512": "is 512m meant?", "1023k": "at least 1m", "1.5g": "such as 512m", "0": "at least 1m", "-1g": "at least 1m", "x": "at least 1m",
		"4000t": "below 2048t", "9999999999p": "at least 1m"} {
		_, _, err := workerWorld{flags: WorkerFlags{Memory: &in}}.load()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "memory="+in) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	if _, _, err := (workerWorld{env: map[string]string{"SPARK_WORKER_MEMORY": "8"}}).load(); err == nil || !strings.Contains(err.Error(), "SPARK_WORKER_MEMORY=8") {
		t.Error(err)
	}
	// At least 1 GiB is offered by default, as Spark does.
	w, _, err := LoadWorker(WorkerFlags{Masters: ptr("m:1"), Host: ptr("h"), WorkDir: ptr("/w")}, nil, WorkerHost{MemoryMB: func() (int, error) { return 1500, nil }})
	if err != nil || w.MemoryMB != 1024 || w.Cores < 1 {
		t.Errorf("%+v %v", w, err)
	}
}

// TestWorkerRefuses names the setting that is wrong.
func TestWorkerRefuses(t *testing.T) {
	d := func(s string) workerWorld { return workerWorld{env: map[string]string{"SPARK_WORKER_OPTS": s}} }
	for want, w := range map[string]workerWorld{
		"cores=0: must be":                 {flags: WorkerFlags{Cores: ptr(0)}},
		"SPARK_WORKER_CORES=two":           {env: map[string]string{"SPARK_WORKER_CORES": "two"}},
		"port=70000":                       {flags: WorkerFlags{Port: ptr(70000)}},
		"webui-port=8081: must be another": {flags: WorkerFlags{Port: ptr(8081)}},
		"webui-port=-1":                    {flags: WorkerFlags{WebUIPort: ptr(-1)}},
		`host="a:b"`:                       {flags: WorkerFlags{Host: ptr("a:b")}},
		"host=0.0.0.0: must be a name or address by which": {flags: WorkerFlags{Host: ptr("0.0.0.0")}},
		"SPARK_PUBLIC_DNS=":                                       {env: map[string]string{"SPARK_PUBLIC_DNS": "http://x"}},
		"log-level=":                                              {flags: WorkerFlags{LogLevel: ptr("loud")}},
		"--memory is given and empty":                             {flags: WorkerFlags{Memory: ptr(" ")}},
		"--work-dir is given and empty":                           {flags: WorkerFlags{WorkDir: ptr("")}},
		"--host is given and empty":                               {flags: WorkerFlags{Host: ptr("")}},
		"--properties-file is given and empty":                    {flags: WorkerFlags{PropertiesFile: ptr("")}},
		"--log-level is given and empty":                          {flags: WorkerFlags{LogLevel: ptr("")}},
		"list of masters is given and empty":                      {flags: WorkerFlags{Masters: ptr("")}},
		`entry "m2" (number 2): must be host:port`:                {flags: WorkerFlags{Masters: ptr("spark://m1:7077,m2")}},
		"0.0.0.0:7077 in the list of masters":                     {flags: WorkerFlags{Masters: ptr("spark://0.0.0.0:7077")}},
		"properties file: open /none":                             {flags: WorkerFlags{PropertiesFile: ptr("/none")}},
		"spark.worker.timeout=60s: must be":                       d("-Dspark.worker.timeout=60s"),
		"spark.worker.maxRegistrationRetries=3: must be at least": d("-Dspark.worker.maxRegistrationRetries=3"),
		"spark.worker.idPattern=":                                 d("-Dspark.worker.idPattern=w-%d-%s-%s"),
		"spark.worker.decommission.signal=TERM: must be one of":   d("-Dspark.worker.decommission.signal=TERM"),
		"spark.executor.logs.rolling.strategy=often":              d("-Dspark.executor.logs.rolling.strategy=often"),
		"spark.executor.logs.rolling.time.interval=weekly":        d("-Dspark.executor.logs.rolling.time.interval=weekly"),
		"spark.executor.logs.rolling.maxSize=big":                 d("-Dspark.executor.logs.rolling.maxSize=big"),
		"spark.worker.driverTerminateTimeout=0":                   d("-Dspark.worker.driverTerminateTimeout=0"),
		"spark.worker.resource.gpu.amount is not set":             d("-Dspark.worker.resource.gpu.discoveryScript=/x"),
		"spark.worker.resource.gpu.amount=-1":                     d("-Dspark.worker.resource.gpu.amount=-1"),
		"spark.worker.resource..amount=1":                         d("-Dspark.worker.resource..amount=1"),
		"spark.local.dir=":                                        d("-Dspark.local.dir=,"),
		"SPARK_WORKER_OPTS: a quote is not closed":                d(`"-Dspark.x`),
	} {
		if _, _, err := w.load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, _, err := LoadWorker(WorkerFlags{}, nil, WorkerHost{SparkHome: "/s"}); err == nil || !strings.Contains(err.Error(), "no master is named") {
		t.Error(err)
	}
	if _, _, err := LoadWorker(WorkerFlags{Host: ptr("h")}, []string{"RAFTMASTER_CLUSTER=m:1"}, WorkerHost{}); err == nil || !strings.Contains(err.Error(), "--work-dir") {
		t.Error(err)
	}
}

// TestWorkerSecurityIsNeverIgnored: nor is the shuffle service, without which executors fail.
func TestWorkerSecurityIsNeverIgnored(t *testing.T) {
	for _, setting := range []string{"spark.authenticate=true", "spark.network.crypto.enabled=true", "spark.ssl.enabled=true", "spark.ssl.rpc.enabled=true",
		"spark.ssl.standalone.enabled=TRUE", "spark.acls.enable=true", "spark.ui.filters=x.Filter", "spark.authenticate.secret=hidden"} {
		_, _, err := workerWorld{env: map[string]string{"SPARK_WORKER_OPTS": "-D" + setting}}.load()
		var refused *SecurityError
		key, value, _ := strings.Cut(setting, "=")
		if !errors.As(err, &refused) || refused.Key != key || strings.Contains(err.Error(), value+" ") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	if _, _, err := (workerWorld{env: map[string]string{"_SPARK_AUTH_SECRET": "hidden"}}).load(); err == nil || !strings.Contains(err.Error(), "_SPARK_AUTH_SECRET") {
		t.Error(err)
	}
	var unsupported *UnsupportedError
	_, _, err := workerWorld{env: map[string]string{"SPARK_WORKER_OPTS": "-Dspark.shuffle.service.enabled=true"}}.load()
	if !errors.As(err, &unsupported) || unsupported.Key != "spark.shuffle.service.enabled" || !strings.Contains(err.Error(), "shuffleTracking") {
		t.Error(err)
	}
	// What belongs to masters or applications that share the file stops no worker.
	opts := "-Dspark.authenticate=false -Dspark.master.rest.filters=x -Dspark.ssl.ui.enabled=true -Dspark.shuffle.service.enabled=false"
	if _, warnings := (workerWorld{env: map[string]string{"SPARK_WORKER_OPTS": opts}}).mustLoad(t); len(warnings) != 0 {
		t.Errorf("%q", warnings)
	}
}

func TestWorkerWarnings(t *testing.T) {
	opts := "-Xmx1g -Dfoo=bar -Dspark.worker.nonsense=1 -Dspark.worker.cores=2 -Dspark.raftmaster.what=3 -Dspark.metrics.conf=/m -Dspark.metrics.conf.x=1 " +
		"-Dspark.deploy.spreadOut=true -Dspark.master.typo=1 -Dspark.executor.memory=1g -Dspark.raftmaster.app.timeout=3 -Dspark.rpc.message.maxSize=128 " +
		"-Dspark.executor.logs.rolling.time.interval=5 -Dspark.executor.logs.rolling.maxSize=100 -Dspark.redaction.regex=(?=x) " +
		"-Dspark.worker.resource.gpu.amount=1 -Dspark.worker.resource.gpu.colour=red"
	w, warnings := workerWorld{env: map[string]string{"SPARK_WORKER_OPTS": opts, "SPARK_WORKER_INSTANCES": "2", "SPARK_WORKER_PORT": "tcp://10.0.0.1:1"},
		flags: WorkerFlags{Masters: ptr("m1:1,spark://m1:1"), Host: ptr("127.0.0.1")}}.mustLoad(t)
	var text []string
	for _, warning := range warnings {
		text = append(text, string(warning))
	}
	all := strings.Join(text, "\n")
	for _, want := range []string{"-Xmx1g", "-Dfoo", "spark.worker.nonsense has no effect: this worker does not know it", "spark.worker.cores has no effect: Spark has no such", "spark.raftmaster.what",
		"spark.metrics.conf has no effect", "spark.metrics.conf.x", "spark.rpc.message.maxSize=128", "rolling.time.interval=5 is too short", "rolling.maxSize=100 is too small", "spark.redaction.regex",
		"gpu.colour", "SPARK_WORKER_INSTANCES=2", "a service called spark-worker", "m1:1 twice", "calls itself 127.0.0.1"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning says %q in:\n%s", want, all)
		}
	}
	if len(warnings) != 16 {
		t.Errorf("%d warnings:\n%s", len(warnings), all)
	}
	if len(w.Masters) != 1 || w.Rolling.Interval != time.Minute || w.Rolling.MaxBytes != 81920 || !w.Redaction().MatchString("anything") || w.Port != 0 {
		t.Errorf("%+v", w)
	}
}

func TestIPv6WorkerHasBrackets(t *testing.T) {
	w, _ := workerWorld{flags: WorkerFlags{Host: ptr("fd00::1")}}.mustLoad(t)
	if w.Host != "[fd00::1]" || w.WorkerID(time.Now(), 1)[22:] != "[fd00::1]-1" {
		t.Errorf("%s %s", w.Host, w.WorkerID(time.Now(), 1))
	}
}

// TestControlGroups: a container's limits count, of both versions of control groups.
func TestControlGroups(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	meminfo := file("MemTotal:       24684096 kB\nMemFree: 1 kB")
	for name, c := range map[string]struct {
		files        fstest.MapFS
		cpus, memory int
	}{
		"none": {fstest.MapFS{"proc/meminfo": meminfo}, 8, 24105},
		"version 2": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b"), "sys/fs/cgroup/a/b/cpu.max": file("max 100000"),
			"sys/fs/cgroup/a/cpu.max": file("250000 100000"), "sys/fs/cgroup/a/b/memory.max": file("2147483648"), "sys/fs/cgroup/memory.max": file("max")}, 3, 2048},
		"version 1": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("4:memory:/x\n2:cpuacct,cpu:/x"), "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": file("50000"),
			"sys/fs/cgroup/cpu/x/cpu.cfs_period_us": file("100000"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712"),
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("4294967296")}, 1, 4096},
		"container": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/unseen/here"), "sys/fs/cgroup/cpu.max": file("400000 100000"),
			"sys/fs/cgroup/memory.max": file("1073741824")}, 4, 1024},
		"no limit": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("2:cpu:/"), "sys/fs/cgroup/cpu/cpu.cfs_quota_us": file("-1"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": file("100000"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("junk")}, 8, 24105},
	} {
		m := machine{root: c.files}
		memory, err := m.memoryMB()
		if got := m.cpus(8); got != c.cpus || memory != c.memory || err != nil {
			t.Errorf("%s: %d processors, %d MiB (%v); want %d, %d", name, got, memory, err, c.cpus, c.memory)
		}
	}
	if _, err := (machine{root: fstest.MapFS{}}).memoryMB(); err == nil {
		t.Error("a machine without memory")
	}
	h := WorkerHost{}.withDefaults()
	if mb, err := h.MemoryMB(); err != nil || mb < 64 || h.CPUs() < 1 {
		t.Errorf("this machine: %d MiB (%v), %d processors", mb, err, h.CPUs())
	}
}

// FuzzWorker: no configuration makes the loader panic, and what it accepts is within its bounds.
func FuzzWorker(f *testing.F) {
	f.Add("spark://a:7077,b:7077", "512m", "-Dspark.worker.timeout=60 -Dspark.worker.cleanup.enabled=true", "spark.worker.resource.gpu.amount 2\nspark.worker.ui.port=8081\n")
	f.Add("a:1", "1024", `"-Dspark.worker.idPattern=worker-%s-%s-%d"`, "spark.local.dir /a,/b\nspark.executor.logs.rolling.maxSize 1m\n")
	f.Add("[::1]:7077", "9223372036854775807p", "-Dspark.rpc.askTimeout=10min", "spark.x \\u0041 ${HOME}\n! comment\n")
	f.Fuzz(func(t *testing.T, masters, memory, opts, file string) {
		w, _, err := workerWorld{flags: WorkerFlags{Masters: &masters, Memory: &memory, PropertiesFile: ptr("/f")}, env: map[string]string{"SPARK_WORKER_OPTS": opts},
			files: map[string]string{"/f": file}}.load()
		if err != nil {
			return
		}
		if w.MemoryMB < 1 || w.Cores < 1 || w.Timeout <= 0 || len(w.Masters) == 0 || len(w.LocalDirs) == 0 || w.Signal() == 0 || w.Redaction() == nil ||
			w.AskTimeout <= 0 || w.Rolling.Interval < time.Minute || strings.Contains(w.WorkerID(time.Now(), 1), "%!") {
			t.Errorf("accepted: %+v", w)
		}
	})
}
