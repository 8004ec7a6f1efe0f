package webui

import (
	_ "embed"
	"net/http"
	"slices"

	"raftmaster/transport/internal/uibase"
)

// Limits of the cluster page: it stays readable, and cheap to build, with ten thousand workers.
const (
	pageChanges = 20
	pageEvents  = 30
	// maxPageExecutors: with more, the page leaves the list to raftctl.
	maxPageExecutors = 5000
)

//go:embed assets/cluster.html
var clusterHTML string

// pageData is what the template shows.
type pageData struct {
	Title     string
	Nonce     string
	S         Status
	Health    Health
	C         Cluster
	Active    []App
	Completed []App
	Executors []Executor
	// Drivers are unfinished, in the order of submission; CompletedDrivers newest first.
	Drivers, CompletedDrivers []Driver
	// Root is the path of these pages at a proxy in front; Links lead to workers and applications.
	Root  string
	Links linker
	// Kill: there are kill buttons, whose forms carry CSRF.
	Kill bool
	CSRF string
	// Changes and Events are newest first.
	Changes []LeaderChange
	Events  []Event
	// Resources: some worker has custom resources.
	Resources bool
}

// servePage is the cluster page, on the leader and on standbys alike.
func (h *Handler) servePage(w http.ResponseWriter, r *http.Request) {
	h.writePage(w, r, http.StatusOK, pageTemplate, h.pageData(r))
}

func (h *Handler) pageData(r *http.Request) pageData {
	st, c := h.opts.State.Status(), h.opts.State.Cluster()
	d := pageData{Title: h.opts.Title, Nonce: uibase.NonceOf(r.Context()), S: st, Health: HealthOf(st), C: c,
		Root: h.root, Links: h.links(), Kill: h.killShown(r, st), CSRF: h.csrfToken}
	if st.Counts.Executors <= maxPageExecutors {
		d.Executors = h.opts.State.Executors("")
	}
	if d.Title == "" {
		d.Title = "Spark Master at " + st.URL
	}
	h.explain(c.Apps, c.Drivers)
	for _, a := range c.Apps {
		if a.Active {
			d.Active = append(d.Active, a)
		} else {
			d.Completed = append(d.Completed, a)
		}
	}
	slices.Reverse(d.Completed)
	for _, x := range c.Drivers {
		if x.Active {
			d.Drivers = append(d.Drivers, x)
		} else {
			d.CompletedDrivers = append(d.CompletedDrivers, x)
		}
	}
	slices.Reverse(d.CompletedDrivers)
	for _, w := range c.Workers {
		d.Resources = d.Resources || len(w.Resources) > 0
	}
	d.Changes = newest(st.LeaderChanges, pageChanges)
	events, _ := h.opts.Events.Since(0, maxEventsPerAnswer*maxFollowers)
	d.Events = newest(events, pageEvents)
	return d
}

// explain adds to applications and drivers why they wait.
func (h *Handler) explain(apps []App, drivers []Driver) {
	if h.opts.Details == nil {
		return
	}
	why := h.opts.Details.Explain()
	for i := range apps {
		apps[i].WhyWaiting = why[apps[i].ID]
	}
	for i := range drivers {
		drivers[i].WhyWaiting = why[drivers[i].ID]
	}
}

// newest gives the last n of a list that is in order of time, the latest first.
func newest[T any](list []T, n int) []T {
	out := slices.Clone(list[max(0, len(list)-n):])
	slices.Reverse(out)
	return out
}

// The pages. Their functions that depend on the present time are replaced for each answer.
var (
	pageTemplate        = uibase.ParsePage("cluster", clusterHTML)
	appTemplate         = uibase.ParsePage("app", appHTML)
	environmentTemplate = uibase.ParsePage("environment", environmentHTML)
	logTemplate         = uibase.ParsePage("log", logHTML)
)
