package webui

import (
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	_ "embed"

	"raftmaster/transport/internal/uibase"
)

//go:embed assets/environment.html
var environmentHTML string

// EnvironmentSection is one table of /environment/.
type EnvironmentSection struct {
	Title string
	Rows  []EnvironmentRow
}

// EnvironmentRow is one name and value; secrets are redacted before they get here.
type EnvironmentRow struct{ Name, Value string }

// environmentPage is /environment/: what makes sense of Spark 4's page for a process without a JVM.
type environmentPage struct {
	Title, Nonce, Root string
	S                  Status
	Sections           []EnvironmentSection
}

func (h *Handler) serveEnvironment(w http.ResponseWriter, r *http.Request) {
	st := h.opts.State.Brief()
	p := environmentPage{Title: "Environment of " + st.URL, Nonce: uibase.NonceOf(r.Context()), Root: h.root,
		S: st, Sections: []EnvironmentSection{runtimeSection(st)}}
	if h.opts.Environment != nil {
		p.Sections = append(p.Sections, h.opts.Environment()...)
	}
	h.writePage(w, r, http.StatusOK, environmentTemplate, p)
}

// runtimeSection stands for Spark's "Runtime Information".
func runtimeSection(st Status) EnvironmentSection {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown: " + err.Error()
	}
	rows := []EnvironmentRow{
		{"raftmaster version", st.Version}, {"Go version", runtime.Version()}, {"Operating system", runtime.GOOS + "/" + runtime.GOARCH},
		{"Host", host}, {"Process id", strconv.Itoa(os.Getpid())}, {"CPUs (GOMAXPROCS)", strconv.Itoa(runtime.GOMAXPROCS(0))},
		{"Node id", st.NodeID}, {"Boot id", st.BootID}, {"Cluster id", st.ClusterID}, {"Cluster list", st.ClusterURL},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				rows = append(rows, EnvironmentRow{"Revision", s.Value})
			}
		}
	}
	return EnvironmentSection{Title: "Runtime information", Rows: rows}
}

// Redacted replaces a secret.
const Redacted = "*********(redacted)"

// VisibleVariables gives the variables ("NAME=value") whose names start with one of the prefixes
// (spark.master.ui.visibleEnvVarPrefixes); without prefixes none.
func VisibleVariables(environ, prefixes []string) []EnvironmentRow {
	var out []EnvironmentRow
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		for _, p := range prefixes {
			if p != "" && strings.HasPrefix(name, p) {
				out = append(out, EnvironmentRow{name, value})
				break
			}
		}
	}
	return out
}
