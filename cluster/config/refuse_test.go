package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestRefusedValues: every wrong value is refused by name, with what is allowed.
func TestRefusedValues(t *testing.T) {
	for _, c := range []struct{ option, allowed string }{
		{"spark.worker.timeout=60s", "a whole number of seconds"},
		{"spark.worker.timeout=0", "at least 1"},
		{"spark.deploy.recoveryTimeout=0", "above 0"},
		{"spark.deploy.recoveryTimeout=-5s", "above 0"},
		{"spark.deploy.recoveryTimeout=5 parsecs", "us, ms, s, m, min, h, d"},
		{"spark.deploy.recoveryTimeout=99999999999d", "292 years"},
		{"spark.raftmaster.app.timeout=soon", "us, ms, s"},
		{"spark.dead.worker.persistence=-1", "at least 0"},
		{"spark.deploy.retainedApplications=many", "a whole number"},
		{"spark.deploy.retainedDrivers=-2", "at least 0"},
		{"spark.deploy.maxExecutorRetries=1.5", "a whole number"},
		{"spark.deploy.spreadOut=yes", "true or false"},
		{"spark.deploy.spreadOutApps=1", "true or false"},
		{"spark.deploy.workerSelectionPolicy=RANDOM", "CORES_FREE_DESC"},
		{"spark.deploy.defaultCores=0", "at least 1"},
		{"spark.deploy.maxDrivers=0", "at least 1"},
		{"spark.deploy.appNumberModulo=999", "at least 1000"},
		{"spark.deploy.appIdPattern=app %s %d", "without blanks"},
		{"spark.deploy.driverIdPattern=driver-%x", "a time and a number"},
		{"spark.raftmaster.driver.relaunchDelay=-1s", "0 to 24h"},
		{"spark.raftmaster.driver.relaunchDelay=25h", "0 to 24h"},
		{"spark.raftmaster.driver.relaunchDelay=86401", "0 to 24h"},
		{"spark.decommission.enabled=yes", "true or false"},
		{"spark.master.ui.decommission.allow.mode=SOME", "LOCAL, DENY, ALLOW"},
		{"spark.master.rest.maxRequestBodySize=0", "a whole number of bytes"},
		{"spark.master.rest.maxRequestBodySize=1.5m", "a whole number of bytes"},
		{"spark.master.rest.allowedAppResourcePatterns=ok,(?<!x)y", "RE2"},
		{"spark.raftmaster.rest.sparkVersion=4 3", "a Spark version"},
		{"spark.master.rest.host=a:6066", "without a port"},
		{"spark.master.rest.port=7077", "another port"},
		{"spark.master.ui.port=http", "a port number"},
		{"spark.master.ui.port=70000", "65535"},
		{"spark.master.rest.port=-1", "65535"},
		{"spark.master.rest.enabled=on", "true or false"},
		{"spark.port.maxRetries=-1", "from 0 to 65535"},
		{"spark.rpc.message.maxSize=0", "from 1 to 2047"},
		{"spark.rpc.message.maxSize=4096", "from 1 to 2047"},
		{"spark.raftmaster.failover.timeout=5ms", "from 50ms to 1m0s"},
		{"spark.raftmaster.failover.timeout=2h", "from 50ms to 1m0s"},
		{"spark.raftmaster.log.level=loud", "trace, debug, info, warn, error"},
		{"spark.ui.reverseProxy=maybe", "true or false"},
		{"spark.authenticate=perhaps", "true or false"},
	} {
		t.Run(c.option, func(t *testing.T) {
			_, err := (world{env: map[string]string{"SPARK_MASTER_OPTS": "'-D" + c.option + "'"}}).load()
			var e *SettingError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.allowed) {
				t.Fatalf("%v; want a refusal that says %q", err, c.allowed)
			}
			_, value, _ := strings.Cut(c.option, "=")
			if !strings.Contains(err.Error(), value) && !strings.Contains(err.Error(), "2h0m0s") {
				t.Errorf("%v does not name the value", err)
			}
		})
	}
}

