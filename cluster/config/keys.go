package config

import (
	"fmt"
	"math"
	"strings"
	"time"

	"raftmaster/fsm"
)

// settingOf is one property of Spark that a C, the configuration of a master or of a worker, reads.
type settingOf[C any] struct {
	key string
	set func(c *C, value string) error
}

// setting is a property of a master.
type setting = settingOf[Config]

// settings lists them. A later entry wins over an earlier one for the same field (spreadOutApps over its old name).
var settings = []setting{
	seconds("spark.worker.timeout", func(c *Config) *time.Duration { return &c.Deploy.WorkerTimeout }),
	{"spark.deploy.recoveryTimeout", func(c *Config, v string) error {
		return setDuration("spark.deploy.recoveryTimeout", v, &c.Deploy.RecoveryTimeout)
	}},
	{"spark.raftmaster.app.timeout", func(c *Config, v string) error {
		return setDuration("spark.raftmaster.app.timeout", v, &c.Deploy.AppTimeout)
	}},
	{"spark.raftmaster.failover.timeout", func(c *Config, v string) error {
		d, err := parseMillis("spark.raftmaster.failover.timeout", v)
		c.FailoverTimeout = d
		return err
	}},
	number("spark.dead.worker.persistence", 0, math.MaxInt32, func(c *Config) *int { return &c.Deploy.DeadWorkerPersistence }),
	number("spark.deploy.retainedApplications", 0, math.MaxInt32, func(c *Config) *int { return &c.Deploy.RetainedApplications }),
	number("spark.deploy.retainedDrivers", 0, math.MaxInt32, func(c *Config) *int { return &c.Deploy.RetainedDrivers }),
	number("spark.deploy.maxExecutorRetries", math.MinInt32, math.MaxInt32, func(c *Config) *int { return &c.Deploy.MaxExecutorRetries }),
	number("spark.deploy.defaultCores", 1, math.MaxInt32, func(c *Config) *int { return &c.Deploy.DefaultCores }),
	number("spark.deploy.maxDrivers", 1, math.MaxInt32, func(c *Config) *int { return &c.Deploy.MaxDrivers }),
	boolean("spark.deploy.spreadOut", func(c *Config) *bool { return &c.Deploy.SpreadOutApps }),
	boolean("spark.deploy.spreadOutApps", func(c *Config) *bool { return &c.Deploy.SpreadOutApps }),
	boolean("spark.deploy.spreadOutDrivers", func(c *Config) *bool { return &c.Deploy.SpreadOutDrivers }),
	{"spark.deploy.workerSelectionPolicy", setPolicy},
	{"spark.deploy.appIdPattern", func(c *Config, v string) error {
		return setPattern("spark.deploy.appIdPattern", v, &c.Deploy.AppIDPattern)
	}},
	{"spark.deploy.driverIdPattern", func(c *Config, v string) error {
		return setPattern("spark.deploy.driverIdPattern", v, &c.Deploy.DriverIDPattern)
	}},
	number("spark.deploy.appNumberModulo", minAppNumberModulo, math.MaxInt32, func(c *Config) *int { return &c.Deploy.AppNumberModulo }),
	boolean("spark.master.useAppNameAsAppId.enabled", func(c *Config) *bool { return &c.Deploy.UseAppNameAsAppID }),
	boolean("spark.master.useDriverIdAsAppName.enabled", func(c *Config) *bool { return &c.Deploy.UseDriverIDAsAppName }),
	{"spark.raftmaster.driver.relaunchDelay", setRelaunchDelay},
	boolean("spark.decommission.enabled", func(c *Config) *bool { return &c.Deploy.DecommissionEnabled }),
	boolean("spark.master.rest.enabled", func(c *Config) *bool { return &c.RESTEnabled }),
	text("spark.master.rest.host", func(c *Config) *string { return &c.RESTHost }),
	{"spark.master.rest.maxRequestBodySize", setBodySize},
	{"spark.master.rest.allowedAppResourcePatterns", setResourcePatterns},
	list("spark.raftmaster.rest.placeholderEnv", func(c *Config) *[]string { return &c.REST.PlaceholderEnv }),
	{"spark.raftmaster.rest.sparkVersion", setSparkVersion},
	text("spark.master.ui.title", func(c *Config) *string { return &c.UI.Title }),
	number("spark.port.maxRetries", 0, 65535, func(c *Config) *int { return &c.PortMaxRetries }),
	{"spark.rpc.message.maxSize", setMessageSize},
	boolean("spark.ui.reverseProxy", func(c *Config) *bool { return &c.UI.ReverseProxy }),
	text("spark.ui.reverseProxyUrl", func(c *Config) *string { return &c.UI.ReverseProxyURL }),
	text("spark.master.ui.historyServerUrl", func(c *Config) *string { return &c.UI.HistoryServerURL }),
	{"spark.master.ui.decommission.allow.mode", setAllowMode},
	list("spark.master.ui.visibleEnvVarPrefixes", func(c *Config) *[]string { return &c.UI.VisibleEnvVarPrefixes }),
	{"spark.redaction.regex", setRedaction},
	boolean("spark.ui.killEnabled", func(c *Config) *bool { return &c.UI.KillEnabled }),
	text("spark.ui.xXssProtection", func(c *Config) *string { return &c.UI.XXSSProtection }),
	text("spark.ui.allowFramingFrom", func(c *Config) *string { return &c.UI.AllowFramingFrom }),
	boolean("spark.ui.contentSecurityPolicy.enabled", func(c *Config) *bool { return &c.UI.ContentSecurityPolicy }),
	boolean("spark.log.structuredLogging.enabled", func(c *Config) *bool { return &c.LogJSON }),
	boolean("spark.raftmaster.log.json", func(c *Config) *bool { return &c.LogJSON }),
	setSnapshotTime(keySnapshotInterval, func(c *Config) *time.Duration { return &c.Snapshots.Interval }),
	number(keySnapshotKeep, 1, maxSnapshotKeep, func(c *Config) *int { return &c.Snapshots.Keep }),
	setSnapshotTime(keySnapshotMaxAge, func(c *Config) *time.Duration { return &c.Snapshots.MaxAge }),
}

