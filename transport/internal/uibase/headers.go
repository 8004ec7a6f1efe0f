package uibase

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// Headers are the settings of the headers that every answer carries.
type Headers struct {
	// AllowFramingFrom and ContentSecurityPolicy are Spark's settings of the same names; so is XXSSProtection, "0" if empty.
	AllowFramingFrom      string
	XXSSProtection        string
	ContentSecurityPolicy bool
}

// Set sets them, and gives a request whose context holds the nonce of the page (NonceOf).
func (o Headers) Set(w http.ResponseWriter, r *http.Request) *http.Request {
	head := w.Header()
	head.Set("Cache-Control", "no-cache, no-store, must-revalidate")
	head.Set("X-XSS-Protection", cmp.Or(o.XXSSProtection, "0"))
	head.Set("X-Content-Type-Options", "nosniff")
	frames := "'self'"
	if o.AllowFramingFrom != "" {
		head.Set("X-Frame-Options", "ALLOW-FROM "+o.AllowFramingFrom)
		frames += " " + o.AllowFramingFrom
	} else {
		head.Set("X-Frame-Options", "SAMEORIGIN")
	}
	nonce := NewNonce()
	if o.ContentSecurityPolicy {
		head.Set("Content-Security-Policy", "default-src 'self'; script-src 'self' 'nonce-"+nonce+
			"'; style-src 'self' 'nonce-"+nonce+"'; img-src 'self' data:; object-src 'none'; base-uri 'self'; "+
			"form-action 'self'; frame-ancestors "+frames+";")
	}
	return r.WithContext(context.WithValue(r.Context(), nonceKey{}, nonce))
}

type nonceKey struct{}

// NonceOf is the nonce of the page that answers a request, "" outside one.
func NonceOf(ctx context.Context) string {
	s, _ := ctx.Value(nonceKey{}).(string)
	return s
}

// NewNonce gives 128 random bits; crypto/rand never fails in this release of Go.
func NewNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// AllowMethods answers 405 and returns false unless the request has one of the methods.
func AllowMethods(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	if slices.Contains(methods, r.Method) {
		return true
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	w.WriteHeader(http.StatusMethodNotAllowed)
	return false
}
