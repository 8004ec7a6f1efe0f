package workerui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	_ "embed"

	"raftmaster/transport/internal/uibase"
)

//go:embed assets/worker.html
var workerHTML string

var workerTemplate = uibase.ParsePage("worker", workerHTML)

// workerPage is the main page (worker/ui/WorkerPage.scala).
type workerPage struct {
	Title, Nonce, Version string
	V                     View
	// NotReady says why the worker takes no executors.
	NotReady string
	// OwnLogs are the types of the worker's own logs that can be shown.
	OwnLogs                []string
	MemoryFree             int
	Running, Finished      []executorRow
	RunningDrivers, Driven []driverRow
	Resources              bool
}

// executorRow is an executor with its links.
type executorRow struct {
	Executor
	// AppURL leads to the application's pages while it runs, "" otherwise.
	AppURL string
}

// LogURL is the page of a log, Download that log as a file.
func (e executorRow) LogURL(logType string) string {
	return logURL("logPage/", e.AppID, strconv.Itoa(e.ID), logType)
}

// Download is the address of a log as a file.
func (e executorRow) Download(logType string) string {
	return logURL("download/", e.AppID, strconv.Itoa(e.ID), logType)
}

// driverRow is a driver with its links.
type driverRow struct {
	Driver
	AppURL string
}

// LogURL is the page of a log.
func (d driverRow) LogURL(logType string) string { return logURL("logPage/", "", d.ID, logType) }

// Download is the address of a log as a file.
func (d driverRow) Download(logType string) string { return logURL("download/", "", d.ID, logType) }

// servePage is /.
func (h *Handler) servePage(w http.ResponseWriter, r *http.Request) {
	v := h.backend.View()
	p := workerPage{Title: "Spark Worker at " + strings.TrimPrefix(v.URL, "spark://"), Nonce: uibase.NonceOf(r.Context()),
		Version: h.opts.Version, V: v, NotReady: notReady(v), MemoryFree: v.MemoryMB - v.MemoryUsedMB,
		Resources: len(v.Resources) > 0}
	if h.opts.LogFiles != nil {
		for logType := range h.opts.LogFiles() {
			p.OwnLogs = append(p.OwnLogs, logType)
		}
		slices.Sort(p.OwnLogs)
	}
	for _, e := range v.Executors {
		p.Running = append(p.Running, executorRow{e, h.appURL(e.AppID, e.App.UIURL)})
	}
	for _, e := range slices.Backward(v.FinishedExecutors) {
		p.Finished = append(p.Finished, executorRow{Executor: e})
	}
	for _, d := range slices.Backward(v.Drivers) {
		p.RunningDrivers = append(p.RunningDrivers, driverRow{d, d.AppUIURL})
	}
	for _, d := range slices.Backward(v.FinishedDrivers) {
		p.Driven = append(p.Driven, driverRow{Driver: d})
	}
	h.writePage(w, r, http.StatusOK, workerTemplate, p)
}

// appURL leads to the pages of a running application: its own, or the master's /proxy/<id>/ (UIUtils.makeHref).
func (h *Handler) appURL(id, address string) string {
	if address == "" || !h.opts.ReverseProxy {
		return address
	}
	return strings.TrimRight(h.opts.ReverseProxyURL, "/") + "/proxy/" + url.PathEscape(id) + "/"
}
