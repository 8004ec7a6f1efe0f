package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func loadSecure(t *testing.T, env map[string]string, flags map[string]string) (Config, error) {
	t.Helper()
	host, dir := "box", t.TempDir()
	return Load(Source{Flags: Flags{Host: &host, DataDir: &dir, Security: flags},
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
}

func TestSecuritySettingsComeFromFlagsVariablesAndProperties(t *testing.T) {
	env := map[string]string{"RAFTMASTER_CLUSTER_TLS_KEY": "/key", "RAFTMASTER_WEB_TLS_CLIENT_CA": "/webca",
		"SPARK_MASTER_OPTS": "-Dspark.raftmaster.cluster.tls.ca=/ca -Dspark.raftmaster.cluster.tls.mode=optional -Dspark.raftmaster.web.tls.key=/webkey -Dspark.raftmaster.rest.tls.clientCa=/restca"}
	c, err := loadSecure(t, env, map[string]string{"cluster-tls-cert": "/cert", "cluster-tls-name": "masters", "web-tls-cert": "/webcert", "rest-tls-cert": "/r", "rest-tls-key": "/s"})
	if err != nil {
		t.Fatal(err)
	}
	if want := (ClusterTLS{TLSFiles: TLSFiles{"/cert", "/key", "/ca"}, Name: "masters", Optional: true}); c.ClusterTLS != want {
		t.Errorf("%+v", c.ClusterTLS)
	}
	if c.WebTLS != (TLSFiles{"/webcert", "/webkey", "/webca"}) || c.RESTTLS != (TLSFiles{"/r", "/s", "/restca"}) {
		t.Errorf("%+v %+v", c.WebTLS, c.RESTTLS)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("%q", c.Warnings)
	}
}

func TestHalvesOfTLSAreRefused(t *testing.T) {
	for _, tc := range []struct {
		flags map[string]string
		want  string
	}{
		{map[string]string{"web-tls-cert": "/c"}, "--web-tls-key"},
		{map[string]string{"rest-tls-key": "/c"}, "--rest-tls-cert"},
		{map[string]string{"web-tls-client-ca": "/c"}, "--web-tls-cert"},
		{map[string]string{"cluster-tls-cert": "/c", "cluster-tls-key": "/k"}, "--cluster-tls-ca"},
		{map[string]string{"cluster-tls-ca": "/c"}, "--cluster-tls-cert"},
		{map[string]string{"cluster-tls-name": "x"}, "without --cluster-tls-cert"},
		{map[string]string{"cluster-tls-mode": "optional"}, "without --cluster-tls-cert"},
		{map[string]string{"cluster-tls-mode": "off"}, "required or optional"},
	} {
		if _, err := loadSecure(t, nil, tc.flags); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v", tc.flags, err)
		}
	}
	var empty *EmptyFlagError
	if _, err := loadSecure(t, nil, map[string]string{"web-tls-cert": " "}); !errors.As(err, &empty) {
		t.Errorf("%v", err)
	}
	if _, err := loadSecure(t, map[string]string{"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"}, map[string]string{"rest-tls-cert": "/c", "rest-tls-key": "/k"}); err == nil {
		t.Error("certificates for a gateway that is off")
	}
	if _, err := loadSecure(t, map[string]string{"SPARK_MASTER_OPTS": "-Dspark.ssl.standalone.enabled=true"}, nil); err == nil || !strings.Contains(err.Error(), "--web-tls-cert") {
		t.Errorf("%v", err)
	}
}

func TestWhatStandsOpenIsSaid(t *testing.T) {
	base := Default()
	base.Host, base.RESTHost = "10.0.0.1", "10.0.0.1"
	for name, tc := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"defaults": {func(*Config) {}, []string{"depose and overwrite", "register workers", "REST port", "can read everything"}},
		"loopback": {func(c *Config) { c.Host, c.RESTHost, c.WebUIHost = "127.0.0.1", "localhost", "::1" }, nil},
		"all closed": {func(c *Config) {
			c.ClusterTLS.Cert, c.WebTLS, c.RESTTLS, c.AdminTokenFile = "c", TLSFiles{"c", "k", "a"}, TLSFiles{"c", "k", "a"}, "t"
		}, []string{"register workers"}},
		"optional":    {func(c *Config) { c.ClusterTLS.Cert, c.ClusterTLS.Optional = "c", true; c.RESTEnabled = false }, []string{"optional", "register workers", "can read everything"}},
		"bare tokens": {func(c *Config) { c.AdminTokenFile, c.RESTEnabled = "t", false }, []string{"depose", "register workers", "in the clear"}},
	} {
		c := base
		tc.change(&c)
		var missing []string
		got := c.Open(c.AdminTokenFile != "")
		for i, want := range tc.want {
			if i >= len(got) || !strings.Contains(got[i], want) {
				missing = append(missing, want)
			}
		}
		if len(missing) > 0 || len(got) != len(tc.want) {
			t.Errorf("%s: lacks %q in %q", name, missing, got)
		}
	}
}

// TestSecuritySettingsAreDocumented: each has a row with all its names.
func TestSecuritySettingsAreDocumented(t *testing.T) {
	doc := section(t, readDoc(t), "Security")
	for _, s := range SecuritySettings {
		if row := "| `--" + s.Flag + "` | `" + s.Env + "` | `" + s.Property + "` |"; !strings.Contains(doc, row) {
			t.Errorf("no row %s", row)
		}
	}
	if want := "spark.raftmaster.web.tls.clientCa"; !reflect.DeepEqual(SecuritySettings[7].Property, want) {
		t.Errorf("%s, want %s", SecuritySettings[7].Property, want)
	}
}
