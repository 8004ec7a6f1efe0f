package workerui

import (
	"net/http"

	"raftmaster/transport/internal/uibase"
)

// serveJSON is /json/ and everything below it (JsonProtocol.writeWorkerState), the same in Spark 3.5 and 4.
func (h *Handler) serveJSON(w http.ResponseWriter, r *http.Request) {
	a := &uibase.Answer{W: w, R: r, ContentType: "text/json;charset=utf-8"}
	err := uibase.WriteJSON(a, workerState(h.backend.View()))
	if err == nil {
		err = a.Close()
	}
	a.Finish(h.opts.Log, err)
}

func workerState(v View) uibase.Object {
	all, used := uibase.Object{}, uibase.Object{}
	for _, r := range v.Resources {
		all = append(all, uibase.Field{Name: r.Name, Value: resource(r.Name, r.Addresses)})
		used = append(used, uibase.Field{Name: r.Name, Value: resource(r.Name, r.UsedAddresses)})
	}
	return uibase.Object{
		{"id", v.ID},
		{"masterurl", v.MasterURL},
		{"masterwebuiurl", v.MasterWebURL},
		{"cores", v.Cores},
		{"coresused", v.CoresUsed},
		{"memory", v.MemoryMB},
		{"memoryused", v.MemoryUsedMB},
		{"resources", all},
		{"resourcesused", used},
		{"executors", uibase.ListOf(v.Executors, executor)},
		{"finishedexecutors", uibase.ListOf(v.FinishedExecutors, executor)},
	}
}

// resource is ResourceInformation.toJson.
func resource(name string, addresses []string) uibase.Object {
	list := make(uibase.Array, len(addresses))
	for i, a := range addresses {
		list[i] = a
	}
	return uibase.Object{{"name", name}, {"addresses", list}}
}

// executor is JsonProtocol.writeExecutorRunner.
func executor(e Executor) any {
	held := uibase.Object{}
	for _, r := range e.Resources {
		held = append(held, uibase.Field{Name: r.Name, Value: resource(r.Name, r.Addresses)})
	}
	return uibase.Object{
		{"id", e.ID},
		{"memory", e.MemoryMB},
		{"resources", held},
		{"appid", e.AppID},
		{"appdesc", application(e.App)},
	}
}

// application is JsonProtocol.writeApplicationDescription; both spellings of "per executor" are Spark's.
func application(a App) uibase.Object {
	requests := make(uibase.Array, len(a.ResourcesPerExecutor))
	for i, r := range a.ResourcesPerExecutor {
		requests[i] = uibase.Object{{"name", r.Name}, {"amount", r.Amount}}
	}
	return uibase.Object{
		{"name", a.Name},
		{"cores", a.MaxCores},
		{"memoryperexecutor", a.MemoryPerExecutorMB},
		{"resourcesperexecutor", requests},
		{"memoryperslave", a.MemoryPerExecutorMB},
		{"resourcesperslave", requests},
		{"user", a.User},
		{"command", a.Command},
	}
}
