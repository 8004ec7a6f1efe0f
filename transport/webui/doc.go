// Package webui is the HTTP side of a master: Spark's /json, the health routes, the metrics route, a cluster page, and
// the JSON API that raftctl speaks.
//
// It knows no Raft, no state machine and no Spark RPC. What it shows comes through the small interfaces State, Events
// and Leadership, which cluster/admin implements; the view structs are declared here with their JSON names, which are
// stable and which cmd/raftctl decodes. Their field names are snake case; times are milliseconds since the epoch and
// durations are milliseconds unless a name says otherwise.
//
// Nothing here changes state except POST /v1/transfer-leadership and /v1/peers/{add,remove,promote}, which need the admin
// token, or a loopback caller when no token is configured. All handlers may be called from any number of goroutines at once.
package webui
