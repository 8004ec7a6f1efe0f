package server

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"raftmaster/transport/webui"
)

// environment gives what the environment page shows of the configuration. It is made once: neither changes while the
// process runs.
func (s *Server) environment() func() []webui.EnvironmentSection {
	secret, err := regexp.Compile(s.cfg.UI.RedactionRegex)
	if err != nil { // Load has tried it; a configuration made by hand shows nothing
		secret = regexp.MustCompile("")
	}
	props := webui.EnvironmentSection{Title: "Spark properties"}
	for _, key := range slices.Sorted(maps.Keys(s.cfg.Properties)) {
		props.Rows = append(props.Rows, redacted(secret, key, s.cfg.Properties[key]))
	}
	variables := webui.EnvironmentSection{Title: "Environment variables"}
	for _, row := range webui.VisibleVariables(os.Environ(), s.cfg.UI.VisibleEnvVarPrefixes) {
		variables.Rows = append(variables.Rows, redacted(secret, row.Name, row.Value))
	}
	slices.SortFunc(variables.Rows, func(a, b webui.EnvironmentRow) int { return strings.Compare(a.Name, b.Name) })
	sections := []webui.EnvironmentSection{props, variables}
	return func() []webui.EnvironmentSection { return sections }
}

// redacted hides a value when its name or itself looks like a secret (util/Utils.scala, redact).
func redacted(secret *regexp.Regexp, name, value string) webui.EnvironmentRow {
	if secret.MatchString(name) || secret.MatchString(value) {
		value = webui.Redacted
	}
	return webui.EnvironmentRow{Name: name, Value: value}
}
