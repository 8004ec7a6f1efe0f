package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"raftmaster/transport/sparkmsg"
)

// Sources are the places where the release of a cluster may be found out. Each may be empty.
type Sources struct {
	// Web are web UIs of masters, http://HOST:PORT.
	Web []string
	// REST and RPC are HOST:PORT of the gateways; Scheme is that of REST.
	REST, RPC []string
	Scheme    string
	// Timeout bounds one answer; 5 s.
	Timeout time.Duration
	// Transport makes the calls over HTTP; nil for a plain one.
	Transport http.RoundTripper
}

// Release is what a submitter must play.
type Release struct {
	Version string `json:"version"`
	// From says how it was found out, in words.
	From string `json:"from"`
}

// ReleaseError says that the release could not be found out, or is not one.
type ReleaseError struct {
	// Found are the releases of the workers, when there are several.
	Found []string
	// Tried has one line for each place that was asked.
	Tried []string
	// Any: the masters are raftmaster, which answers questions and kills of every release alike.
	Any bool
}

// Error implements error.
func (e *ReleaseError) Error() string {
	if len(e.Found) > 0 {
		return "the workers run several Spark releases (" + strings.Join(e.Found, ", ") + "), and the driver must name one"
	}
	lines := []string{"the Spark release of the cluster could not be found out"}
	for _, t := range e.Tried {
		lines = append(lines, "  "+t)
	}
	return strings.Join(lines, "\n")
}

// pageVersion finds the release on a page of Spark (ui/UIUtils.scala).
var pageVersion = regexp.MustCompile(`<span class="version[^"]*"[^>]*>\s*([0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.\-]*)\s*</span>`)

// FindRelease finds out which release to play: the one of the workers where raftmaster leads, which serves several, and
// that of Spark's own master. The error is a *ReleaseError, a *GatewayError or the context's.
func FindRelease(ctx context.Context, s Sources) (Release, error) {
	if s.Timeout == 0 {
		s.Timeout = 5 * time.Second
	}
	if s.Scheme == "" {
		s.Scheme = "http"
	}
	if s.Transport == nil {
		s.Transport = &http.Transport{DisableKeepAlives: true}
	}
	f := finder{sources: s, http: &http.Client{Timeout: s.Timeout, Transport: s.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	for _, step := range []func(context.Context) (Release, bool, error){f.web, f.gateways} {
		r, ok, err := step(ctx)
		if ok || err != nil {
			return r, err
		}
	}
	if err := ctx.Err(); err != nil {
		return Release{}, err
	}
	return Release{}, &ReleaseError{Tried: f.tried, Any: f.ours}
}

type finder struct {
	sources Sources
	http    *http.Client
	tried   []string
	// ours: a master is raftmaster, so that what a gateway says of itself is no news.
	ours bool
}

func (f *finder) note(format string, args ...any) {
	f.tried = append(f.tried, fmt.Sprintf(format, args...))
}

// get fetches a page; only a good answer is one.
func (f *finder) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, plainError(err, f.sources.Timeout)
	}
	const most = 16 << 20
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, plainError(err, f.sources.Timeout)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	return data, nil
}

// web asks the admin API for the workers, else reads the page of Spark's master.
func (f *finder) web(ctx context.Context) (Release, bool, error) {
	for _, base := range f.sources.Web {
		base = strings.TrimRight(base, "/")
		var v struct {
			Workers *[]struct {
				State        string `json:"state"`
				SparkVersion string `json:"spark_version"`
				Family       string `json:"family"`
				WebURL       string `json:"web_url"`
			} `json:"workers"`
		}
		data, err := f.get(ctx, base+"/v1/workers")
		if err == nil && json.Unmarshal(data, &v) == nil && v.Workers != nil {
			f.ours = true
			found := map[string]bool{}
			pages := 0
			for _, w := range *v.Workers {
				version := w.SparkVersion
				if w.State != "ALIVE" {
					continue
				}
				if version == "" && w.WebURL != "" && pages < maxPages {
					pages++
					version, _ = f.page(ctx, w.WebURL) // else the family has to do
				}
				if version == "" {
					version = familyRelease(w.Family)
				}
				if version != "" {
					found[version] = true
				}
			}
			versions := slices.Sorted(maps.Keys(found))
			switch len(versions) {
			case 1:
				return Release{Version: versions[0], From: "the workers known to " + base}, true, nil
			case 0:
				f.note("%s: knows no live worker", base)
			default:
				return Release{}, false, &ReleaseError{Found: versions, Any: true}
			}
			continue
		}
		version, err := f.page(ctx, base)
		if err == nil {
			return Release{Version: version, From: "the page of " + base}, true, nil
		}
		f.note("%s: %v", base, err)
	}
	return Release{}, false, nil
}

