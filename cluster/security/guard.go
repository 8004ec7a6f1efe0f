package security

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/transport/webui"
)

const (
	// pollEvery is how often the files are looked at; a change counts when two looks have found it.
	pollEvery = 2 * time.Second
	// remindEvery is how often the log repeats that a certificate ends, lastDay of one that ends within a day.
	remindEvery = 24 * time.Hour
	remindLast  = time.Hour
)

// Options are what a Guard needs beside its configuration. All may be left zero but Log.
type Options struct {
	Log hclog.Logger
	// Event hears of files that were read again, or cannot be used.
	Event func(detail string)
	// Now is the clock.
	Now func() time.Time
	// PollEvery replaces the interval of two looks at the files.
	PollEvery time.Duration
}

// Guard holds the certificates and tokens of one master. Its methods may be called from any goroutine.
type Guard struct {
	cfg  config.Config
	opts Options

	tokens             *live[tokenSet] // nil without a token file
	cluster, web, rest *live[material] // nil without TLS there

	mu       sync.Mutex
	reminded map[string]time.Time
}

// source is any of a Guard's live values.
type source interface {
	name() string
	load() error
	poll() (outcome, error)
	trouble() string
}

// New reads all files that the configuration names. The error says which file cannot be used and why.
func New(cfg config.Config, opts Options) (*Guard, error) {
	if opts.Event == nil {
		opts.Event = func(string) {}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.PollEvery <= 0 {
		opts.PollEvery = pollEvery
	}
	g := &Guard{cfg: cfg, opts: opts, reminded: make(map[string]time.Time)}
	if cfg.AdminTokenFile != "" {
		g.tokens = tokenFile(cfg.AdminTokenFile)
	}
	if cfg.ClusterTLS.On() {
		g.cluster = clusterCertificate(cfg.ClusterTLS, cfg.Advertise(), opts.Now)
	}
	if cfg.WebTLS.On() {
		g.web = certificate("the certificate of the web UI", cfg.WebTLS, opts.Now, judgeServer(bareHost(cfg.PublicHost)))
	}
	if cfg.RESTTLS.On() {
		g.rest = certificate("the certificate of the REST gateway", cfg.RESTTLS, opts.Now, judgeServer(bareHost(cfg.AdvertiseHost)))
	}
	for _, s := range g.sources() {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Check tells why a master with this configuration could not start, as far as its certificates and tokens go.
func Check(cfg config.Config) error {
	_, err := New(cfg, Options{Log: hclog.NewNullLogger()})
	return err
}

// bareHost is a host without the brackets of an IPv6 address.
func bareHost(host string) string { return strings.Trim(host, "[]") }

func (g *Guard) sources() []source {
	var out []source
	if g.tokens != nil {
		out = append(out, g.tokens)
	}
	for _, c := range g.certificates() {
		out = append(out, c.live)
	}
	return out
}

// use is a certificate and what it is for.
type use struct {
	name string
	live *live[material]
}

func (g *Guard) certificates() []use {
	return slices.DeleteFunc([]use{{"cluster", g.cluster}, {"web", g.web}, {"rest", g.rest}}, func(u use) bool { return u.live == nil })
}

// Tokens judges callers; nil when no token is configured.
func (g *Guard) Tokens() webui.Tokens {
	if g.tokens == nil {
		return nil
	}
	return tokens{g.tokens}
}

// Web is the configuration of the web UI's port, nil for HTTP; REST that of the gateway's.
func (g *Guard) Web() *tls.Config { return httpsOf(g.web) }

// REST is the configuration of the REST gateway's port, nil for HTTP.
func (g *Guard) REST() *tls.Config { return httpsOf(g.rest) }

func httpsOf(l *live[material]) *tls.Config {
	if l == nil {
		return nil
	}
	return serverConfig(l)
}

// Announce says in the log what stands open, at the start.
func (g *Guard) Announce() {
	for _, n := range g.Notes() {
		g.opts.Log.Warn("open: " + n)
	}
	for _, c := range g.certificates() {
		g.opts.Log.Info("TLS is on", "for", c.name, "certificate_until", c.live.get().until.UTC().Format(time.RFC3339))
	}
}

// Run looks after the files until the context ends.
func (g *Guard) Run(ctx context.Context) {
	tick := time.NewTicker(g.opts.PollEvery)
	defer tick.Stop()
	for {
		g.look()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *Guard) look() {
	for _, s := range g.sources() {
		switch what, err := s.poll(); what {
		case replaced:
			g.opts.Log.Info("read again, and in use for new callers: " + s.name())
			g.opts.Event(s.name() + " changed and are in use for new callers")
		case refused:
			g.opts.Log.Error("a changed file cannot be used, what was read before goes on", "what", s.name(), "error", err)
			g.opts.Event(s.trouble())
		case unchanged:
		}
	}
	for _, c := range g.certificates() {
		g.remind(c.live)
	}
	if g.cfg.ClusterTLS.On() && g.cfg.ClusterTLS.Optional && g.due("optional", remindLast) {
		g.opts.Log.Warn("masters without a certificate are talked to (--cluster-tls-mode=optional): set it to required once all masters use TLS")
	}
}

// remind says in the log that a certificate ends.
func (g *Guard) remind(l *live[material]) {
	text, left := ending(l, g.opts.Now())
	every := remindEvery
	if left < 24*time.Hour {
		every = remindLast
	}
	if text == "" || !g.due(l.what, every) {
		return
	}
	if left <= 0 {
		g.opts.Log.Error(text)
		return
	}
	g.opts.Log.Warn(text)
}

func (g *Guard) due(key string, every time.Duration) bool {
	now := g.opts.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if last, ok := g.reminded[key]; ok && now.Sub(last) < every {
		return false
	}
	g.reminded[key] = now
	return true
}

// ending says when a certificate ends, "" while that is far away.
func ending(l *live[material], now time.Time) (text string, left time.Duration) {
	m := l.get()
	left = m.until.Sub(now)
	switch {
	case left <= 0:
		return fmt.Sprintf("%s (%s) has expired, on %s: replace the file, no restart is needed", l.what, l.files[0].path, m.until.UTC().Format(time.RFC3339)), left
	case now.After(m.alarmAt()):
		return fmt.Sprintf("%s (%s) ends in %s, on %s: replace the file, no restart is needed", l.what, l.files[0].path, days(left), m.until.UTC().Format(time.RFC3339)), left
	}
	return "", left
}

func days(d time.Duration) string {
	switch n := int(d.Hours() / 24); n {
	case 0:
		return "less than a day"
	case 1:
		return "1 day"
	default:
		return fmt.Sprintf("%d days", n)
	}
}

// Alarms implements admin.Security.
func (g *Guard) Alarms() []string {
	var out []string
	for _, s := range g.sources() {
		if p := s.trouble(); p != "" {
			out = append(out, p)
		}
	}
	now := g.opts.Now()
	for _, c := range g.certificates() {
		if text, _ := ending(c.live, now); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// Notes implements admin.Security.
func (g *Guard) Notes() []string {
	out := g.cfg.Open(g.tokens != nil && g.tokens.get().reads)
	for _, c := range g.certificates() {
		if why := c.live.get().mismatch; why != "" {
			out = append(out, fmt.Sprintf("%s does not name the host that others are told of: %s", c.live.what, why))
		}
	}
	return out
}
