package webui

import (
	"net/http"
	"regexp"
	"sort"
	"strconv"
	"time"

	"raftmaster/transport/internal/uibase"
)

// javaDate is java.util.Date.toString, which Spark puts into "submitdate".
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// jsonFieldPattern picks the field of /json/<field> (JsonProtocol.writeMasterState in Spark 4).
var jsonFieldPattern = regexp.MustCompile(`^/json/([a-zA-Z]+)`)

// serveSparkJSON answers /json/ and /json/<field> as Spark 4 does: one field as {field: value}, an unknown one as "".
func (h *Handler) serveSparkJSON(w http.ResponseWriter, r *http.Request) {
	full, c := h.sparkState()
	out := full
	if m := jsonFieldPattern.FindStringSubmatch(r.URL.Path); m != nil {
		out = selectField(full, m[1], waitingDrivers(c))
	}
	a := &uibase.Answer{W: w, R: r, ContentType: "text/json;charset=utf-8"}
	err := uibase.WriteJSON(a, out)
	if err == nil {
		err = a.Close()
	}
	a.Finish(h.opts.Log, err)
}

func waitingDrivers(c Cluster) int {
	n := 0
	for i := range c.Drivers {
		if c.Drivers[i].Waiting {
			n++
		}
	}
	return n
}

func selectField(full uibase.Object, name string, waitingDrivers int) uibase.Object {
	if name == "clusterutilization" {
		return clusterUtilization(full, waitingDrivers)
	}
	for _, f := range full {
		if f.Name == name {
			return uibase.Object{f}
		}
	}
	return uibase.Object{{name, ""}}
}

// sparkState builds the full object. A master that is not the leader, or whose lease has run out, shows what Spark's
// STANDBY shows: its own URL, empty lists and the status.
func (h *Handler) sparkState() (uibase.Object, Cluster) {
	st := h.opts.State.Brief()
	if st.State != StateAlive || !st.LeaseValid {
		return masterState(st.URL, StateStandby, Cluster{}, h.opts.Now()), Cluster{}
	}
	c := h.opts.State.Cluster()
	return masterState(st.URL, StateAlive, c, h.opts.Now()), c
}

// masterState gives the fields in the order of JsonProtocol.writeMasterState.
func masterState(url, status string, c Cluster, now time.Time) uibase.Object {
	var living []*Worker
	cores, coresUsed, memory, memoryUsed := 0, 0, 0, 0
	for i := range c.Workers {
		wk := &c.Workers[i]
		if wk.State != StateAlive {
			continue
		}
		living = append(living, wk)
		cores, coresUsed = cores+wk.Cores, coresUsed+wk.CoresUsed
		memory, memoryUsed = memory+wk.MemoryMB, memoryUsed+wk.MemoryUsedMB
	}
	var active, completed []*App
	for i := range c.Apps {
		if c.Apps[i].Active {
			active = append(active, &c.Apps[i])
		} else {
			completed = append(completed, &c.Apps[i])
		}
	}
	var activeDrivers, completedDrivers []*Driver
	for i := range c.Drivers {
		if c.Drivers[i].Active {
			activeDrivers = append(activeDrivers, &c.Drivers[i])
		} else {
			completedDrivers = append(completedDrivers, &c.Drivers[i])
		}
	}
	app := func(a *App) any { return sparkApp(a, now) }
	driver := func(d *Driver) any { return sparkDriver(d, now) }
	return uibase.Object{
		{"url", url},
		{"workers", uibase.List{N: len(c.Workers), At: func(i int) any { return sparkWorker(&c.Workers[i]) }}},
		{"aliveworkers", len(living)},
		{"cores", cores},
		{"coresused", coresUsed},
		{"memory", memory},
		{"memoryused", memoryUsed},
		{"resources", uibase.ListOf(living, func(w *Worker) any { all, _, _ := sparkResources(w.Resources); return all })},
		{"resourcesused", uibase.ListOf(living, func(w *Worker) any { _, used, _ := sparkResources(w.Resources); return used })},
		{"activeapps", uibase.ListOf(active, app)},
		{"completedapps", uibase.ListOf(completed, app)},
		{"activedrivers", uibase.ListOf(activeDrivers, driver)},
		{"completeddrivers", uibase.ListOf(completedDrivers, driver)},
		{"status", status},
	}
}