// elsewhere are known properties that are read in another place (addresses, files, ports).
var elsewhere = map[string]bool{
	"spark.master.ui.port": true, "spark.master.rest.port": true, "spark.raftmaster.cluster": true,
	"spark.raftmaster.advertiseHost": true, "spark.raftmaster.data.dir": true, "spark.raftmaster.admin.tokenFile": true,
	"spark.raftmaster.log.level": true, keySnapshotDir: true, "spark.master.rest.filters": true,
}

// noEffect are properties of Spark's master that mean nothing here, with the reason that an operator is told.
var noEffect = map[string]string{
	"spark.deploy.recoveryMode":                "the state is replicated by Raft, always",
	"spark.deploy.recoveryMode.factory":        "the state is replicated by Raft, always",
	"spark.deploy.recoveryDirectory":           "the state lives in the data directory",
	"spark.deploy.recoveryCompressionCodec":    "the state lives in the data directory",
	"spark.deploy.recoverySerializationFilter": "no Java object is ever restored from disk",
	"spark.deploy.zookeeper.url":               "no ZooKeeper is used",
	"spark.deploy.zookeeper.dir":               "no ZooKeeper is used",
	"spark.master.rest.maxThreads":             "connections are bounded, each is served by a goroutine of its own",
	"spark.master.rest.virtualThread.enabled":  "there is no JVM",
	"spark.metrics.conf":                       noSinks,
}

// noSinks is the reason for spark.metrics.conf and every spark.metrics.conf.* key.
const (
	noSinks            = "metrics are served over HTTP at /metrics and at Spark's paths, other sinks are not written"
	metricsPrefix      = "spark.metrics.conf."
	minAppNumberModulo = 1000 // as in Spark (internal/config/Deploy.scala)
)

