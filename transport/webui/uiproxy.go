package webui

import (
	"net/http"

	"raftmaster/transport/internal/uibase"
	"raftmaster/transport/uiproxy"
)

// Bounds of what is forwarded at once.
const (
	maxProxied      = 64
	maxProxiedPerIP = 16
)

// uiProxy serves /proxy/<id>/, within the bounds of this port.
func (h *Handler) uiProxy() http.Handler {
	proxy := uiproxy.New(uiproxy.Options{
		Root: h.root, Log: h.opts.Log, Say: h.message,
		Lookup: func(id string) (string, bool) {
			if h.opts.Details == nil {
				return "", false
			}
			return h.opts.Details.PeerUI(id)
		},
		OwnHost: h.ownName,
		Ours:    func(r *http.Request) bool { return credentialsOf(r).any() != nil },
	})
	places := uibase.NewPlaces(maxProxied, maxProxiedPerIP)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip := uibase.CallerIP(r)
		if !places.Take(r.Context(), ip, h.listWait) {
			w.Header().Set("Retry-After", "1")
			h.message(w, r, http.StatusServiceUnavailable, "Busy", "Too many pages are being forwarded: try again in a moment.")
			return
		}
		defer places.Give(ip)
		proxy.ServeHTTP(w, r)
	})
}
