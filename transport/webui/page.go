package webui

import (
	"context"
	"net/http"
)

func withNonce(ctx context.Context, nonce string) context.Context {
	return context.WithValue(ctx, nonceKey{}, nonce)
}

func nonceOf(ctx context.Context) string {
	s, _ := ctx.Value(nonceKey{}).(string)
	return s
}
func (h *Handler) servePage(w http.ResponseWriter, r *http.Request) {
	writeBody(w, r, http.StatusOK, "text/html;charset=utf-8", []byte(nonceOf(r.Context())))
}
