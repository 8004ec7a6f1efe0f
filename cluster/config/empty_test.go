package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A flag that is given empty is refused by name: an unset shell variable must not start a cluster of one.
func TestEmptyFlags(t *testing.T) {
	for name, set := range map[string]func(*Flags, *string){
		"cluster":         func(f *Flags, v *string) { f.Cluster = v },
		"host":            func(f *Flags, v *string) { f.Host = v },
		"advertise-host":  func(f *Flags, v *string) { f.AdvertiseHost = v },
		"properties-file": func(f *Flags, v *string) { f.PropertiesFile = v },
		"data-dir":        func(f *Flags, v *string) { f.DataDir = v },
		"log-level":       func(f *Flags, v *string) { f.LogLevel = v },
		"token-file":      func(f *Flags, v *string) { f.AdminTokenFile = v },
	} {
		for _, value := range []string{"", "  "} {
			host, dir := "box", t.TempDir()
			f := Flags{Host: &host, DataDir: &dir}
			set(&f, &value)
			_, err := Load(Source{Flags: f, LookupEnv: func(string) (string, bool) { return "", false }})
			var empty *EmptyFlagError
			if !errors.As(err, &empty) || empty.Flag != name || !strings.Contains(err.Error(), "--"+name+" is given and empty") {
				t.Errorf("--%s %q: %v", name, value, err)
			}
		}
	}
}

// What is wrong with a list is said of the entry that is wrong.
func TestListErrorsNameTheEntry(t *testing.T) {
	for list, want := range map[string]string{
		"spark://a:1,b:2,c":     `entry "c" (number 3): must be host:port`,
		"spark://a:1,,c:3":      `entry "" (number 2): must be host:port`,
		"spark://a:1,b:99999":   `entry "b:99999" (number 2): the port`,
		"http://a:8080":         `entry "http://a:8080" (number 1): must be host:port, after spark:// and not http://`,
		"spark://a:1,b@x:2,c:3": `entry "b@x:2" (number 2): its host`,
	} {
		if _, err := ParseCluster(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", list, err, want)
		}
	}
	load := func(list, host string, port int) error {
		dir := t.TempDir()
		_, err := Load(Source{Flags: Flags{Cluster: &list, Host: &host, Port: &port, DataDir: &dir}, LookupEnv: func(string) (string, bool) { return "", false }})
		return err
	}
	if err := load("a:7178,b:7077,c:7077", "a", 7077); err == nil || !strings.Contains(err.Error(), "is a:7178 meant?") {
		t.Errorf("%v", err)
	}
	if err := load("a:7077,0.0.0.0:7077", "a", 7077); err == nil || !strings.Contains(err.Error(), "0.0.0.0:7077 in cluster list") || strings.Contains(err.Error(), "--advertise-host") {
		t.Errorf("%v", err)
	}
}

func TestCheckTokenFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		"": "", write("good", "secret\n"): "", write("empty", ""): "empty first line", write("blank", " \r\nsecret\n"): "empty first line",
		filepath.Join(dir, "none"): "cannot be read", dir: "cannot be read",
		"/dev/zero":                                   "/dev/zero has control characters",
		write("control", "sec\x01ret\n"):              "control has control characters",
		write("dos", "secret\r\nmore\x00\n"):          "",
		write("long", strings.Repeat("x", 4097)+"\n"): "long has a first line of more than 4096 bytes",
		write("longest", strings.Repeat("x", 4096)):   "",
	} {
		err := Config{AdminTokenFile: path}.CheckTokenFile()
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

func TestReadTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(" secret \r\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := ReadTokenFile(path); err != nil || token != "secret" {
		t.Errorf("%q, %v", token, err)
	}
}
