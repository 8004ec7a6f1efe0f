package config

import (
	"fmt"
	"math"
	"net"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// WorkerFlags is what the command line of a worker said. A nil field means that the flag was not given.
type WorkerFlags struct {
	// Masters is the positional argument: spark://a:7077,b:7077.
	Masters        *string
	Host           *string
	Port           *int
	WebUIPort      *int
	Cores          *int
	Memory         *string
	WorkDir        *string
	PropertiesFile *string
	LogLevel       *string
	LogJSON        *bool
}

// WorkerHost is what LoadWorker takes from the machine. Zero fields mean the real one.
type WorkerHost struct {
	// SparkHome and Release are those of the installed Spark: the default work directory and some defaults follow them.
	SparkHome, Release string
	ReadFile           func(path string) ([]byte, error)
	LocalHost          func() (string, error)
	// CPUs counts the processors that this process may use; MemoryMB the memory of the machine or container.
	CPUs     func() int
	MemoryMB func() (int, error)
}

// Environment variables that a worker reads beside those that it shares with the master.
const (
	envWorkerPort      = "SPARK_WORKER_PORT"
	envWorkerWebUIPort = "SPARK_WORKER_WEBUI_PORT"
	envWorkerCores     = "SPARK_WORKER_CORES"
	envWorkerMemory    = "SPARK_WORKER_MEMORY"
	envWorkerDir       = "SPARK_WORKER_DIR"
	envWorkerOpts      = "SPARK_WORKER_OPTS"
	envWorkerInstances = "SPARK_WORKER_INSTANCES"
	envLocalDirs       = "SPARK_LOCAL_DIRS"
	envExecutorDirs    = "SPARK_EXECUTOR_DIRS"
)

// LoadWorker builds a valid configuration, or says which setting is wrong and what is allowed. environ is the worker's
// environment as launcher.Environment gives it, so that what conf/spark-env.sh sets counts.
func LoadWorker(flags WorkerFlags, environ []string, host WorkerHost) (*Worker, []Warning, error) {
	if err := flags.refuseEmpty(); err != nil {
		return nil, nil, err
	}
	vars := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			vars[name] = value
		}
	}
	if strings.TrimSpace(vars[envSparkHome]) == "" && host.SparkHome != "" {
		vars[envSparkHome] = host.SparkHome // its conf directory may have the properties file
	}
	host = host.withDefaults()
	src := Source{
		Flags:     Flags{PropertiesFile: flags.PropertiesFile},
		LookupEnv: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		ReadFile:  host.ReadFile, LocalHost: host.LocalHost,
	}.withDefaults()
	l := &workerLoader{
		loader: loader{src: src, env: environment{lookup: src.LookupEnv}, optionVars: []string{envDaemonOpts, envWorkerOpts}},
		flags:  flags, host: host, worker: defaultWorker(host.Release),
	}
	for _, step := range []func() error{
		l.readProperties, func() error { return l.refuseSecurityBut(notAWorkers) }, l.refuseUnsupported, l.applyWorkerProperties,
		l.applyResources, l.applyMasters, l.applyAddresses, l.applySize, l.applyDirectories, l.applyRest, l.worker.validate,
	} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	l.warnReachable()
	sort.Strings(l.cfg.Warnings)
	warnings := make([]Warning, len(l.cfg.Warnings))
	for i, w := range l.cfg.Warnings {
		warnings[i] = Warning(w)
	}
	return l.worker, warnings, nil
}

// refuseEmpty refuses flags that were given without a value: see Flags.refuseEmpty.
func (f WorkerFlags) refuseEmpty() error {
	for _, s := range []struct {
		name  string
		value *string
	}{
		{"host", f.Host}, {"memory", f.Memory}, {"work-dir", f.WorkDir}, {"properties-file", f.PropertiesFile}, {"log-level", f.LogLevel},
	} {
		if s.value != nil && strings.TrimSpace(*s.value) == "" {
			return &EmptyFlagError{Flag: s.name}
		}
	}
	if f.Masters != nil && strings.TrimSpace(*f.Masters) == "" {
		return errNoMasters("the list of masters is given and empty: is a variable of your shell not set?")
	}
	return nil
}

// workerLoader carries the parts of one LoadWorker. The loader inside reads properties and variables; its Config only
// collects the warnings.
type workerLoader struct {
	loader
	flags  WorkerFlags
	host   WorkerHost
	worker *Worker
}

