package webui

// EnvironmentSection is one table of /environment/.
type EnvironmentSection struct {
	Title string
	Rows  []EnvironmentRow
}

// EnvironmentRow is one name and value; secrets are redacted before they get here.
type EnvironmentRow struct{ Name, Value string }
