package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const docFile = "../../docs/CONFIGURATION.md"

// section gives the text below one heading of the document.
func section(t *testing.T, doc, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", docFile, heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

var documentedName = regexp.MustCompile("`(_?SPARK_[A-Z_]+|HADOOP_[A-Z_]+|spark\\.[^` ]+)`")

// named gives the settings that a text names between back quotes.
func named(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range documentedName.FindAllStringSubmatch(text, -1) {
		out[m[1]] = true
	}
	return out
}

// firstColumn is what the tables of a text are about.
func firstColumn(text string) string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		if cells := strings.SplitN(line, "|", 3); len(cells) == 3 && cells[0] == "" {
			out = append(out, cells[1])
		}
	}
	return strings.Join(out, "\n")
}

// TestEverySettingOfSparkIsDocumented: whatever Spark's own master, and what shares its configuration, reads is either
// honoured here or named with the reason why not.
func TestEverySettingOfSparkIsDocumented(t *testing.T) {
	doc, list := readDoc(t), "testdata/spark_settings.txt"
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	all, count := named(doc), 0
	for _, line := range strings.Split(string(text), "\n") {
		name, _, _ := strings.Cut(line, " ")
		if name == "" || name == "#" {
			continue
		}
		count++
		if !all[name] && !coveredByPattern(name) {
			t.Errorf("%s of %s is not in %s", name, list, docFile)
		}
	}
	if count < 120 {
		t.Errorf("only %d settings in %s", count, list)
	}
}

// coveredByPattern: the document says "every spark.ssl.*enabled".
func coveredByPattern(name string) bool { return strings.HasPrefix(name, "spark.ssl.") }

func readDoc(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// TestDocumentedSettingsExist: the document and the loader know the same keys, and say the same about each.
func TestDocumentedSettingsExist(t *testing.T) {
	doc := readDoc(t)
	read := map[string]bool{}
	for _, s := range settings {
		read[s.key] = true
	}
	for key := range elsewhere {
		read[key] = true
	}
	all := named(doc)
	for key := range read {
		if !all[key] {
			t.Errorf("%s is read and not documented", key)
		}
	}
	for key := range named(firstColumn(section(t, doc, "Properties of Spark that are honoured"))) {
		if !read[key] {
			t.Errorf("%s is documented as honoured and not read", key)
		}
	}
	warned := named(firstColumn(section(t, doc, "Without effect, with a warning")))
	for key := range noEffect {
		if !warned[key] {
			t.Errorf("%s is warned of and not documented so", key)
		}
	}
	for key := range warned {
		if noEffect[key] == "" && !strings.HasSuffix(key, ".*") && key != "SPARK_MASTER_OPTS" {
			t.Errorf("%s is documented as warned of and is not", key)
		}
	}
	for key := range named(firstColumn(section(t, doc, "Passed over silently"))) {
		if read[key] || noEffect[key] != "" {
			t.Errorf("%s is documented as passed over and is not", key)
		}
	}
	refused := named(firstColumn(section(t, doc, "Keys that refuse the start")))
	for key := range enabledByTrue {
		if !refused[key] {
			t.Errorf("%s refuses the start and is not documented so", key)
		}
	}
	for key := range enabledByValue {
		if !all[key] {
			t.Errorf("%s refuses the start and is not documented", key)
		}
	}
}

// TestSilentKeysAreSilent: none of them makes a line in the log.
func TestSilentKeysAreSilent(t *testing.T) {
	var file []string
	for key := range named(firstColumn(section(t, readDoc(t), "Passed over silently"))) {
		file = append(file, key+" 1")
	}
	c := world{flags: Flags{PropertiesFile: ptr("/f")}, files: map[string]string{"/f": strings.Join(file, "\n")}}.mustLoad(t)
	if len(file) < 30 || len(c.Warnings) > 0 {
		t.Errorf("%d keys, warnings: %q", len(file), c.Warnings)
	}
}
