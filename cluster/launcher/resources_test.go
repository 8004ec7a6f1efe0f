package launcher_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"raftmaster/cluster/launcher"
	"raftmaster/transport/sparkmsg"
)

func scriptFile(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "discover.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestResourceDiscovery(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "resources.json")
	text := `[{"id":{"componentName":"spark.worker","resourceName":"gpu"},"addresses":["0","1"]},
		{"id":{"componentName":"spark.driver","resourceName":"gpu"},"addresses":["9"]},
		{"id":{"componentName":"spark.worker","resourceName":"extra"},"addresses":["e"]}]`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	script := scriptFile(t, `echo noise >&2; echo '{"name":"fpga","addresses":["a","b","a","'"$WHERE"'","'"$(pwd)"'"]}'`)
	got, err := launcher.Resources(context.Background(), launcher.ResourceRequest{File: file, Env: []string{"WHERE=here", "PATH=/usr/bin:/bin"}, Dir: dir,
		Wanted: []launcher.WantedResource{{Name: "gpu", Amount: 2, Script: "/never/run"}, {Name: "fpga", Amount: 1, Script: script}, {Name: "none", Amount: 0}}})
	want := []sparkmsg.ResourceInformation{{Name: "extra", Addresses: []string{"e"}}, {Name: "fpga", Addresses: []string{"a", "b", "here", dir}},
		{Name: "gpu", Addresses: []string{"0", "1"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got, err := launcher.Resources(context.Background(), launcher.ResourceRequest{}); err != nil || len(got) != 0 {
		t.Errorf("nothing asked for: %v %v", got, err)
	}
}

// TestResourceErrors names the key and the script.
func TestResourceErrors(t *testing.T) {
	wanted := func(script string) launcher.ResourceRequest {
		return launcher.ResourceRequest{Env: []string{"PATH=/usr/bin:/bin"}, Timeout: 20 * time.Second, Wanted: []launcher.WantedResource{{Name: "gpu", Amount: 2, Script: script}}}
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const key = "spark.worker.resource.gpu.discoveryScript: "
	for body, want := range map[string]string{
		`echo '{"name":"gpu","addresses":["0"]}'`:      "spark.worker.resource.gpu.amount is 2, and SCRIPT names only 1 different",
		`echo '{"name":"gpu","addresses":["0","0"]}'`:  "names only 1 different",
		`echo '{"name":"fpga","addresses":["0","1"]}'`: key + `SCRIPT found the resource "fpga", and "gpu" is asked for`,
		`echo '{"name":"gpu"'`:                         key + "SCRIPT printed",
		`echo hello`:                                   `printed "hello\n", not`,
		`echo no driver >&2; exit 4`:                   key + "SCRIPT: exit status 4; it said: no driver",
		`kill -9 $$`:                                   "signal: killed",
		`yes`:                                          "it printed too much (more than 1048576 bytes)",
		`printf '{"name":"gpu","addresses":["x"'; seq -f ',"%.0f"' 20000; echo ]}`: "has more than 10000 addresses",
	} {
		script := scriptFile(t, body)
		_, err := launcher.Resources(context.Background(), wanted(script))
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "SCRIPT", script)) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
	slow := wanted(scriptFile(t, "sleep 600 & wait"))
	slow.Timeout = 50 * time.Millisecond
	if _, err := launcher.Resources(context.Background(), slow); err == nil || !strings.Contains(err.Error(), "did not end in time (50ms)") {
		t.Error(err)
	}
	for script, want := range map[string]string{"": "not set, and the resource is not in spark.worker.resourcesFile", "/no/script": "no such file", plain: "cannot be run"} {
		if _, err := launcher.Resources(context.Background(), wanted(script)); err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
	for text, want := range map[string]string{
		"{}": "is not [", "[": "is not [", `[{"id":{"componentName":"spark.worker"},"addresses":[]}]`: "entry 1 has no resourceName",
		`[{"id":{"componentName":"spark.worker","resourceName":"a"}},{"id":{"componentName":"spark.worker","resourceName":"a"}}]`: `names the resource "a" twice`,
		`[{"id":{"componentName":"spark.worker","resourceName":"gpu"},"addresses":["0"]}]`:                                        "spark.worker.resource.gpu.amount is 2, and " + plain,
	} {
		if err := os.WriteFile(plain, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r := wanted("/no/script")
		r.File = plain
		if _, err := launcher.Resources(context.Background(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := launcher.Resources(context.Background(), launcher.ResourceRequest{File: "/no/file"}); err == nil || !strings.Contains(err.Error(), "spark.worker.resourcesFile: open /no/file") {
		t.Error(err)
	}
}

func TestWriteResourcesFile(t *testing.T) {
	dir := t.TempDir()
	resources := []sparkmsg.ResourceInformation{{Name: "gpu", Addresses: []string{"0", `"1`}}, {Name: "fpga"}}
	path, err := launcher.WriteResourcesFile(dir, launcher.ComponentExecutor, resources)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	const want = `[{"id":{"componentName":"spark.executor","resourceName":"fpga"},"addresses":[]},` +
		`{"id":{"componentName":"spark.executor","resourceName":"gpu"},"addresses":["0","\"1"]}]`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	if ok, err := filepath.Match(filepath.Join(dir, "resource-executor-*.json"), path); !ok || err != nil {
		t.Error(path)
	}
	if path, err = launcher.WriteResourcesFile(dir, launcher.ComponentDriver, resources); err != nil || !strings.HasPrefix(path, dir+"/resource-driver-") {
		t.Errorf("%s %v", path, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v %v", entries, err)
	}
	if path, err := launcher.WriteResourcesFile("/no/dir", launcher.ComponentDriver, nil); path != "" || err != nil {
		t.Errorf("no resources: %q %v", path, err)
	}
	if _, err := launcher.WriteResourcesFile("/no/dir", launcher.ComponentDriver, resources); err == nil || !strings.Contains(err.Error(), "resources of the driver") {
		t.Error(err)
	}
	if _, err := launcher.WriteResourcesFile(dir, "spark.worker", resources); err == nil {
		t.Error("a file for workers")
	}
}
