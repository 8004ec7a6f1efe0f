package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// workerSettings lists the properties of Spark that a worker reads, but for those that settle addresses, directories and
// resources.
func (l *workerLoader) workerSettings() []settingOf[Worker] {
	return []settingOf[Worker]{
		seconds("spark.worker.timeout", func(w *Worker) *time.Duration { return &w.Timeout }),
		number("spark.worker.initialRegistrationRetries", 1, math.MaxInt32, func(w *Worker) *int { return &w.InitialRegistrationRetries }),
		number("spark.worker.maxRegistrationRetries", 1, math.MaxInt32, func(w *Worker) *int { return &w.MaxRegistrationRetries }),
		boolean("spark.worker.preferConfiguredMasterAddress", func(w *Worker) *bool { return &w.PreferConfiguredMasterAddress }),
		number("spark.worker.executorStateSync.maxAttempts", 1, math.MaxInt32, func(w *Worker) *int { return &w.ExecutorStateSyncMaxAttempts }),
		{"spark.worker.idPattern", setWorkerIDPattern},
		duration("spark.network.timeout", time.Second, func(w *Worker) *time.Duration { return &w.AskTimeout }),
		duration("spark.rpc.askTimeout", time.Second, func(w *Worker) *time.Duration { return &w.AskTimeout }), // wins
		duration("spark.worker.driverTerminateTimeout", time.Millisecond, func(w *Worker) *time.Duration { return &w.DriverTerminateTimeout }),
		boolean("spark.worker.cleanup.enabled", func(w *Worker) *bool { return &w.Cleanup.Enabled }),
		seconds("spark.worker.cleanup.interval", func(w *Worker) *time.Duration { return &w.Cleanup.Interval }),
		seconds("spark.worker.cleanup.appDataTtl", func(w *Worker) *time.Duration { return &w.Cleanup.AppDataTTL }),
		boolean("spark.storage.cleanupFilesAfterExecutorExit", func(w *Worker) *bool { return &w.CleanupFilesAfterExecutorExit }),
		number("spark.worker.ui.retainedExecutors", 0, math.MaxInt32, func(w *Worker) *int { return &w.RetainedExecutors }),
		number("spark.worker.ui.retainedDrivers", 0, math.MaxInt32, func(w *Worker) *int { return &w.RetainedDrivers }),
		boolean("spark.decommission.enabled", func(w *Worker) *bool { return &w.DecommissionEnabled }),
		{"spark.worker.decommission.signal", setDecommissionSignal},
		{"spark.executor.logs.rolling.strategy", setRollingStrategy},
		{"spark.executor.logs.rolling.time.interval", l.setRollingInterval},
		{"spark.executor.logs.rolling.maxSize", l.setRollingSize},
		number("spark.executor.logs.rolling.maxRetainedFiles", math.MinInt32, math.MaxInt32, func(w *Worker) *int { return &w.Rolling.MaxRetainedFiles }),
		boolean("spark.executor.logs.rolling.enableCompression", func(w *Worker) *bool { return &w.Rolling.Compress }),
		number("spark.port.maxRetries", 0, 65535, func(w *Worker) *int { return &w.PortMaxRetries }),
		{"spark.rpc.message.maxSize", func(w *Worker, v string) error {
			bytes, warning, err := parseMessageSize(v)
			if warning != "" {
				l.warn("%s", warning)
			}
			w.MessageMaxBytes = bytes
			return err
		}},
		boolean("spark.ui.reverseProxy", func(w *Worker) *bool { return &w.UI.ReverseProxy }),
		text("spark.ui.reverseProxyUrl", func(w *Worker) *string { return &w.UI.ReverseProxyURL }),
		text("spark.ui.xXssProtection", func(w *Worker) *string { return &w.UI.XXSSProtection }),
		text("spark.ui.allowFramingFrom", func(w *Worker) *string { return &w.UI.AllowFramingFrom }),
		boolean("spark.ui.contentSecurityPolicy.enabled", func(w *Worker) *bool { return &w.UI.ContentSecurityPolicy }),
		{"spark.redaction.regex", l.setWorkerRedaction},
		boolean("spark.log.structuredLogging.enabled", func(w *Worker) *bool { return &w.LogJSON }),
		boolean("spark.raftmaster.log.json", func(w *Worker) *bool { return &w.LogJSON }),
	}
}

// workerElsewhere are properties that are read in another place.
var workerElsewhere = map[string]bool{
	"spark.worker.ui.port": true, "spark.worker.resourcesFile": true, "spark.local.dir": true, "spark.raftmaster.cluster": true,
	"spark.raftmaster.log.level": true, "spark.shuffle.service.enabled": true,
}

