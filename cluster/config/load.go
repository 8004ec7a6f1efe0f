package config

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Flags is what the command line said. A nil field means that the flag was not given.
type Flags struct {
	Cluster         *string
	Host            *string
	Port            *int
	AdvertiseHost   *string
	WebUIPort       *int
	RESTPort        *int
	PropertiesFile  *string
	DataDir         *string
	FailoverTimeout *time.Duration
	LogLevel        *string
	LogJSON         *bool
	AdminTokenFile  *string
	// Security are the flags of SecuritySettings that were given, by name.
	Security     map[string]string
	EnableDrills bool
	Snapshots    SnapshotFlags
}

// refuseEmpty refuses flags that were given without a value. Mostly a shell variable is not set, and to go on as if the
// flag had not been given could start another cluster than the one meant.
func (f Flags) refuseEmpty() error {
	for _, s := range []struct {
		name  string
		value *string
	}{
		{"cluster", f.Cluster}, {"host", f.Host}, {"advertise-host", f.AdvertiseHost}, {"properties-file", f.PropertiesFile},
		{"data-dir", f.DataDir}, {"log-level", f.LogLevel}, {"token-file", f.AdminTokenFile},
		{"snapshot-dir", f.Snapshots.Dir},
	} {
		if s.value != nil && strings.TrimSpace(*s.value) == "" {
			return &EmptyFlagError{Flag: s.name}
		}
	}
	for _, s := range SecuritySettings {
		if v, ok := f.Security[s.Flag]; ok && strings.TrimSpace(v) == "" {
			return &EmptyFlagError{Flag: s.Flag}
		}
	}
	return nil
}

// EmptyFlagError refuses a flag that was given with an empty value.
type EmptyFlagError struct {
	// Flag is its name without dashes.
	Flag string
}

func (e *EmptyFlagError) Error() string {
	return fmt.Sprintf("--%s is given and empty: is a variable of your shell not set? give it a value, or leave the flag out", e.Flag)
}

// Source is where Load reads from. Every field but Flags may be left zero, which means the process's own environment
// and file system.
type Source struct {
	Flags Flags
	// LookupEnv finds an environment variable.
	LookupEnv func(name string) (string, bool)
	// ReadFile reads a properties file.
	ReadFile func(path string) ([]byte, error)
	// LocalHost finds the default host name or address of this machine.
	LocalHost func() (string, error)
	// HomeDir is the home directory, where the default data directory goes unless the process runs as root.
	HomeDir func() (string, error)
}

// Environment variables that a master reads. Spark's first, then our own, which suit containers.
const (
	envHost        = "SPARK_MASTER_HOST"
	envOldHost     = "SPARK_MASTER_IP"
	envPort        = "SPARK_MASTER_PORT"
	envWebUIPort   = "SPARK_MASTER_WEBUI_PORT"
	envMasterOpts  = "SPARK_MASTER_OPTS"
	envDaemonOpts  = "SPARK_DAEMON_JAVA_OPTS"
	envConfDir     = "SPARK_CONF_DIR"
	envSparkHome   = "SPARK_HOME"
	envLocalIP     = "SPARK_LOCAL_IP"
	envLocalHost   = "SPARK_LOCAL_HOSTNAME"
	envPublicDNS   = "SPARK_PUBLIC_DNS"
	envAuthSecret  = "_SPARK_AUTH_SECRET"
	envCluster     = "RAFTMASTER_CLUSTER"
	envAdvertise   = "RAFTMASTER_ADVERTISE_HOST"
	envDataDir     = "RAFTMASTER_DATA_DIR"
	envTokenFile   = "RAFTMASTER_TOKEN_FILE"
	envLogLevel    = "RAFTMASTER_LOG_LEVEL"
	envStateDir    = "STATE_DIRECTORY" // set by systemd for a unit with StateDirectory=
	envXDGState    = "XDG_STATE_HOME"
	defaultsFile   = "spark-defaults.conf"
	rootDataParent = "/var/lib/raftmaster"
)

// Load builds a valid Config, or says which setting is wrong and what is allowed.
func Load(src Source) (Config, error) {
	src = src.withDefaults()
	env := environment{lookup: src.LookupEnv}
	l := &loader{src: src, env: env, cfg: Default(), optionVars: []string{envDaemonOpts, envMasterOpts}}
	if err := src.Flags.refuseEmpty(); err != nil {
		return Config{}, err
	}
	if err := l.readProperties(); err != nil {
		return Config{}, err
	}
	if err := l.refuseSecurity(); err != nil {
		return Config{}, err
	}
	if err := l.applyProperties(); err != nil {
		return Config{}, err
	}
	if err := l.applySecurity(); err != nil {
		return Config{}, err
	}
	if err := l.applyIdentity(); err != nil {
		return Config{}, err
	}
	if err := l.applyRest(); err != nil {
		return Config{}, err
	}
	sort.Strings(l.cfg.Warnings)
	if err := l.cfg.Validate(); err != nil {
		return Config{}, err
	}
	return l.cfg, nil
}

func (s Source) withDefaults() Source {
	if s.LookupEnv == nil {
		s.LookupEnv = os.LookupEnv
	}
	if s.ReadFile == nil {
		s.ReadFile = os.ReadFile
	}
	if s.LocalHost == nil {
		s.LocalHost = localHost
	}
	if s.HomeDir == nil {
		s.HomeDir = os.UserHomeDir
	}
	return s
}

// loader carries the parts of one Load.
type loader struct {
	src Source
	env environment
	cfg Config
	// optionVars are the environment variables with -D properties; a later one wins.
	optionVars []string
	// opts are the -D properties, file those of the properties file; opts win.
	opts, file map[string]string
	// fileName is named in errors about a property of the file.
	fileName string
}

