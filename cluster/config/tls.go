package config

import (
	"fmt"
	"strings"
)

// TLSFiles name PEM files: the certificate with its chain, its key, and the certificates of authorities that callers'
// certificates must come from.
type TLSFiles struct {
	Cert, Key, CA string
}

// On tells whether TLS is configured.
func (f TLSFiles) On() bool { return f.Cert != "" }

// ClusterTLS is TLS between masters. CA is required there.
type ClusterTLS struct {
	TLSFiles
	// Name is in the certificate of every master; "": each certificate is for the host of its master's entry in the list.
	Name string
	// Optional: masters that do not use TLS are talked to as well, while a cluster is being changed over.
	Optional bool
}

// Values of --cluster-tls-mode.
const (
	ClusterTLSRequired = "required"
	ClusterTLSOptional = "optional"
)

// SecuritySetting is a setting of TLS: its flag, environment variable and property.
type SecuritySetting struct {
	Flag, Env, Property, Help string
	field                     func(*Config) *string
}

// securityText makes the names of all three from the words of one.
func securityText(flag, help string, field func(*Config) *string) SecuritySetting {
	words := strings.Split(flag, "-")
	key := strings.Join(words[:3], ".")
	for _, w := range words[3:] {
		key += strings.ToUpper(w[:1]) + w[1:]
	}
	return SecuritySetting{Flag: flag, Env: "RAFTMASTER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")),
		Property: "spark.raftmaster." + key, Help: help, field: field}
}

// SecuritySettings lists the settings of TLS: --cluster-tls-cert is RAFTMASTER_CLUSTER_TLS_CERT and
// spark.raftmaster.cluster.tls.cert, and so on.
var SecuritySettings = []SecuritySetting{
	securityText("cluster-tls-cert", "PEM file with this master's certificate for connections between masters, which are then encrypted and authenticated",
		func(c *Config) *string { return &c.ClusterTLS.Cert }),
	securityText("cluster-tls-key", "PEM file with its key", func(c *Config) *string { return &c.ClusterTLS.Key }),
	securityText("cluster-tls-ca", "PEM file with the authority of all masters' certificates", func(c *Config) *string { return &c.ClusterTLS.CA }),
	securityText("cluster-tls-name", "a name that every master's certificate has (default: each is for the host of its entry in --cluster)",
		func(c *Config) *string { return &c.ClusterTLS.Name }),
	securityText("cluster-tls-mode", "required, or optional while masters without TLS remain (default required)", func(c *Config) *string { return &c.clusterTLSMode }),
	securityText("web-tls-cert", "PEM file with the certificate of the web UI, which is then served over HTTPS", func(c *Config) *string { return &c.WebTLS.Cert }),
	securityText("web-tls-key", "PEM file with its key", func(c *Config) *string { return &c.WebTLS.Key }),
	securityText("web-tls-client-ca", "PEM file with the authority whose certificates callers of the web UI must have", func(c *Config) *string { return &c.WebTLS.CA }),
	securityText("rest-tls-cert", "PEM file with the certificate of the REST gateway, which is then served over HTTPS", func(c *Config) *string { return &c.RESTTLS.Cert }),
	securityText("rest-tls-key", "PEM file with its key", func(c *Config) *string { return &c.RESTTLS.Key }),
	securityText("rest-tls-client-ca", "PEM file with the authority whose certificates callers of the REST gateway must have", func(c *Config) *string { return &c.RESTTLS.CA }),
}

func init() {
	for _, s := range SecuritySettings {
		elsewhere[s.Property] = true
	}
}

// applySecurity reads the settings of TLS and refuses halves of them.
func (l *loader) applySecurity() error {
	for _, s := range SecuritySettings {
		var flag *string
		if v, ok := l.src.Flags.Security[s.Flag]; ok {
			flag = &v
		}
		*s.field(&l.cfg) = l.text(flag, s.Property, s.Env)
	}
	c := &l.cfg
	switch c.clusterTLSMode {
	case "", ClusterTLSRequired:
	case ClusterTLSOptional:
		c.ClusterTLS.Optional = true
	default:
		return invalid("cluster-tls-mode", c.clusterTLSMode, "required or optional")
	}
	if (c.ClusterTLS.Name != "" || c.clusterTLSMode != "") && !c.ClusterTLS.On() {
		return fmt.Errorf("--cluster-tls-name and --cluster-tls-mode mean nothing without --cluster-tls-cert: connections between masters would not be protected")
	}
	return nil
}

// validateSecurity refuses a Config that would protect less than it seems to.
func (c Config) validateSecurity() error {
	for _, f := range []struct {
		name, ca string
		files    TLSFiles
		needsCA  bool
	}{
		{"cluster-tls", "cluster-tls-ca", c.ClusterTLS.TLSFiles, true},
		{"web-tls", "web-tls-client-ca", c.WebTLS, false},
		{"rest-tls", "rest-tls-client-ca", c.RESTTLS, false},
	} {
		switch {
		case f.files == (TLSFiles{}):
		case f.files.Cert == "" || f.files.Key == "":
			return fmt.Errorf("TLS needs both --%s-cert and --%s-key: one of them is not given", f.name, f.name)
		case f.needsCA && f.files.CA == "":
			return fmt.Errorf("TLS between masters needs --%s, the authority by which they know each other", f.ca)
		}
	}
	if c.RESTTLS.On() && !c.RESTEnabled {
		return fmt.Errorf("--rest-tls-cert is given, but the REST gateway is off (spark.master.rest.enabled=false)")
	}
	return nil
}

// Open says what strangers can do at the ports of this master, a sentence for each; nothing is said of ports that only
// this machine reaches. readsNeedToken: the token file has tokens of the role read.
func (c Config) Open(readsNeedToken bool) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !isLoopback(c.Host) {
		switch {
		case !c.ClusterTLS.On():
			say("cluster port %s: masters do not prove who they are (no --cluster-tls-cert), so that whoever reaches it can read, depose and overwrite the cluster's state", c.BindAddress())
		case c.ClusterTLS.Optional:
			say("cluster port %s: masters need not prove who they are (--cluster-tls-mode=optional), so that whoever reaches it can read, depose and overwrite the cluster's state", c.BindAddress())
		}
		say("cluster port %s: whoever reaches it can register workers and run applications (spark.authenticate is not supported)", c.BindAddress())
	}
	if c.RESTEnabled && !isLoopback(c.RESTHost) && c.RESTTLS.CA == "" {
		say("REST port %s: whoever reaches it can run programs on the workers; spark.master.rest.enabled=false closes it, --rest-tls-client-ca asks for certificates",
			Address{Host: c.RESTHost, Port: c.RESTPort})
	}
	if web := (Address{Host: c.WebUIHost, Port: c.WebUIPort}); !isLoopback(c.WebUIHost) {
		if !readsNeedToken && c.WebTLS.CA == "" {
			say("web UI %s: whoever reaches it can read everything there, this master's log included; a token of the role read in --token-file, or --web-tls-client-ca, closes it", web)
		}
		if c.AdminTokenFile != "" && !c.WebTLS.On() {
			say("web UI %s: tokens cross the network in the clear (no --web-tls-cert)", web)
		}
	}
	return out
}
