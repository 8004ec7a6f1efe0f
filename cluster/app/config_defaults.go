package app

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// withDefaults returns the configuration with every default filled in, and the masters, or what is wrong with it.
func (c Config) withDefaults() (Config, []frame.Address, error) {
	masters, err := parseMasters(c.Masters)
	if err != nil {
		return c, nil, err
	}
	if c.Release != "" {
		fam, ok := sparkmsg.FamilyForRelease(c.Release)
		if !ok {
			return c, nil, fmt.Errorf("app: Spark release %q is of a line that is not supported", c.Release)
		}
		c.Family = fam
	}
	switch {
	case !sparkmsg.AllFamilies.Has(c.Family):
		return c, nil, errors.New("app: neither the Spark release nor its family is set")
	case c.Host == "" || strings.ContainsAny(c.Host, " /@\t\n"):
		return c, nil, fmt.Errorf("app: advertised host %q is not a host name or address", c.Host)
	case c.CoresPerExecutor < -1 || c.MemoryMB < 0 || c.MaxCores < 0:
		return c, nil, errors.New("app: cores and memory must not be negative")
	case c.Port < 0 || c.Port > math.MaxUint16:
		return c, nil, fmt.Errorf("app: port %d is not from 0 to 65535", c.Port)
	}
	for _, p := range c.Properties {
		if p.Key == hostProperty || p.Key == portProperty {
			return c, nil, fmt.Errorf("app: property %s is set by the application itself", p.Key)
		}
	}
	c.setDefaults()
	return c, masters, nil
}

func (c *Config) setDefaults() {
	setDefault(&c.Bind, strings.Trim(c.Host, "[]"))
	setDefault(&c.Name, "raftmaster-app")
	setDefault(&c.User, "raftmaster")
	setDefault(&c.CoresPerExecutor, 1)
	setDefault(&c.MemoryMB, 512)
	setDefault(&c.EventQueue, 1024)
	setDefault(&c.Timers.RegisterEvery, 20*time.Second)
	setDefault(&c.Timers.RegisterTries, 3)
	setDefault(&c.Timers.Ask, 120*time.Second)
	setDefault(&c.Timers.AskRetry, 500*time.Millisecond)
	setDefault(&c.Timers.ExitWait, 5*time.Second)
	setDefault(&c.Timers.Silence, 120*time.Second)
	setDefault(&c.Timers.Leave, 30*time.Second)
	setDefault(&c.Limits.Executors, 10_000)
	setDefault(&c.Limits.Ended, 1000)
	setDefault(&c.Limits.Connections, 32_768)
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
}

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

func parseMasters(list []string) ([]frame.Address, error) {
	var out []frame.Address
	seen := map[frame.Address]bool{}
	for _, entry := range list {
		parsed, err := config.ParseCluster(entry)
		if err != nil {
			return nil, fmt.Errorf("app: masters: %w", err)
		}
		for _, a := range parsed {
			addr := frame.Address{Host: a.Host, Port: int32(a.Port)}
			if !seen[addr] {
				seen[addr] = true
				out = append(out, addr)
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("app: no master is named")
	}
	return out, nil
}
