package config

import (
	"fmt"
	"sort"
	"strings"
)

// SecurityError refuses a start: a security setting asks for something that this release does not do. Going on without
// it would leave a cluster open that its operator believes closed.
type SecurityError struct {
	// Key is the property or environment variable; its value is not kept, it may be a secret.
	Key string
}

func (e *SecurityError) Error() string {
	instead := ""
	if strings.HasPrefix(e.Key, "spark.ssl.standalone.") {
		instead = "; a master's pages are served over HTTPS with --web-tls-cert and --web-tls-key"
	}
	return fmt.Sprintf("%s is set, and this release does not support it: refusing to start rather than to ignore it; "+
		"remove the setting to run without%s", e.Key, instead)
}

// enabledByTrue are switches: only "true" enables them.
var enabledByTrue = map[string]bool{
	"spark.authenticate":                      true,
	"spark.authenticate.enableSaslEncryption": true,
	"spark.network.crypto.enabled":            true,
	"spark.network.sasl.serverAlwaysEncrypt":  true,
	"spark.acls.enable":                       true,
	"spark.ui.acls.enable":                    true, // the old name of spark.acls.enable
}

// enabledByValue are settings that mean something as soon as they are not empty.
var enabledByValue = map[string]bool{
	"spark.authenticate.secret":             true,
	"spark.authenticate.secret.file":        true,
	"spark.authenticate.secret.driver.file": true,
	"spark.ui.filters":                      true,
	"spark.master.rest.filters":             true,
}

// notAMasters are TLS namespaces of other programs that share a properties file with the master.
var notAMasters = map[string]bool{
	"spark.ssl.historyServer.enabled": true,
	"spark.ssl.ui.enabled":            true, // the pages of applications
}

// refuseSecurity looks for settings that would have to close the cluster.
func (l *loader) refuseSecurity() error { return l.refuseSecurityBut(nil) }

// refuseSecurityBut leaves out settings of other programs that share the properties file.
func (l *loader) refuseSecurityBut(others map[string]bool) error {
	if _, ok := l.env.get(envAuthSecret); ok {
		return &SecurityError{Key: envAuthSecret}
	}
	names := l.propertyNames()
	sort.Strings(names)
	for _, key := range names {
		v, _ := l.property(key)
		switch {
		case others[key]:
		case enabledByTrue[key], isTLSSwitch(key):
			on, err := parseBool(key, v)
			if err != nil {
				return err
			}
			if on {
				return &SecurityError{Key: key}
			}
		case enabledByValue[key] && v != "":
			return &SecurityError{Key: key}
		}
	}
	return nil
}

func isTLSSwitch(key string) bool {
	return strings.HasPrefix(key, "spark.ssl.") && strings.HasSuffix(key, "enabled") && !notAMasters[key]
}
