package config

import (
	"fmt"
	"math"
	"strings"
	"time"

	"raftmaster/fsm"
)

// setting is one property of Spark that a master reads.
type setting struct {
	key string
	set func(c *Config, value string) error
}

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
	boolean("spark.master.rest.enabled", func(c *Config) *bool { return &c.RESTEnabled }),
	text("spark.master.rest.host", func(c *Config) *string { return &c.RESTHost }),
	text("spark.master.ui.title", func(c *Config) *string { return &c.UI.Title }),
	number("spark.port.maxRetries", 0, 65535, func(c *Config) *int { return &c.PortMaxRetries }),
	{"spark.rpc.message.maxSize", setMessageSize},
	boolean("spark.ui.reverseProxy", func(c *Config) *bool { return &c.UI.ReverseProxy }),
	text("spark.ui.reverseProxyUrl", func(c *Config) *string { return &c.UI.ReverseProxyURL }),
	boolean("spark.ui.killEnabled", func(c *Config) *bool { return &c.UI.KillEnabled }),
	text("spark.ui.xXssProtection", func(c *Config) *string { return &c.UI.XXSSProtection }),
	text("spark.ui.allowFramingFrom", func(c *Config) *string { return &c.UI.AllowFramingFrom }),
	boolean("spark.ui.contentSecurityPolicy.enabled", func(c *Config) *bool { return &c.UI.ContentSecurityPolicy }),
	boolean("spark.raftmaster.log.json", func(c *Config) *bool { return &c.LogJSON }),
}

// elsewhere are known properties that are read in another place (addresses, files, ports).
var elsewhere = map[string]bool{
	"spark.master.ui.port": true, "spark.master.rest.port": true, "spark.raftmaster.cluster": true,
	"spark.raftmaster.advertiseHost": true, "spark.raftmaster.data.dir": true, "spark.raftmaster.admin.tokenFile": true,
	"spark.raftmaster.log.level": true, "spark.master.rest.filters": true,
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
}

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
	l.warnNotYet()
	return nil
}

const (
	noGateway = "the REST submission gateway is not part of this release, nothing listens on its port"
	noDrivers = "drivers on workers (cluster deploy mode) are not part of this release"
	noProxy   = "this release does not forward to the pages of workers and applications"
)

// notYet are properties that are understood and checked, and that this release does not act on, with the reason. A value
// that asks for what happens anyway, harmless, needs no warning.
var notYet = map[string]struct{ reason, harmless string }{
	"spark.master.rest.enabled":     {noGateway, "false"},
	"spark.master.rest.host":        {noGateway, ""},
	"spark.master.rest.port":        {noGateway, ""},
	"spark.deploy.maxDrivers":       {noDrivers, ""},
	"spark.deploy.retainedDrivers":  {noDrivers, ""},
	"spark.deploy.spreadOutDrivers": {noDrivers, ""},
	"spark.ui.reverseProxy":         {noProxy, "false"},
	"spark.ui.reverseProxyUrl":      {noProxy, ""},
	"spark.ui.killEnabled":          {"the pages of this release have no kill links", "false"},
}

// warnNotYet tells an operator of settings that are understood, and that this release does not act on.
func (l *loader) warnNotYet() {
	for key, n := range notYet {
		if v, ok := l.property(key); ok && !strings.EqualFold(v, n.harmless) {
			l.warn("%s=%s has no effect: %s", key, v, n.reason)
		}
	}
	if l.src.Flags.RESTPort != nil {
		l.warn("--rest-port=%d has no effect: %s", *l.src.Flags.RESTPort, noGateway)
	}
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
	n, err := parseInt("spark.rpc.message.maxSize", v, 1, maxMessageMiB)
	if err != nil {
		return err
	}
	if n<<20 > MaxMessageBytes {
		c.Warnings = append(c.Warnings, fmt.Sprintf("spark.rpc.message.maxSize=%s: this master reads messages of up to %d MiB, which holds instead", v, MaxMessageBytes>>20))
		n = MaxMessageBytes >> 20
	}
	c.MessageMaxBytes = n << 20
	return nil
}

func number(key string, low, high int, field func(*Config) *int) setting {
	return setting{key, func(c *Config, v string) error {
		n, err := parseInt(key, v, low, high)
		if err == nil {
			*field(c) = n
		}
		return err
	}}
}

func boolean(key string, field func(*Config) *bool) setting {
	return setting{key, func(c *Config, v string) error {
		b, err := parseBool(key, v)
		if err == nil {
			*field(c) = b
		}
		return err
	}}
}

func text(key string, field func(*Config) *string) setting {
	return setting{key, func(c *Config, v string) error {
		*field(c) = v
		return nil
	}}
}

// seconds is a property that Spark declares as a bare number of seconds.
func seconds(key string, field func(*Config) *time.Duration) setting {
	return setting{key, func(c *Config, v string) error {
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