func sparkWorker(w *Worker) uibase.Object {
	all, used, free := sparkResources(w.Resources)
	return uibase.Object{
		{"id", w.ID},
		{"host", w.Host},
		{"port", w.Port},
		{"webuiaddress", w.WebURL},
		{"cores", w.Cores},
		{"coresused", w.CoresUsed},
		{"coresfree", w.Cores - w.CoresUsed},
		{"memory", w.MemoryMB},
		{"memoryused", w.MemoryUsedMB},
		{"memoryfree", w.MemoryMB - w.MemoryUsedMB},
		{"resources", all},
		{"resourcesused", used},
		{"resourcesfree", free},
		{"state", w.State},
		{"lastheartbeat", w.LastHeartbeatMillis},
	}
}

// sparkResources gives all, used and free addresses as name -> {name, addresses}.
func sparkResources(rs []Resource) (all, used, free uibase.Object) {
	all, used, free = uibase.Object{}, uibase.Object{}, uibase.Object{}
	for _, r := range rs {
		inUse := make(map[string]bool, len(r.UsedAddresses))
		for _, a := range r.UsedAddresses {
			inUse[a] = true
		}
		var idle []string
		for _, a := range r.Addresses {
			if !inUse[a] {
				idle = append(idle, a)
			}
		}
		all = append(all, uibase.Field{r.Name, sparkResource(r.Name, r.Addresses)})
		used = append(used, uibase.Field{r.Name, sparkResource(r.Name, r.UsedAddresses)})
		free = append(free, uibase.Field{r.Name, sparkResource(r.Name, idle)})
	}
	return all, used, free
}

func sparkResource(name string, addresses []string) uibase.Object {
	sorted := append([]string(nil), addresses...)
	sort.Strings(sorted)
	list := make(uibase.Array, len(sorted))
	for i, a := range sorted {
		list[i] = a
	}
	return uibase.Object{{"name", name}, {"addresses", list}}
}

func sparkApp(a *App, now time.Time) uibase.Object {
	requests := make(uibase.Array, len(a.Resources))
	for i, r := range a.Resources {
		requests[i] = uibase.Object{{"name", r.Name}, {"amount", r.Amount}}
	}
	end := a.EndMillis
	if a.Active || end == 0 {
		end = now.UnixMilli()
	}
	return uibase.Object{
		{"id", a.ID},
		{"starttime", a.StartMillis},
		{"name", a.Name},
		{"cores", a.Cores},
		{"user", a.User},
		{"memoryperexecutor", a.MemoryPerExecutorMB},
		{"memoryperslave", a.MemoryPerExecutorMB},
		{"resourcesperexecutor", requests},
		{"resourcesperslave", requests},
		{"submitdate", time.UnixMilli(a.StartMillis).In(now.Location()).Format(javaDate)},
		{"state", a.State},
		{"duration", end - a.StartMillis},
	}
}

// sparkDriver gives a driver as JsonProtocol.writeDriverInfo does: starttime is a text there, and the place of a waiting
// driver is the word None. Spark takes mainclass to be the third argument of the driver's command and fails altogether
// on a driver with fewer (G-72); here it is "" then.
func sparkDriver(d *Driver, now time.Time) uibase.Object {
	worker := d.WorkerID
	if worker == "" {
		worker = "None"
	}
	all, _, _ := sparkResources(d.Resources)
	return uibase.Object{
		{"id", d.ID},
		{"starttime", strconv.FormatInt(d.SubmittedMillis, 10)},
		{"state", d.State},
		{"cores", d.Cores},
		{"memory", d.MemoryMB},
		{"resources", all},
		{"submitdate", time.UnixMilli(d.SubmittedMillis).In(now.Location()).Format(javaDate)},
		{"worker", worker},
		{"mainclass", d.MainClass},
	}
}

// clusterUtilization is the special field of Spark 4; percentages are truncated, and 100 without any capacity.
func clusterUtilization(full uibase.Object, waitingDrivers int) uibase.Object {
	number := func(name string) int {
		for _, f := range full {
			if n, ok := f.Value.(int); ok && f.Name == name {
				return n
			}
		}
		panic("webui: no field " + strconv.Quote(name) + " in the master state")
	}
	percent := func(used, total int) int {
		if total == 0 {
			return 100
		}
		return int(int64(used) * 100 / int64(total))
	}
	cores, coresUsed := number("cores"), number("coresused")
	memory, memoryUsed := number("memory"), number("memoryused")
	return uibase.Object{
		{"waitingDrivers", waitingDrivers},
		{"cores", cores},
		{"coresused", coresUsed},
		{"coresutilization", percent(coresUsed, cores)},
		{"memory", memory},
		{"memoryused", memoryUsed},
		{"memoryutilization", percent(memoryUsed, memory)},
	}
}
