package webui

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of the cluster page: it stays readable, and cheap to build, with ten thousand workers.
const (
	pageRows    = 500
	pageChanges = 20
	pageEvents  = 30
	// maxPageExecutors: with more, the page leaves the list to raftctl.
	maxPageExecutors = 5000
)

//go:embed assets/cluster.html
var clusterHTML string

// headHTML is the head of every page, as the template "head".
//
//go:embed assets/head.html
var headHTML string

//go:embed assets/cluster.css
var clusterCSS string

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
	d := pageData{Title: h.opts.Title, Nonce: nonceOf(r.Context()), S: st, Health: HealthOf(st), C: c,
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
	pageTemplate        = parsePage("cluster", clusterHTML)
	appTemplate         = parsePage("app", appHTML)
	environmentTemplate = parsePage("environment", environmentHTML)
	logTemplate         = parsePage("log", logHTML)
)

func parsePage(name, text string) *template.Template {
	return template.Must(template.New(name).Funcs(timeFuncs(time.Time{})).Funcs(pageFuncs).Parse(headHTML + text))
}

var pageFuncs = template.FuncMap{
	"css": func() template.CSS { return template.CSS(clusterCSS) },
	"mem": func(mb int) string {
		if mb >= 1024 {
			return strconv.FormatFloat(float64(mb)/1024, 'f', 1, 64) + " GiB"
		}
		return strconv.Itoa(mb) + " MiB"
	},
	"bytes": showBytes,
	"age":   showAge,
	"num": func(n int64) string {
		if n == Unknown {
			return "–"
		}
		return strconv.FormatInt(n, 10)
	},
	"release": func(version, family string) string {
		if version == "" && family != "" {
			return "family " + family
		}
		return version
	},
	"limit": func(list any) any {
		v := reflect.ValueOf(list)
		return v.Slice(0, min(v.Len(), pageRows)).Interface()
	},
	"more": func(list any) int { return max(0, reflect.ValueOf(list).Len()-pageRows) },
	// sparkURL is how Spark's page shows the REST gateway: as spark-submit takes it.
	"sparkURL": func(url string) string {
		return "spark://" + strings.TrimPrefix(strings.TrimPrefix(url, "https://"), "http://")
	},
	"slash": func(base string) string { return strings.TrimRight(base, "/") + "/" },
	"cores": func(n int) string {
		if n == 1 {
			return "1 core"
		}
		return strconv.Itoa(n) + " cores"
	},
}

// timeFuncs are the functions that depend on the present time and zone.
func timeFuncs(now time.Time) template.FuncMap {
	return template.FuncMap{
		"time": func(millis int64) string {
			if millis == 0 {
				return "–"
			}
			return time.UnixMilli(millis).In(now.Location()).Format("2006/01/02 15:04:05")
		},
		"since": func(millis int64) string {
			if millis == 0 {
				return "–"
			}
			return showAge(max(0, now.UnixMilli()-millis))
		},
		"duration": func(start, end int64) string {
			if end == 0 {
				end = now.UnixMilli()
			}
			return showAge(max(0, end-start))
		},
	}
}

func showAge(millis int64) string {
	d := time.Duration(millis) * time.Millisecond
	switch {
	case millis == Unknown:
		return "–"
	case d < time.Second:
		return fmt.Sprintf("%d ms", millis)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%.1f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
	return fmt.Sprintf("%.1f d", d.Hours()/24)
}

func showBytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

func withNonce(ctx context.Context, nonce string) context.Context {
	return context.WithValue(ctx, nonceKey{}, nonce)
}

func nonceOf(ctx context.Context) string {
	s, _ := ctx.Value(nonceKey{}).(string)
	return s
}