// workerNoEffect are properties that mean nothing to a worker here, with the reason that an operator is told.
var workerNoEffect = map[string]string{
	"spark.worker.ui.compressedLogFileLengthCacheSize": "lengths of compressed log files are not kept",
	"spark.metrics.conf":  noSinks,
	"spark.worker.cores":  "Spark has no such property: use --cores or SPARK_WORKER_CORES",
	"spark.worker.memory": "Spark has no such property: use --memory or SPARK_WORKER_MEMORY",
	"spark.worker.dir":    "Spark has no such property: use --work-dir or SPARK_WORKER_DIR",
	"spark.worker.port":   "Spark has no such property: use --port or SPARK_WORKER_PORT",
}

// notAWorkers are security settings of other programs that share the properties file with a worker.
var notAWorkers = map[string]bool{"spark.master.rest.filters": true}

// defaultWorker is what holds where nothing is set. Releases differ in one default.
func defaultWorker(release string) *Worker {
	major, _, _ := strings.Cut(release, ".")
	n, err := strconv.Atoi(major)
	cleanup := err == nil && n >= 4 // the default since Spark 4.0
	return &Worker{
		PortMaxRetries: DefaultPortMaxRetries, Timeout: DefaultWorkerTimeout,
		InitialRegistrationRetries: DefaultInitialRegistrations, MaxRegistrationRetries: DefaultMaxRegistrations,
		ExecutorStateSyncMaxAttempts: DefaultExecutorSyncAttempts, IDPattern: DefaultWorkerIDPattern, AskTimeout: DefaultAskTimeout,
		DriverTerminateTimeout:        DefaultTerminateTimeout,
		Cleanup:                       WorkerCleanup{Enabled: cleanup, Interval: DefaultCleanupInterval, AppDataTTL: DefaultAppDataTTL},
		CleanupFilesAfterExecutorExit: true,
		Rolling:                       WorkerRolling{Interval: 24 * time.Hour, MaxBytes: DefaultRollingBytes, MaxRetainedFiles: -1},
		DecommissionSignal:            DefaultDecommissionSignal,
		RetainedExecutors:             DefaultRetainedOnWorker, RetainedDrivers: DefaultRetainedOnWorker,
		UI:       WorkerUI{RedactionRegex: DefaultRedactionRegex, XXSSProtection: "0", ContentSecurityPolicy: true},
		LogLevel: DefaultLogLevel, MessageMaxBytes: DefaultMessageMaxBytes,
	}
}

// refuseUnsupported refuses what jobs would fail without.
func (l *workerLoader) refuseUnsupported() error {
	const shuffle = "spark.shuffle.service.enabled"
	v, ok := l.property(shuffle)
	if !ok {
		return nil
	}
	on, err := parseBool(shuffle, v)
	if err != nil || !on {
		return err
	}
	return &UnsupportedError{Key: shuffle, Reason: "this worker has no external shuffle service, and executors of applications that ask for it " +
		"would fail to register with it; set it to false for this worker, and let applications with dynamic allocation use " +
		"spark.dynamicAllocation.shuffleTracking.enabled=true, or run Spark's own worker where the service is needed"}
}

// applyWorkerProperties sets every property that a worker reads and warns of those that nobody reads.
func (l *workerLoader) applyWorkerProperties() error {
	known := map[string]bool{}
	for _, s := range l.workerSettings() {
		known[s.key] = true
		if v, ok := l.property(s.key); ok {
			if err := s.set(l.worker, v); err != nil {
				return err
			}
		}
	}
	for _, s := range settings { // the properties file may be the master's too
		known[s.key] = true
	}
	for _, key := range l.propertyNames() {
		switch reason, none := workerNoEffect[key]; {
		case none:
			l.warn("%s has no effect: %s", key, reason)
		case strings.HasPrefix(key, metricsPrefix):
			l.warn("%s has no effect: %s", key, noSinks)
		case known[key], workerElsewhere[key], elsewhere[key], strings.HasPrefix(key, resourcePrefix):
		case strings.HasPrefix(key, "spark.worker."), strings.HasPrefix(key, "spark.raftmaster."):
			l.warn("%s has no effect: this worker does not know it", key)
		}
	}
	return nil
}

// duration is a time above 0; bare is the unit of a number without one.
func duration[C any](key string, bare time.Duration, field func(*C) *time.Duration) settingOf[C] {
	return settingOf[C]{key, func(c *C, v string) error {
		d, err := parseTime(key, v, bare)
		if err == nil && d <= 0 {
			err = invalid(key, v, "a time above 0, such as 10s or 2min")
		}
		if err == nil {
			*field(c) = d
		}
		return err
	}}
}

