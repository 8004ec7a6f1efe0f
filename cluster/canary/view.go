package canary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"raftmaster/cluster/submit"
)

// maxPage bounds an answer of a web UI: 10,000 workers are about 10 MB.
const maxPage = 64 << 20

// web reads what masters and workers show.
type web struct {
	urls []string
	http *http.Client
}

func newWeb(cfg *Config) *web {
	transport := cfg.Transport
	if transport == nil {
		transport = &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: cfg.AskTimeout}).DialContext}
	}
	return &web{urls: cfg.WebURLs, http: &http.Client{Timeout: cfg.AskTimeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// get fetches a page of at most limit bytes; what is longer is cut.
func (w *web) get(ctx context.Context, address string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, shorter(err)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	return data, nil
}

func (w *web) getJSON(ctx context.Context, address string, v any) error {
	data, err := w.get(ctx, address, maxPage)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return errors.New("its answer is no JSON of a master")
	}
	return nil
}

func shorter(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var t interface{ Timeout() bool }
	if errors.As(err, &t) && t.Timeout() {
		return errors.New("no answer in time")
	}
	return err
}

// view is what a leader shows of its cluster.
type view struct {
	leader  string // URL of its web UI
	masters []string
	ours    bool // raftmaster
	release string
	workers []workerView
}

// workerView is one worker. A release of "" is not known.
type workerView struct {
	id, address, webURL, state string
	host                       string
	coresFree, memoryFreeMB    int
	cores, memoryMB            int
	release, family            string
	draining                   bool
	note                       string
}

// load reads the view of the leader, wherever it is.
func (w *web) load(ctx context.Context) (*view, error) {
	var failures []string
	for _, u := range w.urls {
		u = strings.TrimRight(u, "/")
		v, err := w.admin(ctx, u)
		if err == nil && v == nil {
			v, err = w.spark(ctx, u)
		}
		if err != nil {
			failures = append(failures, fmt.Sprintf("  %s: %v", u, err))
			continue
		}
		return v, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, &NoLeaderError{Tried: failures}
}

// NoLeaderError says that no web UI shows a leader.
type NoLeaderError struct{ Tried []string }

// Error implements error.
func (e *NoLeaderError) Error() string {
	return "no leader was found at the web UIs of the masters:\n" + strings.Join(e.Tried, "\n")
}

// admin asks raftmaster's API; nil without an error when this is none.
func (w *web) admin(ctx context.Context, base string) (*view, error) {
	type status struct {
		State      string `json:"state"`
		LeaseValid bool   `json:"lease_valid"`
		ClusterURL string `json:"cluster_url"`
		Leader     *struct {
			WebURL string `json:"web_url"`
		} `json:"leader"`
	}
	var st status
	if data, err := w.get(ctx, base+"/v1/status", maxPage); err != nil || json.Unmarshal(data, &st) != nil || st.ClusterURL == "" {
		if err != nil && !strings.HasPrefix(err.Error(), "HTTP status") {
			return nil, err
		}
		return nil, nil // Spark's master shows its page
	}
	if st.State != "ALIVE" {
		if st.Leader == nil || st.Leader.WebURL == "" {
			return nil, errors.New("it is a standby that knows no leader")
		}
		base = strings.TrimRight(st.Leader.WebURL, "/")
		st = status{}
		if err := w.getJSON(ctx, base+"/v1/status", &st); err != nil {
			return nil, fmt.Errorf("its leader %s: %w", base, err)
		}
		if st.State != "ALIVE" {
			return nil, fmt.Errorf("its leader %s leads no more", base)
		}
	}
	v := &view{leader: base, ours: true, masters: splitMasters(st.ClusterURL)}
	return v, w.adminWorkers(ctx, v)
}

func (w *web) adminWorkers(ctx context.Context, v *view) error {
	var list struct {
		Workers []struct {
			ID           string `json:"id"`
			Host         string `json:"host"`
			Port         int    `json:"port"`
			WebURL       string `json:"web_url"`
			State        string `json:"state"`
			Cores        int    `json:"cores"`
			CoresUsed    int    `json:"cores_used"`
			MemoryMB     int    `json:"memory_mb"`
			MemoryUsedMB int    `json:"memory_used_mb"`
			Draining     bool   `json:"draining"`
			SparkVersion string `json:"spark_version"`
			Family       string `json:"family"`
			Note         string `json:"note"`
		} `json:"workers"`
	}
	if err := w.getJSON(ctx, v.leader+"/v1/workers", &list); err != nil {
		return err
	}
	for _, x := range list.Workers {
		v.workers = append(v.workers, workerView{id: x.ID, host: x.Host, address: net.JoinHostPort(x.Host, strconv.Itoa(x.Port)), webURL: x.WebURL, state: x.State,
			cores: x.Cores, coresFree: x.Cores - x.CoresUsed, memoryMB: x.MemoryMB, memoryFreeMB: x.MemoryMB - x.MemoryUsedMB,
			release: x.SparkVersion, family: x.Family, draining: x.Draining, note: x.Note})
	}
	return nil
}

// sparkState is /json of a master (deploy/JsonProtocol.scala).
type sparkState struct {
	URL     string `json:"url"`
	Status  string `json:"status"`
	Workers []struct {
		ID           string `json:"id"`
		Host         string `json:"host"`
		Port         int    `json:"port"`
		WebUIAddress string `json:"webuiaddress"`
		Cores        int    `json:"cores"`
		CoresFree    int    `json:"coresfree"`
		Memory       int    `json:"memory"`
		MemoryFree   int    `json:"memoryfree"`
		State        string `json:"state"`
	} `json:"workers"`
	ActiveApps []struct {
		ID string `json:"id"`
	} `json:"activeapps"`
}

// spark reads /json of Spark's master. Which release it is stands on its page: its workers are of the same.
func (w *web) spark(ctx context.Context, base string) (*view, error) {
	var st sparkState
	if err := w.getJSON(ctx, base+"/json/", &st); err != nil {
		return nil, err
	}
	if st.Status != "ALIVE" {
		return nil, fmt.Errorf("it is %s", st.Status)
	}
	v := &view{leader: base, masters: splitMasters(st.URL)}
	if page, err := w.get(ctx, base+"/", 1<<20); err == nil {
		v.release = submit.PageRelease(page)
	}
	for _, x := range st.Workers {
		v.workers = append(v.workers, workerView{id: x.ID, host: x.Host, address: net.JoinHostPort(x.Host, strconv.Itoa(x.Port)), webURL: x.WebUIAddress, state: x.State,
			cores: x.Cores, coresFree: x.CoresFree, memoryMB: x.Memory, memoryFreeMB: x.MemoryFree, release: v.release})
	}
	return v, nil
}

// splitMasters takes spark://a:1,b:2 apart.
func splitMasters(url string) []string {
	list := strings.Split(strings.TrimPrefix(url, "spark://"), ",")
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// releases fills in what the leader does not know, from the workers' own pages.
func (w *web) releases(ctx context.Context, workers []*workerView) {
	const atOnce = 16
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, x := range workers {
		if x.release != "" || x.webURL == "" {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if page, err := w.get(ctx, strings.TrimRight(x.webURL, "/")+"/", 1<<20); err == nil {
				x.release = submit.PageRelease(page)
			}
		})
	}
	wg.Wait()
}

// stderr is the end of an executor's standard error, as its worker shows it; "" when it shows none.
func (w *web) stderr(ctx context.Context, worker *workerView, app string, executor int32) string {
	const tail = 4096
	if worker.webURL == "" {
		return ""
	}
	q := url.Values{"appId": {app}, "executorId": {strconv.Itoa(int(executor))}, "logType": {"stderr"}, "byteLength": {strconv.Itoa(tail)}}
	text, err := w.get(ctx, strings.TrimRight(worker.webURL, "/")+"/log/?"+q.Encode(), 2*tail)
	if err != nil {
		return ""
	}
	s := string(text)
	if strings.HasPrefix(s, "====") { // the line that says which bytes these are
		_, s, _ = strings.Cut(s, "\n")
	}
	s = strings.TrimSpace(strings.ToValidUTF8(s, "?"))
	if strings.HasPrefix(s, "Error: invalid log directory") || strings.HasPrefix(s, "Error: Log type") {
		return "" // the worker's own words: there is no such log
	}
	return s
}

// leftovers says what is left of applications in the cluster; "" when it was seen that nothing is.
func (w *web) leftovers(ctx context.Context, apps []string, touched []*workerView) string {
	v, err := w.load(ctx)
	if err != nil {
		return "could not be looked for: " + err.Error()
	}
	var st sparkState
	if err := w.getJSON(ctx, v.leader+"/json/", &st); err != nil {
		return fmt.Sprintf("could not be looked for: %s: %v", v.leader, err)
	}
	var left []string
	for _, a := range st.ActiveApps {
		if slices.Contains(apps, a.ID) {
			left = append(left, "application "+a.ID)
		}
	}
	for _, x := range touched {
		var shown struct {
			Executors []struct {
				AppID string      `json:"appid"`
				ID    json.Number `json:"id"`
			} `json:"executors"`
		}
		if x.webURL == "" || w.getJSON(ctx, strings.TrimRight(x.webURL, "/")+"/json/", &shown) != nil {
			continue // the leader's word has to do
		}
		for _, e := range shown.Executors {
			if slices.Contains(apps, e.AppID) {
				left = append(left, fmt.Sprintf("executor %s of %s on %s", e.ID, e.AppID, x.id))
			}
		}
	}
	return strings.Join(left, ", ")
}

// untilGone looks for leftovers until there are none, or patience has passed.
func (w *web) untilGone(ctx context.Context, apps []string, touched []*workerView, patience time.Duration) string {
	deadline := time.Now().Add(patience)
	for {
		left := w.leftovers(ctx, apps, touched)
		if left == "" || time.Now().After(deadline) || ctx.Err() != nil {
			return left
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}
