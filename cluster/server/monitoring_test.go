package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"raftmaster/cluster/config"
	"raftmaster/transport/certtest"
	"raftmaster/transport/sparkmsg"
)

// alertRule is one rule of docs/monitoring/alerts.yml.
type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readAlerts(t *testing.T) []alertRule {
	t.Helper()
	data, err := os.ReadFile("../../docs/monitoring/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string      `yaml:"name"`
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 10 {
		t.Fatalf("%d groups", len(file.Groups))
	}
	return file.Groups[0].Rules
}

// dashboardQueries are the expressions of docs/monitoring/grafana-dashboard.json, by where they are.
func dashboardQueries(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../docs/monitoring/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			Type    string `json:"type"`
			Targets []struct {
				Expr   string `json:"expr"`
				Legend string `json:"legendFormat"`
			} `json:"targets"`
		} `json:"panels"`
		Annotations struct {
			List []struct{ Name, Expr string } `json:"list"`
		} `json:"annotations"`
		Templating struct {
			List []struct {
				Name  string          `json:"name"`
				Query json.RawMessage `json:"query"`
			} `json:"list"`
		} `json:"templating"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	out, ids := map[string]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q: no number, title or query of its own", p.ID, p.Title)
		}
		ids[p.ID] = true
		for i, q := range p.Targets {
			out[fmt.Sprintf("panel %q, query %d", p.Title, i+1)] = q.Expr
			for _, m := range legendLabel.FindAllStringSubmatch(q.Legend, -1) {
				if !strings.Contains(q.Expr, "by (") {
					continue
				}
				if by := q.Expr[strings.Index(q.Expr, "by ("):]; !strings.Contains(by[:strings.Index(by, ")")], m[1]) {
					t.Errorf("panel %q names %s in its legend, which the query sums away", p.Title, m[1])
				}
			}
		}
	}
	for _, a := range d.Annotations.List {
		out["annotation "+a.Name] = a.Expr
	}
	for _, v := range d.Templating.List {
		if m := labelValues.FindStringSubmatch(string(v.Query)); m != nil {
			out["variable "+v.Name] = m[1]
		}
	}
	return out
}

var (
	legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)
	labelValues = regexp.MustCompile(`label_values\((\w+), \w+\)`)
	sample      = regexp.MustCompile(`(?m)^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$`)
	labelName   = regexp.MustCompile(`(\w+)="`)
	selector    = regexp.MustCompile(`([a-zA-Z_:][\w:]*)(\{[^}]*\})?`)
	matcher     = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping    = regexp.MustCompile(`\b(by|without|on|ignoring)\s*\(([^)]*)\)`)
	quoted      = regexp.MustCompile(`"[^"]*"`)
	window      = regexp.MustCompile(`\[[^\]]*\]`)
	exponent    = regexp.MustCompile(`\b\d+(\.\d+)?(e\d+)?\b`)
)

// promqlWords are the functions and operators that the queries use.
var promqlWords = map[string]bool{"sum": true, "max": true, "min": true, "rate": true, "increase": true, "changes": true, "histogram_quantile": true, "and": true, "or": true, "vector": true}

// scrapeLabels are those that Prometheus adds.
var scrapeLabels = map[string]bool{"job": true, "instance": true}

// checkQuery looks whether an expression is made of served metrics and of labels that they have. It is no parser of
// PromQL: it knows the words and the shape that the queries here have.
func checkQuery(expr string, served map[string]map[string]bool) error {
	var errs []error
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") || strings.Count(expr, "[") != strings.Count(expr, "]") {
		errs = append(errs, errors.New("the brackets do not match"))
	}
	labels := map[string]bool{}
	metrics := 0
	rest := window.ReplaceAllString(grouping.ReplaceAllString(expr, ""), "")
	rest = exponent.ReplaceAllString(rest, "")
	for _, m := range selector.FindAllStringSubmatch(quotedInside(rest), -1) {
		name := m[1]
		if promqlWords[name] {
			continue
		}
		metrics++
		has, ok := served[name]
		if !ok && name != "up" {
			errs = append(errs, fmt.Errorf("no master serves %s", name))
			continue
		}
		maps.Copy(labels, has)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !has[l[1]] && !scrapeLabels[l[1]] {
				errs = append(errs, fmt.Errorf("%s has no label %s", name, l[1]))
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, l := range strings.Split(g[2], ",") {
			if l = strings.TrimSpace(l); !labels[l] && !scrapeLabels[l] {
				errs = append(errs, fmt.Errorf("it is grouped by %s, which none of its metrics has", l))
			}
		}
	}
	if metrics == 0 {
		errs = append(errs, errors.New("it has no metric"))
	}
	return errors.Join(errs...)
}

// quotedInside empties the texts, so that no word in them is taken for a metric.
func quotedInside(s string) string { return quoted.ReplaceAllString(s, `""`) }

// servedSeries are the names of all series with their labels.
func servedSeries(c *cluster) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, m := range c.masters {
		_, body := m.get("/metrics")
		for _, s := range sample.FindAllStringSubmatch(body, -1) {
			if out[s[1]] == nil {
				out[s[1]] = map[string]bool{}
			}
			for _, l := range labelName.FindAllStringSubmatch(s[2], -1) {
				out[s[1]][l[1]] = true
			}
		}
	}
	return out
}

