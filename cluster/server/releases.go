package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

const (
	// releaseTimeout bounds one question to a web page.
	releaseTimeout = 2 * time.Second
	// maxPage bounds what is read of a page: the release stands in its head.
	maxPage = 256 << 10
	// maxReleaseAsks bounds the questions that are under way at once.
	maxReleaseAsks = 16
	// A driver serves its release only after it has been told its id; it is asked a few times.
	appReleaseTries = 4
	appReleasePause = 500 * time.Millisecond
)

// workerVersion finds the release on a worker's page: Spark puts it into a span of class "version" in the navigation bar
// (ui/UIUtils.scala).
var workerVersion = regexp.MustCompile(`<span class="version[^"]*"[^>]*>\s*([0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.\-]*)\s*</span>`)

var errNoRelease = errors.New("the page names no release")

// releases asks web pages for the Spark release behind them.
type releases struct {
	client *http.Client
	slots  chan struct{}
	ctx    context.Context
	post   func(func())
}

func newReleases(ctx context.Context, post func(func())) *releases {
	return &releases{
		ctx: ctx, post: post, slots: make(chan struct{}, maxReleaseAsks),
		client: &http.Client{
			Timeout:   releaseTimeout,
			Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // a page elsewhere says nothing about this peer
			},
		},
	}
}

// Worker reads the release off a worker's web page.
func (r *releases) Worker(webUIURL string, done func(string)) {
	r.ask(1, func() (string, error) { return r.fetch(webUIURL, parseWorkerPage) }, done)
}

// Application asks a driver's REST API.
func (r *releases) Application(appUIURL string, done func(string)) {
	r.ask(appReleaseTries, func() (string, error) {
		return r.fetch(strings.TrimSuffix(appUIURL, "/")+"/api/v1/version", parseVersionJSON)
	}, done)
}

func (r *releases) ask(tries int, question func() (string, error), done func(string)) {
	go func() {
		release := ""
		for i := 0; i < tries && release == ""; i++ {
			if i > 0 && !r.pause(appReleasePause) {
				return
			}
			select {
			case r.slots <- struct{}{}:
			case <-r.ctx.Done():
				return
			}
			// An error is no news: the release stays unknown, which the leader service has a rule for.
			release, _ = question()
			<-r.slots
		}
		r.post(func() { done(release) })
	}()
}

func (r *releases) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

func (r *releases) fetch(address string, parse func([]byte) (string, error)) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errNoRelease
	}
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", errNoRelease
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		return "", err
	}
	return parse(body)
}

func parseWorkerPage(body []byte) (string, error) {
	m := workerVersion.FindSubmatch(body)
	if m == nil {
		return "", errNoRelease
	}
	return string(m[1]), nil
}

func parseVersionJSON(body []byte) (string, error) {
	var v struct {
		Spark string `json:"spark"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return "", err
	}
	if v.Spark == "" || len(v.Spark) > 64 {
		return "", errNoRelease
	}
	return v.Spark, nil
}