func TestRefusedFlagsAndEnvironment(t *testing.T) {
	for _, c := range []struct {
		name string
		w    world
		want string
	}{
		{"port", world{flags: Flags{Port: ptr(0)}}, "port=0"},
		{"port too high", world{flags: Flags{Port: ptr(65536)}}, "port=65536"},
		{"port variable", world{env: map[string]string{"SPARK_MASTER_PORT": "spark"}}, "SPARK_MASTER_PORT=spark"},
		{"UI on the cluster port", world{flags: Flags{WebUIPort: ptr(7077)}}, "another port"},
		{"host with port", world{flags: Flags{Host: ptr("a:7077")}}, "without a port"},
		{"empty advertise host", world{flags: Flags{AdvertiseHost: ptr("x y")}}, "advertise-host"},
		{"snapshot interval", world{flags: Flags{Snapshots: SnapshotFlags{Interval: ptr(time.Second)}}}, "snapshot-interval"},
		{"snapshot age", world{flags: Flags{Snapshots: SnapshotFlags{MaxAge: ptr(-time.Second)}}}, "snapshot-max-age"},
		{"snapshot count", world{flags: Flags{Snapshots: SnapshotFlags{Keep: ptr(0)}}}, "snapshot-keep"},
		{"snapshots inside the data", world{flags: Flags{DataDir: ptr("/d"), Snapshots: SnapshotFlags{Dir: ptr("/d/s")}}}, "snapshot-dir"},
		{"failover", world{flags: Flags{FailoverTimeout: ptr(time.Millisecond)}}, "failover-timeout"},
	} {
		_, err := c.w.load()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestSecurityIsNeverIgnored: a setting that asks for protection refuses the start, and the message never holds its value.
func TestSecurityIsNeverIgnored(t *testing.T) {
	for _, option := range []string{
		"spark.authenticate=true", "spark.authenticate=TRUE", "spark.authenticate.secret=hunter2", "spark.authenticate.secret.file=/hunter2",
		"spark.authenticate.enableSaslEncryption=true", "spark.network.crypto.enabled=true", "spark.network.sasl.serverAlwaysEncrypt=true",
		"spark.ssl.enabled=true", "spark.ssl.rpc.enabled=true", "spark.ssl.standalone.enabled=true", "spark.ssl.anything.enabled=true",
		"spark.acls.enable=true", "spark.ui.acls.enable=true", "spark.ui.filters=com.hunter2.Filter", "spark.master.rest.filters=org.hunter2.JWSFilter",
	} {
		for _, w := range []world{
			{env: map[string]string{"SPARK_MASTER_OPTS": "-D" + option}},
			{flags: Flags{PropertiesFile: ptr("/f")}, files: map[string]string{"/f": option}},
		} {
			_, err := w.load()
			key, _, _ := strings.Cut(option, "=")
			var e *SecurityError
			if !errors.As(err, &e) || e.Key != key || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v", option, err)
			} else if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: the message shows the value: %v", option, err)
			}
		}
	}
	var e *SecurityError
	if _, err := (world{env: map[string]string{"_SPARK_AUTH_SECRET": "hunter2"}}).load(); !errors.As(err, &e) || e.Key != "_SPARK_AUTH_SECRET" {
		t.Errorf("secret in the environment: %v", err)
	}
	(world{env: map[string]string{"SPARK_MASTER_OPTS": "-Dspark.authenticate=false -Dspark.ssl.rpc.enabled=false -Dspark.ssl.historyServer.enabled=true " +
		"-Dspark.ssl.keyStore=/k -Dspark.acls.enable=False -Dspark.ui.filters= -Dspark.network.crypto.enabled=false"}}).mustLoad(t)
}