// TestAlertsUseServedMetrics: every metric and label of the alerts and of the dashboard is one that masters serve.
func TestAlertsUseServedMetrics(t *testing.T) {
	// Not in parallel: the metrics of raft go to the registry of the master of this process that was started last.
	queries := dashboardQueries(t)
	for _, r := range readAlerts(t) {
		queries["alert "+r.Alert] = r.Expr
	}
	secure := withClusterTLS(t, certtest.New(t, "ca"))
	c := start(t, 3, func(cfg *config.Config) { withREST(cfg); secure(cfg); cfg.Snapshots.Dir = t.TempDir() })
	c.readyWorker(sparkmsg.FamilyE, 1)
	c.leader().rest(t, http.MethodGet, "readyz", "") // answers are counted by call
	eventuallyNil(t, "every metric that is asked for is served", func() error {
		served := servedSeries(c)
		for _, where := range slices.Sorted(maps.Keys(queries)) {
			if err := checkQuery(queries[where], served); err != nil {
				return fmt.Errorf("%s: %s: %w", where, queries[where], err)
			}
		}
		return nil
	})
}

// What checkQuery is there for.
func TestCheckQuery(t *testing.T) {
	served := map[string]map[string]bool{"a": {"x": true, "le": true}, "b": {}}
	for _, good := range []string{"a > 1e9", `max by (job, x) (rate(a{x=~"b|c", job="j"}[5m])) < 0.5 and b > 2`, `up{job=~".*"} == 0`, "histogram_quantile(0.99, sum by (le) (rate(a[$__rate_interval])))"} {
		if err := checkQuery(good, served); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"c > 1", `a{y="1"}`, "sum by (y) (a)", "sum(a", "avg(a)", "1 > 0", `sum by (x) (b)`} {
		if checkQuery(bad, served) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// section is the part of a document below a heading, to the next heading of the same or a higher level.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("OPERATIONS.md has no %q", heading)
	}
	level := len(heading) - len(strings.TrimLeft(heading, "#"))
	if end := regexp.MustCompile(fmt.Sprintf(`(?m)^#{1,%d} `, level)).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

// TestAlertsAreDocumented: every alert says what to do, and has a row in the runbook; no row has no alert.
func TestAlertsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Raftmaster\\w+)` \\|").FindAllStringSubmatch(section(t, string(text), "### Alerts and what to do"), -1) {
		rows[m[1]] = true
	}
	names := map[string]bool{}
	for _, r := range readAlerts(t) {
		if names[r.Alert] || !rows[r.Alert] {
			t.Errorf("%s is there twice, or has no row in OPERATIONS.md", r.Alert)
		}
		names[r.Alert] = true
		for _, a := range []string{"summary", "description", "action", "runbook"} {
			if r.Annotations[a] == "" {
				t.Errorf("%s has no %s", r.Alert, a)
			}
		}
		if _, err := time.ParseDuration(r.For); err != nil && r.For != "" {
			t.Errorf("%s: %v", r.Alert, err)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		_, heading, _ := strings.Cut(r.Annotations["runbook"], ": ")
		heading, _, _ = strings.Cut(heading, ",")
		section(t, string(text), "### "+heading)
	}
	for row := range rows {
		if !names[row] {
			t.Errorf("OPERATIONS.md has a row for %s, which is no alert", row)
		}
	}
}

// alarmTexts gives the beginning of each alarm's text, as the runbook has it, by where the code raises it: the topic
// of cluster/node, or the function elsewhere.
var alarmTexts = map[string]string{
	`"snapshot"`:                  "the log cannot be compacted",
	`"blocked"`:                   "voters cannot write",
	`"stalled"`:                   "entries are not committed",
	`alarmTwin + addr`:            "two masters have the node id",
	`"digest"`:                    "states differ at entry",
	`alarmFresh+theirs.Address`:   "has no data and is no member of cluster",
	`"fresh"`:                     "no data here",
	`alarmForeign+theirs.Address`: "belongs to cluster",
	`alarmLists+theirs.Address`:   "the cluster lists differ",
	`"halted"`:                    "raft cannot be started again",
	`"storage"`:                   "the raft log cannot be written",
}

// otherAlarms are those that are not raised through a topic, with the file that makes their text.
var otherAlarms = map[string]string{
	"the disk is slow": "node/disk.go", "the log cannot be read": "node/status.go", "the data directory cannot be read": "node/status.go",
	"the file system cannot be asked for its free space": "node/status.go", "MiB are free for": "node/status.go",
	"no snapshot was saved": "backup/schedule.go", "has expired": "security/guard.go", "ends in": "security/guard.go",
	"cannot be replaced, the old goes on": "security/live.go",
}

// TestAlarmsAreDocumented: every alarm in the code has a row in the runbook.
func TestAlarmsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	table := section(t, string(text), "### Alarms and what to do")
	raised := regexp.MustCompile(`\balarms\.(?:set|put)\(([^,]+),`)
	files, err := filepath.Glob("../node/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	topics, appended := map[string]bool{}, 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range raised.FindAllStringSubmatch(string(data), -1) {
			topic := strings.ReplaceAll(m[1], " ", "")
			topics[topic] = true
		}
		appended += strings.Count(string(data), "st.Alarms = append(")
	}
	known := map[string]bool{}
	for topic, begins := range alarmTexts {
		topic = strings.ReplaceAll(topic, " ", "")
		known[topic] = true
		if !topics[topic] {
			t.Errorf("nobody raises %s any more", topic)
		}
		if !strings.Contains(table, begins) {
			t.Errorf("the runbook has no row for %q", begins)
		}
	}
	for topic := range topics {
		if !known[topic] {
			t.Errorf("the alarm %s is new: give it a row in OPERATIONS.md, and a line in this test", topic)
		}
	}
	inStatus := 0
	for begins, file := range otherAlarms {
		data, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), begins) || !strings.Contains(table, begins) {
			t.Errorf("%q is not in %s, or has no row in the runbook", begins, file)
		}
		if file == "node/status.go" {
			inStatus++
		}
	}
	if appended != inStatus {
		t.Errorf("cluster/node has %d alarms that are no topics, and this test knows %d", appended, inStatus)
	}
}