// workerIDVerbs: the pattern takes time, host and port, in this order.
var workerIDVerbs = regexp.MustCompile(`^[^%]*%s[^%]*%s[^%]*%0?[0-9]?d[^%]*$`)

func setWorkerIDPattern(w *Worker, v string) error {
	bad := strings.ContainsFunc(v, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) || strings.Contains(v, "/")
	if bad || len(v) > maxWorkerIDLength || !workerIDVerbs.MatchString(v) {
		return invalid("spark.worker.idPattern", strconv.Quote(v), "a pattern without blanks and slashes, with %s for the time, %s for the host and %d for the port, in this order, such as "+
			DefaultWorkerIDPattern)
	}
	w.IDPattern = v
	return nil
}

func setDecommissionSignal(w *Worker, v string) error {
	name := strings.TrimPrefix(strings.ToUpper(v), "SIG")
	if _, ok := decommissionSignals[name]; !ok {
		return invalid("spark.worker.decommission.signal", v, "one of ALRM, HUP, PWR, USR1, USR2, WINCH")
	}
	w.DecommissionSignal = name
	return nil
}

func setRollingStrategy(w *Worker, v string) error {
	switch v {
	case RollingNone, RollingTime, RollingSize:
		w.Rolling.Strategy = v
		return nil
	}
	return invalid("spark.executor.logs.rolling.strategy", v, "time, size, or empty for none")
}

func (l *workerLoader) setRollingInterval(w *Worker, v string) error {
	const key = "spark.executor.logs.rolling.time.interval"
	named := map[string]time.Duration{"daily": 24 * time.Hour, "hourly": time.Hour, "minutely": time.Minute}
	d, ok := named[v]
	if !ok {
		n, err := parseInt(key, v, 1, math.MaxInt32)
		if err != nil {
			return invalid(key, v, "daily, hourly, minutely, or a whole number of seconds")
		}
		d = time.Duration(n) * time.Second
	}
	if d < minRollingInterval {
		l.warn("%s=%s is too short: %v hold instead", key, v, minRollingInterval)
		d = minRollingInterval
	}
	w.Rolling.Interval = d
	return nil
}

func (l *workerLoader) setRollingSize(w *Worker, v string) error {
	const key = "spark.executor.logs.rolling.maxSize"
	n, err := parseBytes(key, v)
	if err != nil {
		return err
	}
	if n < minRollingBytes {
		l.warn("%s=%s is too small: %d bytes hold instead", key, v, minRollingBytes)
		n = minRollingBytes
	}
	w.Rolling.MaxBytes = n
	return nil
}

// setWorkerRedaction: see setRedaction.
func (l *workerLoader) setWorkerRedaction(w *Worker, v string) error {
	if _, err := regexp.Compile(v); err != nil {
		l.warn("%s", redactsAll)
		v = ""
	}
	w.UI.RedactionRegex = v
	return nil
}

const redactsAll = "spark.redaction.regex cannot be read as a regular expression of RE2: every value is redacted"

// resourcePrefix begins spark.worker.resource.NAME.amount, .discoveryScript and .vendor.
const resourcePrefix = "spark.worker.resource."

// applyResources collects the custom resources, sorted by name (ResourceUtils.parseResourceRequest).
func (l *workerLoader) applyResources() error {
	l.worker.ResourcesFile, _ = l.property("spark.worker.resourcesFile")
	byName := map[string]*WorkerResource{}
	for _, key := range sortedStrings(l.propertyNames()) {
		rest, ours := strings.CutPrefix(key, resourcePrefix)
		if !ours {
			continue
		}
		name, what, _ := strings.Cut(rest, ".")
		value, _ := l.property(key)
		if name == "" {
			return invalid(key, value, "of the form "+resourcePrefix+"NAME.amount")
		}
		r := byName[name]
		if r == nil {
			r = &WorkerResource{Name: name, Amount: -1}
			byName[name] = r
		}
		switch what {
		case "amount":
			n, err := parseInt(key, value, 0, math.MaxInt32)
			if err != nil {
				return err
			}
			r.Amount = n
		case "discoveryScript":
			r.Script = value
		case "vendor":
			r.Vendor = value
		default:
			l.warn("%s has no effect: a resource has amount, discoveryScript and vendor", key)
		}
	}
	for _, name := range sortedKeys(byName) {
		r := byName[name]
		if r.Amount < 0 {
			return fmt.Errorf("%s%s.amount is not set, and other settings of the resource are", resourcePrefix, name)
		}
		l.worker.Resources = append(l.worker.Resources, *r)
	}
	return nil
}
