package config

import (
	"os"
	"strings"
	"testing"
)

// part gives the text below one heading inside the worker's section.
func part(t *testing.T, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(section(t, readDoc(t), "raftmaster worker"), "\n### "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no part %q", docFile, heading)
	}
	text, _, _ := strings.Cut(rest, "\n### ")
	return text
}

// TestEverySettingOfSparksWorkerIsDocumented: whatever Spark's own worker reads is honoured here or named with the reason
// why not.
func TestEverySettingOfSparksWorkerIsDocumented(t *testing.T) {
	text, err := os.ReadFile("testdata/spark_worker_settings.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, count := named(section(t, readDoc(t), "raftmaster worker")), 0
	for _, name := range strings.Fields(strings.SplitN(string(text), "\n", 2)[1]) {
		count++
		if !all[name] && !strings.HasSuffix(name, ".acls.groups") {
			t.Errorf("%s is not documented for a worker", name)
		}
	}
	if count < 90 {
		t.Errorf("only %d settings", count)
	}
}

// TestDocumentedWorkerSettingsExist: the document and the loader know the same keys, and say the same about each.
func TestDocumentedWorkerSettingsExist(t *testing.T) {
	all, read := named(section(t, readDoc(t), "raftmaster worker")), map[string]bool{}
	for _, s := range (&workerLoader{}).workerSettings() {
		read[s.key] = true
	}
	for key := range workerElsewhere {
		read[key] = true
	}
	for key := range read {
		if !all[key] {
			t.Errorf("%s is read and not documented", key)
		}
	}
	for key := range named(firstColumn(part(t, "Properties that a worker honours"))) {
		if !read[key] && !strings.HasPrefix(key, resourcePrefix) {
			t.Errorf("%s is documented as honoured and not read", key)
		}
	}
	warned := named(firstColumn(part(t, "Without effect on a worker, with a warning")))
	for key := range workerNoEffect {
		if !warned[key] {
			t.Errorf("%s is warned of and not documented so", key)
		}
	}
	for key := range warned {
		if workerNoEffect[key] == "" && !strings.HasSuffix(key, ".*") && !strings.HasPrefix(key, "SPARK_WORKER_") {
			t.Errorf("%s is documented as warned of and is not", key)
		}
	}
}

// TestSilentKeysOfAWorker: none of them makes a line in the log, and each that refuses does.
func TestSilentKeysOfAWorker(t *testing.T) {
	file := "spark.deploy.spreadOut true\nspark.master.ui.title x\n"
	silent := named(firstColumn(part(t, "Passed over by a worker")))
	for key := range silent {
		file += key + " 1\n"
	}
	if _, warnings := (workerWorld{files: map[string]string{"/f": file}, flags: WorkerFlags{PropertiesFile: ptr("/f")}}).mustLoad(t); len(warnings) > 0 || len(silent) < 20 {
		t.Errorf("%d keys, warnings: %q", len(silent), warnings)
	}
	for key := range named(firstColumn(part(t, "Keys that refuse the start of a worker"))) {
		w := workerWorld{files: map[string]string{"/f": key + " true"}, flags: WorkerFlags{PropertiesFile: ptr("/f")}}
		if strings.HasPrefix(key, "_") {
			w.env = map[string]string{key: "x"}
		}
		if _, _, err := w.load(); err == nil && !strings.HasSuffix(key, "*enabled") {
			t.Errorf("%s refuses nothing", key)
		}
	}
}

// TestPropertiesOfTheInstallation: SPARK_HOME need not be set when the installation was found another way.
func TestPropertiesOfTheInstallation(t *testing.T) {
	w, _ := workerWorld{files: map[string]string{"/spark/conf/spark-defaults.conf": "spark.worker.timeout 33"}}.mustLoad(t)
	if w.Timeout.Seconds() != 33 {
		t.Error(w.Timeout)
	}
}
