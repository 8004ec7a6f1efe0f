// Package webui is the HTTP side of a master: Spark's pages, /json, kill forms and metrics routes, the health routes, the
// cluster page, and the JSON API that raftctl speaks.
//
// It knows no Raft, no state machine and no Spark RPC. What it shows comes through the small interfaces State, Details and
// Events, and what it changes goes through Leadership and Operations; cluster/admin implements them. The view structs are
// declared here with their JSON names, which are stable and which cmd/raftctl decodes. Their field names are snake case;
// times are milliseconds since the epoch and durations are milliseconds unless a name says otherwise. Everything that is
// shown comes from immutable copies: no request reads a table that somebody else writes (G-58, G-59).
//
// Only POST changes anything: below /v1/ with the admin token, or by a loopback caller when no token is configured; and the
// forms of Spark's page (forms.go), with their own rules on top (access.go). All handlers may be called from any number of
// goroutines at once.
package webui
