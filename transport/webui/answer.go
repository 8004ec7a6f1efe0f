package webui

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"raftmaster/transport/internal/uibase"
)

// Limits of the answers that list things. Their size is the cluster's, and their reader sets the pace.
const (
	// maxLists bounds the lists that are rendered, or wait for their reader, at once; each holds a copy of a table.
	maxLists = 16
	// maxListsPerIP bounds those of one address: a caller, or a proxy, who reads slowly leaves places for the others.
	maxListsPerIP = 4
	// listWait is how long a further one waits for its turn.
	listWait = time.Second
)

// list lets few renderings run at once; the others wait for a moment and are then asked to come again.
func (h *Handler) list(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ip := uibase.CallerIP(r)
		if !h.lists.Take(r.Context(), ip, h.listWait) {
			h.busyLists.Inc()
			w.Header().Set("Retry-After", "1")
			h.writeError(w, r, http.StatusServiceUnavailable, &Error{Code: CodeBusy, Message: "too many lists are being sent: ask again in a moment"})
			return
		}
		defer h.lists.Give(ip)
		next(w, r)
	}
}

// writeList sends head with one more field, name, that holds the list: byte for byte what writeJSON makes of both in one
// struct, without ever holding all of it.
func writeList[T any](h *Handler, w http.ResponseWriter, r *http.Request, head any, name string, list []T) {
	a := &uibase.Answer{W: w, R: r, ContentType: "application/json;charset=utf-8"}
	a.Finish(h.opts.Log, encodeList(a, head, name, list))
}

func encodeList[T any](a *uibase.Answer, head any, name string, list []T) error {
	top, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return errors.Join(uibase.ErrEncode, err)
	}
	open := strings.TrimSuffix(string(top), "\n}") + ",\n  " + strconv.Quote(name) + ": ["
	if _, err := a.Write([]byte(open)); err != nil {
		return err
	}
	separator, end := "\n    ", "]\n}\n"
	for i := range list {
		element, err := json.MarshalIndent(&list[i], "    ", "  ")
		if err != nil {
			return errors.Join(uibase.ErrEncode, err)
		}
		if _, err := a.Write(append([]byte(separator), element...)); err != nil {
			return err
		}
		separator, end = ",\n    ", "\n  ]\n}\n"
	}
	if _, err := a.Write([]byte(end)); err != nil {
		return err
	}
	return a.Close()
}