// applyProperties sets every property that Spark's master reads and warns of those that nobody reads.
func (l *loader) applyProperties() error {
	recoverySet := false
	for _, s := range settings {
		v, ok := l.property(s.key)
		if !ok {
			continue
		}
		if err := s.set(&l.cfg, v); err != nil {
			return err
		}
		recoverySet = recoverySet || s.key == "spark.deploy.recoveryTimeout"
	}
	if !recoverySet {
		l.cfg.Deploy.RecoveryTimeout = l.cfg.Deploy.WorkerTimeout
	}
	l.warnUnread()
	l.keepProperties()
	return nil
}

func (l *loader) warnUnread() {
	known := make(map[string]bool, len(settings))
	for _, s := range settings {
		known[s.key] = true
	}
	for _, key := range l.propertyNames() {
		switch reason, none := noEffect[key]; {
		case none:
			l.warn("%s has no effect: %s", key, reason)
		case strings.HasPrefix(key, metricsPrefix):
			l.warn("%s has no effect: %s", key, noSinks)
		case known[key], elsewhere[key]:
		case strings.HasPrefix(key, "spark.deploy."), strings.HasPrefix(key, "spark.master."),
			strings.HasPrefix(key, "spark.raftmaster."):
			l.warn("%s has no effect: this master does not know it", key)
		}
	}
}

func setPolicy(c *Config, v string) error {
	p, ok := fsm.ParseSelectionPolicy(strings.ToUpper(v))
	if !ok {
		return invalid("spark.deploy.workerSelectionPolicy", v,
			"one of CORES_FREE_ASC, CORES_FREE_DESC, MEMORY_FREE_ASC, MEMORY_FREE_DESC, WORKER_ID")
	}
	c.Deploy.WorkerSelectionPolicy = p
	return nil
}

// maxMessageMiB is Spark's own bound (util/RpcUtils.scala).
const maxMessageMiB = 2047

func setMessageSize(c *Config, v string) error {
	bytes, warning, err := parseMessageSize(v)
	if err != nil {
		return err
	}
	if warning != "" {
		c.Warnings = append(c.Warnings, warning)
	}
	c.MessageMaxBytes = bytes
	return nil
}

// parseMessageSize reads spark.rpc.message.maxSize; what is more than the decoder reads is cut, with a warning.
func parseMessageSize(v string) (bytes int, warning string, err error) {
	n, err := parseInt("spark.rpc.message.maxSize", v, 1, maxMessageMiB)
	if err != nil {
		return 0, "", err
	}
	if n<<20 > MaxMessageBytes {
		warning = fmt.Sprintf("spark.rpc.message.maxSize=%s: messages of up to %d MiB are read, which holds instead", v, MaxMessageBytes>>20)
		n = MaxMessageBytes >> 20
	}
	return n << 20, warning, nil
}

func number[C any](key string, low, high int, field func(*C) *int) settingOf[C] {
	return settingOf[C]{key, func(c *C, v string) error {
		n, err := parseInt(key, v, low, high)
		if err == nil {
			*field(c) = n
		}
		return err
	}}
}

func boolean[C any](key string, field func(*C) *bool) settingOf[C] {
	return settingOf[C]{key, func(c *C, v string) error {
		b, err := parseBool(key, v)
		if err == nil {
			*field(c) = b
		}
		return err
	}}
}

func text[C any](key string, field func(*C) *string) settingOf[C] {
	return settingOf[C]{key, func(c *C, v string) error {
		*field(c) = v
		return nil
	}}
}

// seconds is a property that Spark declares as a bare number of seconds.
func seconds[C any](key string, field func(*C) *time.Duration) settingOf[C] {
	return settingOf[C]{key, func(c *C, v string) error {
		n, err := parseInt(key, v, 1, math.MaxInt32)
		if err != nil {
			return invalid(key, v, "a whole number of seconds, at least 1, without a unit")
		}
		*field(c) = time.Duration(n) * time.Second
		return nil
	}}
}

func setDuration(key, v string, field *time.Duration) error {
	d, err := parseTime(key, v, time.Second)
	if err != nil {
		return err
	}
	if d <= 0 {
		return invalid(key, v, "a time above 0, such as 60s or 2min")
	}
	*field = d
	return nil
}
