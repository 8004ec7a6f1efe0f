package webui

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"raftmaster/transport/internal/uibase"
)

// Tokens judges the tokens that callers present. It is asked from HTTP goroutines; its answers may change while the
// process runs.
type Tokens interface {
	// Find tells whose token was given, in a time that tells nothing about the tokens.
	Find(given string) (Token, bool)
	// ReadsNeedToken: whoever only looks must present a token, too.
	ReadsNeedToken() bool
}

// Token is what a token stands for.
type Token struct {
	// Name is the one that events and logs show.
	Name string
	// Operate: the holder may change something; else he may only look.
	Operate bool
}

// oneToken is the Tokens of Options.Token.
type oneToken [sha256.Size]byte

func (t oneToken) Find(given string) (Token, bool) {
	sum := sha256.Sum256([]byte(given))
	return Token{Name: "admin", Operate: true}, subtle.ConstantTimeCompare(sum[:], t[:]) == 1
}

func (oneToken) ReadsNeedToken() bool { return false }

// credentials are what a request presents, found out once.
type credentials struct {
	// bearer and basic are the token that came as such, nil when none did that is known.
	bearer, basic *Token
}

type credentialsKey struct{}

func credentialsOf(r *http.Request) credentials {
	c, _ := r.Context().Value(credentialsKey{}).(credentials)
	return c
}

// any is the token of the request, however it came.
func (c credentials) any() *Token {
	if c.bearer != nil {
		return c.bearer
	}
	return c.basic
}

// identify finds out whose token a request carries: "Authorization: Bearer TOKEN", which no web page can send from
// elsewhere, or TOKEN as the password of HTTP basic authentication under any user name, which is what a browser can ask
// its user for. It answers and tells false when the caller has guessed too often.
func (h *Handler) identify(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	if h.tokens == nil {
		return r, true
	}
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	given = strings.TrimSpace(given)
	if !bearer {
		_, password, ok := r.BasicAuth()
		if !ok {
			return r, true
		}
		given = password
	}
	remote := guessKey(uibase.CallerIP(r))
	if wait := h.guesses.wait(remote); wait > 0 {
		h.authLimited.Inc()
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
		h.writeError(w, r, http.StatusTooManyRequests, &Error{Code: CodeUnauthorized, Message: "too many wrong tokens came from this address: wait, then give the right one"})
		return r, false
	}
	t, ok := h.tokens.Find(given)
	if !ok {
		// What goes on to the page of an application may be meant for that page.
		if given != "" && (!strings.HasPrefix(r.URL.Path, "/proxy/") || h.tokens.ReadsNeedToken()) {
			h.wrongToken(remote, given, r)
		}
		return r, true
	}
	c := credentials{basic: &t}
	if bearer {
		c = credentials{bearer: &t}
	}
	return r.WithContext(context.WithValue(r.Context(), credentialsKey{}, c)), true
}

func (h *Handler) wrongToken(remote, given string, r *http.Request) {
	h.authFailures.Inc()
	if n, tell := h.guesses.failed(remote, sha256.Sum256([]byte(given))); tell {
		h.opts.Log.Warn("wrong tokens were presented", "remote", r.RemoteAddr, "path", r.URL.Path, "wrong_in_all", n)
	}
}

// openPaths are answered to everybody, because probes and collectors of metrics ask them: they tell who leads and how
// much there is, and nothing of what runs. Spark's metrics of applications carry their names, and are not among them.
var openPaths = map[string]bool{"/healthz": true, "/readyz": true, "/leader": true, "/metrics": true}

// openMetrics begins the paths of Spark's metrics that are open, too.
const openMetrics = "/metrics/master/"

// mayLook answers and tells false when reading needs a token and the request has none.
func (h *Handler) mayLook(w http.ResponseWriter, r *http.Request) bool {
	if h.tokens == nil || !h.tokens.ReadsNeedToken() || openPaths[r.URL.Path] || strings.HasPrefix(r.URL.Path, openMetrics) ||
		credentialsOf(r).any() != nil {
		return true
	}
	askForToken(w, true)
	const why = "reading needs a token here"
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		h.writeError(w, r, http.StatusUnauthorized, &Error{Code: CodeUnauthorized, Message: why})
	} else {
		h.message(w, r, http.StatusUnauthorized, "Not shown", sentence(why)+" Give it as the password, under any user name.")
	}
	return false
}

// askForToken says how a token can be presented.
func askForToken(w http.ResponseWriter, basic bool) {
	if basic {
		w.Header().Add("WWW-Authenticate", `Basic realm="raftmaster: any user, the admin token as password", charset="UTF-8"`)
	}
	w.Header().Add("WWW-Authenticate", `Bearer realm="raftmaster"`)
}

// actor names who changes something: by its token, as "local" for a caller on this machine without one, else by address.
func actor(r *http.Request) string {
	if t := credentialsOf(r).any(); t != nil {
		return t.Name
	}
	if isLoopback(r.RemoteAddr) {
		return "local"
	}
	return uibase.CallerIP(r)
}

// Action is something that an operator did, or tried to do, over HTTP.
type Action struct {
	// Actor is the name of the token, "local" for a caller on the master's machine without one, else the caller's IP.
	Actor string
	// What is the call, such as peers/remove, Request what was asked for.
	What, Request string
	// Err is why it was not done, nil when it was.
	Err error
}

// operated records an action of the caller, see Options.Operated. Dry runs are none.
func (h *Handler) operated(r *http.Request, what string, request any, err error) {
	if h.opts.Operated == nil || isDryRun(request) {
		return
	}
	h.opts.Operated(Action{Actor: actor(r), What: what, Request: describe(request), Err: err})
}

func isDryRun(request any) bool {
	v := reflect.ValueOf(request)
	if v.Kind() != reflect.Struct {
		return false
	}
	f := v.FieldByName("DryRun")
	return f.IsValid() && f.Kind() == reflect.Bool && f.Bool()
}

// describe prints what was asked for, without the fields that were left empty.
func describe(request any) string {
	v := reflect.ValueOf(request)
	if v.Kind() != reflect.Struct {
		return fmt.Sprint(request)
	}
	var parts []string
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
			parts = append(parts, fmt.Sprintf("%s=%v", strings.ToLower(f.Name), v.Field(i).Interface()))
		}
	}
	return strings.Join(parts, " ")
}