func errNoMasters(why string) error {
	return fmt.Errorf("%s; give every master: raftmaster worker spark://a:7077,b:7077,c:7077", why)
}

// applyMasters reads the list that Spark's worker takes as its only argument.
func (l *workerLoader) applyMasters() error {
	text := l.text(l.flags.Masters, "spark.raftmaster.cluster", envCluster)
	if text == "" {
		return errNoMasters("no master is named")
	}
	masters, err := ParseCluster(text)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, a := range masters {
		switch {
		case isWildcard(a.Host):
			return fmt.Errorf("%s in the list of masters %s cannot be dialled: it is an address to listen on", a, text)
		case seen[a.String()]:
			l.warn("the list of masters %s names %s twice", text, a)
			continue
		}
		seen[a.String()] = true
		l.worker.Masters = append(l.worker.Masters, a)
	}
	return nil
}

// applyAddresses settles where the worker listens and how it is called.
func (l *workerLoader) applyAddresses() error {
	w := l.worker
	var err error
	if w.Host = l.text(l.flags.Host, "", ""); w.Host == "" {
		if w.Host, err = l.defaultHost(); err != nil {
			return err
		}
	}
	if err := checkHost("host", w.Host); err != nil {
		return err
	}
	if isWildcard(w.Host) {
		return invalid("host", w.Host, "a name or address by which masters, drivers and executors reach this worker, not one to listen on")
	}
	if ip := net.ParseIP(w.Host); ip != nil && ip.To4() == nil {
		w.Host = "[" + w.Host + "]" // in ids and URLs an IPv6 address has brackets, as in Spark
	}
	w.BindHost = w.Host
	if w.Port, err = l.port(l.flags.Port, "", envWorkerPort, 0); err != nil {
		return err
	}
	if w.WebUIPort, err = l.port(l.flags.WebUIPort, "spark.worker.ui.port", envWorkerWebUIPort, DefaultWorkerWebUIPort); err != nil {
		return err
	}
	w.WebUIHost = "0.0.0.0"
	if ip, ok := l.env.get(envLocalIP); ok {
		w.WebUIHost = ip
	}
	w.PublicHost = w.Host
	if dns, ok := l.env.get(envPublicDNS); ok {
		w.PublicHost = dns
	}
	return checkHost(envPublicDNS, w.PublicHost)
}

// applySize settles how much the worker offers.
func (l *workerLoader) applySize() error {
	w := l.worker
	switch v, ok := l.env.get(envWorkerCores); {
	case l.flags.Cores != nil:
		w.Cores = *l.flags.Cores
	case ok:
		n, err := parseInt(envWorkerCores, v, 1, math.MaxInt32)
		if err != nil {
			return err
		}
		w.Cores = n
	default:
		w.Cores = l.host.CPUs()
	}
	name, text := "memory", ""
	if l.flags.Memory != nil {
		text = strings.TrimSpace(*l.flags.Memory)
	} else if v, ok := l.env.get(envWorkerMemory); ok {
		name, text = envWorkerMemory, v
	}
	var err error
	if text == "" {
		w.MemoryMB, err = l.defaultMemory()
	} else {
		w.MemoryMB, err = parseMemoryMB(name, text)
	}
	return err
}

// parseMemoryMB reads a size as Spark's --memory does: a number without a unit counts bytes.
func parseMemoryMB(name, text string) (int, error) {
	const allowed = "a size of at least 1m, such as 512m or 16g"
	bytes, err := parseBytes(name, text)
	switch _, bare := strconv.Atoi(text); {
	case err != nil:
		return 0, invalid(name, text, allowed)
	case bytes < 1<<20 && bare == nil:
		return 0, invalid(name, text, fmt.Sprintf("%s; a number without a unit counts bytes: is %sm meant?", allowed, text))
	case bytes < 1<<20:
		return 0, invalid(name, text, allowed)
	case bytes>>20 > math.MaxInt32:
		return 0, invalid(name, text, "below 2048t")
	}
	return int(bytes >> 20), nil
}

// Spark's rule for the default (WorkerArguments.inferDefaultMemory): leave 1 GiB to the system, offer 1 GiB at least.
const reservedMB, leastDefaultMB = 1024, 1024

