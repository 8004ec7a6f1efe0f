package webui

import (
	"context"
	"net/http"
	"time"
)

// LogLevels shows and changes how much this master logs, leader or not.
type LogLevels interface {
	// LogLevel is the level in force.
	LogLevel() LogLevel
	// SetLogLevel changes it, for good or for a time; with DryRun it only judges the request. It returns *Error to choose
	// the code of the answer.
	SetLogLevel(ctx context.Context, req LogLevelRequest) (LogLevel, error)
}

// LogLevelRequest is the body of POST /v1/log-level.
type LogLevelRequest struct {
	// Level is trace, debug, info, warn or error.
	Level string `json:"level"`
	// ForMillis is after how long the level before comes back; 0: never by itself. At most MaxLogLevelMillis.
	ForMillis int64 `json:"for_millis"`
	DryRun    bool  `json:"dry_run"`
}

// MaxLogLevelMillis is the longest time of a level that goes back by itself: a day.
const MaxLogLevelMillis = 24 * 60 * 60 * 1000

// LogLevel is the answer of GET and POST /v1/log-level.
type LogLevel struct {
	// Node is the address of the master that answers.
	Node  string `json:"node"`
	Level string `json:"level"`
	// Configured is the level that the master was started with.
	Configured string `json:"configured"`
	// Then is the level that comes back at UntilMillis, "" and 0 when none does.
	Then        string `json:"then"`
	UntilMillis int64  `json:"until_millis"`
	// Before is the level before a change; "" in the answer of GET.
	Before string `json:"before"`
	DryRun bool   `json:"dry_run"`
}

// logLevelTimeout bounds one change of the level, which waits for nothing.
const logLevelTimeout = 5 * time.Second

func (h *Handler) logLevelRoutes() {
	if h.opts.LogLevels == nil {
		return
	}
	set := change(h, func() bool { return true }, func(LogLevelRequest) time.Duration { return logLevelTimeout },
		func(ctx context.Context, req LogLevelRequest) (LogLevel, error) {
			return h.opts.LogLevels.SetLogLevel(ctx, req)
		})
	h.mux.HandleFunc("/v1/log-level", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			set(w, r)
			return
		}
		h.get(func(w http.ResponseWriter, r *http.Request) {
			h.writeJSON(w, r, http.StatusOK, h.opts.LogLevels.LogLevel())
		})(w, r)
	})
}