// environment treats an empty variable as unset, as Spark's scripts do.
type environment struct {
	lookup func(string) (string, bool)
}

func (e environment) get(name string) (string, bool) {
	v, ok := e.lookup(name)
	v = strings.TrimSpace(v)
	return v, ok && v != ""
}

// applyIdentity settles the addresses: who this master is, and which masters there are.
func (l *loader) applyIdentity() error {
	f, c := l.src.Flags, &l.cfg
	c.Host = l.text(f.Host, "", envHost)
	port, err := l.port(f.Port, "", envPort, c.Port)
	if err != nil {
		return err
	}
	c.Port = port
	if old, ok := l.env.get(envOldHost); ok && c.Host == "" {
		l.warn("%s is deprecated, please use %s", envOldHost, envHost)
		c.Host = old
	}
	if c.Host == "" {
		if c.Host, err = l.defaultHost(); err != nil {
			return err
		}
	}
	c.AdvertiseHost = l.text(f.AdvertiseHost, "spark.raftmaster.advertiseHost", envAdvertise)
	if c.AdvertiseHost == "" {
		c.AdvertiseHost = c.Host
	}
	if err := checkHost("advertise-host", c.AdvertiseHost); err != nil {
		return err
	}
	list := l.text(f.Cluster, "spark.raftmaster.cluster", envCluster)
	if list == "" {
		c.Cluster = []Address{c.Advertise()}
		return l.refuseAlone()
	}
	c.Cluster, err = ParseCluster(list)
	return err
}

// refuseAlone: a recovery mode of Spark that elects among several masters came without a list of them. With that
// configuration each of those masters would lead a cluster of its own, and take workers and applications for it.
func (l *loader) refuseAlone() error {
	mode, _ := l.property("spark.deploy.recoveryMode")
	if !strings.EqualFold(mode, "ZOOKEEPER") && !strings.EqualFold(mode, "CUSTOM") {
		return nil
	}
	return invalid("spark.deploy.recoveryMode", mode, fmt.Sprintf("accompanied by the list of all masters, without which each of them would be a "+
		"cluster of its own: give --cluster, %s or spark.raftmaster.cluster (this master alone: --cluster %s)", envCluster, l.cfg.MasterURL()))
}

// applyRest settles everything that needs the addresses, or has no property of Spark.
func (l *loader) applyRest() error {
	f, c := l.src.Flags, &l.cfg
	var err error
	if c.WebUIPort, err = l.port(f.WebUIPort, "spark.master.ui.port", envWebUIPort, c.WebUIPort); err != nil {
		return err
	}
	if c.RESTPort, err = l.port(f.RESTPort, "spark.master.rest.port", "", c.RESTPort); err != nil {
		return err
	}
	if ip, ok := l.env.get(envLocalIP); ok {
		c.WebUIHost = ip
	}
	if c.RESTHost == "" {
		c.RESTHost = c.Host
	}
	c.PublicHost = c.AdvertiseHost
	if dns, ok := l.env.get(envPublicDNS); ok {
		c.PublicHost = dns
	}
	if level := l.text(f.LogLevel, "spark.raftmaster.log.level", envLogLevel); level != "" {
		c.LogLevel = strings.ToLower(level)
	}
	if f.LogJSON != nil {
		c.LogJSON = *f.LogJSON
	}
	c.EnableDrills = f.EnableDrills
	c.AdminTokenFile = l.text(f.AdminTokenFile, "spark.raftmaster.admin.tokenFile", envTokenFile)
	if f.FailoverTimeout != nil {
		c.FailoverTimeout = *f.FailoverTimeout
	}
	c.DataDir = l.text(f.DataDir, "spark.raftmaster.data.dir", envDataDir)
	l.snapshots(f.Snapshots)
	if c.DataDir == "" {
		c.DataDir, err = l.defaultDataDir()
	}
	return err
}

// text takes a value from the flag, the -D property, the environment variable or the file, in this order.
func (l *loader) text(flag *string, key, envName string) string {
	if flag != nil {
		return strings.TrimSpace(*flag)
	}
	if v, ok := l.opts[key]; ok && key != "" {
		return v
	}
	if envName != "" {
		if v, ok := l.env.get(envName); ok {
			return v
		}
	}
	if key == "" {
		return ""
	}
	return l.file[key]
}

func (l *loader) port(flag *int, key, envName string, fallback int) (int, error) {
	if flag != nil {
		return *flag, nil
	}
	if key != "" {
		if v, ok := l.opts[key]; ok {
			return parsePort(key, v)
		}
	}
	if envName != "" {
		v, ok := l.env.get(envName)
		switch {
		case ok && strings.HasPrefix(v, "tcp://"):
			// Kubernetes sets SPARK_MASTER_PORT=tcp://1.2.3.4:7077 in every pod when a service is called "spark-master".
			service := strings.ReplaceAll(strings.ToLower(strings.TrimSuffix(envName, "_PORT")), "_", "-")
			l.warn("%s=%s ignored: this is what Kubernetes sets for a service called %s", envName, v, service)
		case ok:
			return parsePort(envName, v)
		}
	}
	if v, ok := l.file[key]; ok && key != "" {
		return parsePort(key, v)
	}
	return fallback, nil
}

func parsePort(name, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0, invalid(name, value, "a port number from 0 to 65535")
	}
	return n, nil
}

func (l *loader) warn(format string, args ...any) {
	l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf(format, args...))
}

// SettingError names a setting, its value and what is allowed.
type SettingError struct {
	Key, Value, Allowed string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("%s=%s: must be %s", e.Key, e.Value, e.Allowed)
}

func invalid(key, value, allowed string) error {
	return &SettingError{Key: key, Value: value, Allowed: allowed}
}