// TestCluster: the node is the one entry that is textually its own address.
func TestCluster(t *testing.T) {
	load := func(list, host string, port int, advertise ...string) (Config, error) {
		w := world{flags: Flags{Cluster: &list, Host: &host, Port: &port}}
		if len(advertise) > 0 {
			w.flags.AdvertiseHost = &advertise[0]
		}
		return w.load()
	}
	good := []struct {
		list, host string
		port       int
		advertise  []string
		url        string
	}{
		{"spark://a:7077,b:7077,c:7077", "b", 7077, nil, "spark://b:7077"},
		{"spark://a:7077, spark://b:7077", "a", 7077, nil, "spark://a:7077"},
		{"a:1,a:2,a:3", "a", 2, nil, "spark://a:2"},
		{"spark://a:7077,b:7077", "0.0.0.0", 7077, []string{"b"}, "spark://b:7077"},
		{"spark://127.0.0.1:1,127.0.0.1:2,localhost:3", "127.0.0.1", 2, nil, "spark://127.0.0.1:2"},
		{"spark://[::1]:1,[::1]:2", "::1", 2, nil, "spark://[::1]:2"},
		{"spark://localhost:7077", "localhost", 7077, nil, "spark://localhost:7077"},
	}
	for _, c := range good {
		cfg, err := load(c.list, c.host, c.port, c.advertise...)
		if err != nil || cfg.MasterURL() != c.url {
			t.Errorf("%s as %s:%d %v: %s, %v", c.list, c.host, c.port, c.advertise, cfg.MasterURL(), err)
		}
	}
	bad := []struct {
		list, host string
		port       int
		advertise  []string
		want       []string
	}{
		{"spark://a:7077,b:7077", "c", 7077, nil, []string{"spark://a:7077,b:7077", "c:7077", "names it 0 times"}},
		{"spark://a:7077,b:7077", "a", 7078, nil, []string{"a:7078", "names it 0 times"}},
		{"spark://A:7077,b:7077", "a", 7077, nil, []string{"names it 0 times"}},
		{"spark://a:7077,b:7077,a:7077", "a", 7077, nil, []string{"names it 2 times"}},
		{"spark://a:7077,b:7077,b:7077", "a", 7077, nil, []string{"names b:7077 twice"}},
		{"spark://a,b:7077", "a", 7077, nil, []string{`"a"`, "host:port"}},
		{"spark://a:0,b:7077", "a", 7077, nil, []string{"1 to 65535"}},
		{"spark://a:7077,,b:7077", "a", 7077, nil, []string{`""`}},
		{"spark://:7077", "a", 7077, nil, []string{"host name"}},
		{"spark://a:7077,127.0.0.1:7077", "a", 7077, nil, []string{"127.0.0.1:7077", "cannot be reached from the other hosts"}},
		{"spark://localhost:7077,b:7077", "localhost", 7077, nil, []string{"localhost:7077", "--advertise-host"}},
		{"spark://0.0.0.0:7077,b:7077", "0.0.0.0", 7077, nil, []string{"0.0.0.0:7077 cannot be advertised"}},
	}
	for _, c := range bad {
		_, err := load(c.list, c.host, c.port, c.advertise...)
		if err == nil {
			t.Errorf("%s as %s:%d was accepted", c.list, c.host, c.port)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s as %s:%d: %v\nlacks %q", c.list, c.host, c.port, err, want)
			}
		}
	}
	// Listening everywhere without saying where one is reached, even alone.
	if _, err := (world{flags: Flags{Host: ptr("0.0.0.0")}}).load(); err == nil || !strings.Contains(err.Error(), "--advertise-host") || strings.Contains(err.Error(), "\n") {
		t.Errorf("0.0.0.0 without --advertise-host: %v", err)
	}
}

func TestParseTimeUnits(t *testing.T) {
	for in, want := range map[string]time.Duration{"5": 5 * time.Second, "5us": 5 * time.Microsecond, "5ms": 5 * time.Millisecond, "5s": 5 * time.Second,
		"5m": 5 * time.Minute, "5MIN": 5 * time.Minute, "5h": 5 * time.Hour, "5d": 120 * time.Hour, " -1s ": -time.Second} {
		if got, err := parseTime("k", in, time.Second); err != nil || got != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "s", "1.5s", "5 s", "1e3", "5w", "5ss"} {
		if _, err := parseTime("k", in, time.Second); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}