// maxPages bounds the workers whose own pages are read.
const maxPages = 16

// page reads the release off a page of Spark.
func (f *finder) page(ctx context.Context, base string) (string, error) {
	data, err := f.get(ctx, strings.TrimRight(base, "/")+"/")
	if err != nil {
		return "", err
	}
	if release := PageRelease(data); release != "" {
		return release, nil
	}
	return "", errors.New("its page names no release")
}

// PageRelease reads the release off a page of Spark's master or worker; "" where it names none.
func PageRelease(page []byte) string {
	if m := pageVersion.FindSubmatch(page); m != nil {
		return string(m[1])
	}
	return ""
}

// familyRelease is a release of the families that a worker can be of: in one Scala line a driver is described alike.
func familyRelease(families string) string {
	switch {
	case families == "":
		return ""
	case families == "A":
		return "3.3.0"
	case strings.Trim(families, "AB") == "":
		return "3.5.0"
	case families == "C":
		return "4.0.0"
	case families == "E":
		return "4.3.0"
	case strings.Trim(families, "CDE") == "":
		return "4.1.0"
	}
	return ""
}

// gateways asks REST servers for serverSparkVersion, and tries over RPC which line of Spark is understood.
func (f *finder) gateways(ctx context.Context) (Release, bool, error) {
	if f.ours {
		return Release{}, false, nil
	}
	rest := restClient{cfg: Config{Scheme: f.sources.Scheme, AskTimeout: f.sources.Timeout}, http: f.http}
	for _, m := range f.sources.REST {
		a, err := rest.call(ctx, http.MethodGet, m, "status/"+nobodysDriver, nil)
		if err != nil {
			f.note("REST gateway %s: %v", m, err)
			continue
		}
		if a.Version != "" {
			return Release{Version: a.Version, From: "the REST gateway " + m}, true, nil
		}
	}
	if len(f.sources.RPC) == 0 {
		return Release{}, false, nil
	}
	three, err3 := f.understands(ctx, "3.5.0")
	four, err4 := f.understands(ctx, "4.1.0")
	switch {
	case three && four:
		f.ours = true
		f.note("RPC gateway: it is raftmaster, which serves every release; the driver's decides which workers can run it")
	case three:
		return Release{Version: "3.5.0", From: "trying which messages the RPC gateway reads"}, true, nil
	case four:
		return Release{Version: "4.1.0", From: "trying which messages the RPC gateway reads"}, true, nil
	default:
		var wrong *GatewayError
		if errors.As(err3, &wrong) && strings.Contains(wrong.Text, speaksHTTP) {
			return Release{}, false, err3
		}
		if err3.Error() != err4.Error() {
			err3 = errors.Join(err3, err4)
		}
		f.note("RPC gateway: %v", err3)
	}
	return Release{}, false, nil
}

// understands tells whether some master answers a question of that release. A question about a driver that does not exist
// changes nothing, and is the same in all releases of one Scala line.
func (f *finder) understands(ctx context.Context, release string) (bool, error) {
	c, err := NewRPC(Config{Masters: f.sources.RPC, SparkVersion: release, AskTimeout: f.sources.Timeout, Patience: time.Nanosecond})
	if err != nil {
		return false, err
	}
	defer c.Close()
	answer, _, answers, err := c.(*rpcClient).statusRound(ctx, nobodysDriver)
	if answer != nil || anyStandby(answers) {
		return true, nil
	}
	if err == nil {
		err = &NoLeaderError{Answers: answers}
	}
	return false, err
}

// Known tells whether messages of that release can be written.
func Known(release string) bool {
	_, ok := sparkmsg.FamilyForRelease(release)
	return ok
}
