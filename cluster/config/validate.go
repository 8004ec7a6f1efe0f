package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of the failover time-out: below, the scheduler of a busy machine looks like a dead leader; above, nobody would
// call it failover.
const (
	minFailoverTimeout = 50 * time.Millisecond
	maxFailoverTimeout = time.Minute
)

var logLevels = []string{"trace", "debug", "info", "warn", "error"}

// Validate checks a Config that was built by hand or by Load.
func (c Config) Validate() error {
	if c.Port < 1 || c.Port > 65535 {
		return invalid("port", strconv.Itoa(c.Port), "from 1 to 65535: the cluster port is part of this master's identity")
	}
	if c.WebUIPort < 0 || c.WebUIPort > 65535 {
		return invalid("webui-port", strconv.Itoa(c.WebUIPort), "from 0 to 65535")
	}
	if c.RESTPort < 0 || c.RESTPort > 65535 {
		return invalid("rest-port", strconv.Itoa(c.RESTPort), "from 0 to 65535")
	}
	if c.WebUIPort == c.Port {
		return invalid("webui-port", strconv.Itoa(c.WebUIPort), "another port than the cluster port")
	}
	if c.RESTEnabled && c.RESTPort == c.Port {
		return invalid("rest-port", strconv.Itoa(c.RESTPort), "another port than the cluster port")
	}
	if c.FailoverTimeout < minFailoverTimeout || c.FailoverTimeout > maxFailoverTimeout {
		return invalid("failover-timeout", c.FailoverTimeout.String(),
			fmt.Sprintf("from %v to %v", minFailoverTimeout, maxFailoverTimeout))
	}
	if !contains(logLevels, c.LogLevel) {
		return invalid("log-level", strconv.Quote(c.LogLevel), "one of "+strings.Join(logLevels, ", "))
	}
	if c.DataDir == "" {
		return invalid("data-dir", `""`, "a directory")
	}
	if err := c.Snapshots.validate(c.DataDir); err != nil {
		return err
	}
	if err := checkHost("host", c.Host); err != nil {
		return err
	}
	if c.RESTEnabled {
		if err := checkHost("spark.master.rest.host", c.RESTHost); err != nil {
			return err
		}
	}
	if err := c.validateDeploy(); err != nil {
		return err
	}
	if err := c.validateSecurity(); err != nil {
		return err
	}
	return c.validateCluster()
}

func (c Config) validateDeploy() error {
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"spark.worker.timeout", c.Deploy.WorkerTimeout},
		{"spark.deploy.recoveryTimeout", c.Deploy.RecoveryTimeout},
		{"spark.raftmaster.app.timeout", c.Deploy.AppTimeout},
	} {
		if d.value <= 0 {
			return invalid(d.key, d.value.String(), "a time above 0")
		}
	}
	if c.Deploy.DefaultCores < 1 {
		return invalid("spark.deploy.defaultCores", strconv.Itoa(c.Deploy.DefaultCores), "at least 1")
	}
	if c.MessageMaxBytes < 1 || c.MessageMaxBytes > MaxMessageBytes {
		return invalid("spark.rpc.message.maxSize", strconv.Itoa(c.MessageMaxBytes), fmt.Sprintf("from 1 to %d bytes", MaxMessageBytes))
	}
	return nil
}

// validateCluster makes sure that the list names this master exactly once, nobody twice, and only addresses that the
// others can dial.
func (c Config) validateCluster() error {
	if len(c.Cluster) == 0 {
		return invalid("cluster", `""`, "spark://host:port,host:port")
	}
	self, matches := c.Advertise(), 0
	seen := map[string]bool{}
	remote := false
	for _, a := range c.Cluster {
		text := a.String()
		if text == self.String() {
			matches++
		}
		if seen[text] && text != self.String() {
			return fmt.Errorf("cluster list %s names %s twice", c.ClusterURL(), text)
		}
		seen[text] = true
		remote = remote || !isLoopback(a.Host)
	}
	if matches != 1 {
		return fmt.Errorf("cluster list %s must name this master, %s, exactly once, and names it %d times: give the entry's host as "+
			"--advertise-host (or --host) and its port as --port, spelled as in the list%s", c.ClusterURL(), self, matches, c.nearestEntry())
	}
	return c.validateReachable(remote)
}

// nearestEntry names the entry that is probably meant when none is this master's: the only one of its host.
func (c Config) nearestEntry() string {
	var same []Address
	for _, a := range c.Cluster {
		if strings.EqualFold(a.Host, c.AdvertiseHost) && a != c.Advertise() {
			same = append(same, a)
		}
	}
	if len(same) != 1 {
		return ""
	}
	return fmt.Sprintf("; is %s meant?", same[0])
}

// validateReachable refuses addresses that would be handed to others and lead nowhere. remote: the list has an entry
// beyond loopback.
func (c Config) validateReachable(remote bool) error {
	for _, a := range c.Cluster {
		switch {
		case isWildcard(a.Host) && a != c.Advertise():
			return fmt.Errorf("%s in cluster list %s cannot be dialled: it is an address to listen on; "+
				"replace that entry with the name or address by which that master is reached", a, c.ClusterURL())
		case isWildcard(a.Host):
			return fmt.Errorf("%s cannot be advertised: it is an address to listen on, and nobody can dial it; "+
				"give --advertise-host with the name or address by which others reach this master", a)
		case remote && len(c.Cluster) > 1 && isLoopback(a.Host):
			return fmt.Errorf("%s in cluster list %s cannot be reached from the other hosts of the list: "+
				"replace it with a name or address that they can dial, and give that as --advertise-host there", a, c.ClusterURL())
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