func (l *workerLoader) defaultMemory() (int, error) {
	total, err := l.host.MemoryMB()
	if err != nil {
		return 0, fmt.Errorf("find this machine's memory (give --memory): %w", err)
	}
	return max(total-reservedMB, leastDefaultMB), nil
}

// applyDirectories settles the work directory and the roots of scratch directories.
func (l *workerLoader) applyDirectories() error {
	w := l.worker
	if w.WorkDir = l.text(l.flags.WorkDir, "", envWorkerDir); w.WorkDir == "" {
		if l.host.SparkHome == "" {
			return fmt.Errorf("no default work directory without SPARK_HOME, give --work-dir")
		}
		w.WorkDir = filepath.Join(l.host.SparkHome, "work")
	}
	dirs := []string{defaultLocalDir}
	if v, ok := l.env.get(envExecutorDirs); ok {
		dirs = strings.Split(v, ":")
	} else if v, ok := l.env.get(envLocalDirs); ok {
		dirs = strings.Split(v, ",")
	} else if v, ok := l.property("spark.local.dir"); ok && v != "" {
		dirs = strings.Split(v, ",")
	}
	for _, d := range dirs {
		if d = strings.TrimSpace(d); d != "" {
			w.LocalDirs = append(w.LocalDirs, d)
		}
	}
	if len(w.LocalDirs) == 0 {
		return invalid("spark.local.dir", strconv.Quote(strings.Join(dirs, ",")), "one directory, or several separated by commas")
	}
	for _, path := range append([]*string{&w.WorkDir}, pointers(w.LocalDirs)...) {
		abs, err := filepath.Abs(*path) // processes have other working directories
		if err != nil {
			return fmt.Errorf("%s: %w", *path, err)
		}
		*path = abs
	}
	return nil
}

// defaultLocalDir is what the JVM calls its temporary directory.
const defaultLocalDir = "/tmp"

func pointers(s []string) []*string {
	out := make([]*string, len(s))
	for i := range s {
		out[i] = &s[i]
	}
	return out
}

// applyRest settles logs, and remembers the properties.
func (l *workerLoader) applyRest() error {
	w := l.worker
	if level := l.text(l.flags.LogLevel, "spark.raftmaster.log.level", envLogLevel); level != "" {
		w.LogLevel = strings.ToLower(level)
	}
	if l.flags.LogJSON != nil {
		w.LogJSON = *l.flags.LogJSON
	}
	if v, ok := l.env.get(envWorkerInstances); ok && v != "1" {
		l.warn("%s=%s has no effect: one process is one worker, start as many as are wanted", envWorkerInstances, v)
	}
	l.keepProperties()
	w.Properties = l.cfg.Properties
	return nil
}

// warnReachable: a loopback name that goes to masters elsewhere leads drivers and executors to themselves.
func (l *workerLoader) warnReachable() {
	if !isLoopback(l.worker.Host) {
		return
	}
	for _, a := range l.worker.Masters {
		if !isLoopback(a.Host) {
			l.warn("this worker calls itself %s, which means another machine to the master %s and to drivers elsewhere: give --host", l.worker.Host, a)
			return
		}
	}
}

func (w *Worker) validate() error {
	switch {
	case w.Port < 0 || w.Port > 65535:
		return invalid("port", strconv.Itoa(w.Port), "from 0 to 65535")
	case w.WebUIPort < 0 || w.WebUIPort > 65535:
		return invalid("webui-port", strconv.Itoa(w.WebUIPort), "from 0 to 65535")
	case w.Port != 0 && w.Port == w.WebUIPort:
		return invalid("webui-port", strconv.Itoa(w.WebUIPort), "another port than the worker's RPC port")
	case w.Cores < 1 || w.Cores > math.MaxInt32:
		return invalid("cores", strconv.Itoa(w.Cores), "a whole number, at least 1")
	case !contains(logLevels, w.LogLevel):
		return invalid("log-level", strconv.Quote(w.LogLevel), "one of "+strings.Join(logLevels, ", "))
	case w.MaxRegistrationRetries < w.InitialRegistrationRetries:
		return invalid("spark.worker.maxRegistrationRetries", strconv.Itoa(w.MaxRegistrationRetries),
			fmt.Sprintf("at least spark.worker.initialRegistrationRetries, which is %d", w.InitialRegistrationRetries))
	}
	return nil
}
