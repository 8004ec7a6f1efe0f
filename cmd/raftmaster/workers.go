package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"raftmaster/cluster/config"
)

const (
	// devLeaderWait bounds how long the workers of a development cluster wait for its first leader: a worker that meets
	// none waits several seconds before it asks again.
	devLeaderWait = 10 * time.Second
	devLeaderPoll = 20 * time.Millisecond
)

// runWorkers runs the workers of a development cluster in this process, or says loudly why there are none although they were
// asked for.
func (p *program) runWorkers(ctx context.Context, o devOptions, cfgs []config.Config, dir string, log hclog.Logger) error {
	if o.workers == 0 {
		return nil
	}
	masters := cfgs[0].ClusterURL()
	if home, _ := p.lookupEnv("SPARK_HOME"); home == "" {
		if !o.workersAsked {
			return nil // printDev has said so
		}
		log.Warn("NO WORKERS STARTED: SPARK_HOME is not set, so there is no Spark whose executors they could start; "+
			"set it to a Spark 3.2 to 4.3 installation, or start workers yourself", "wanted", o.workers, "master_url", masters)
		return nil
	}
	waitForLeader(ctx, cfgs)
	group, gctx := errgroup.WithContext(ctx)
	for i := 1; i <= o.workers; i++ {
		name := "worker" + strconv.Itoa(i)
		flags := o.workerFlags(masters, filepath.Join(dir, name), i)
		cfg, warnings, err := workerConfig(ctx, devEnvironment(p.environ()), flags)
		if err != nil {
			log.Warn("NO WORKERS STARTED: "+err.Error(), "wanted", o.workers)
			break
		}
		cfg.Settings.WebUIHost = devHost
		cfg.Log = log.Named(name)
		for _, w := range warnings {
			cfg.Log.Warn(string(w))
		}
		group.Go(func() error {
			if err := p.work(gctx, cfg); err != nil {
				// It is not started again: in a development cluster that is something to look at.
				cfg.Log.Error("a worker ended by itself; it is not started again", "name", name, "error", err)
			}
			return nil
		})
	}
	return group.Wait()
}

// workerUI is the port of a worker's pages; a taken one is followed by the next, as its log says.
func (o devOptions) workerUI(number int) int {
	return o.basePort + devWebUIOffset + o.masters + number - 1
}

// workerFlags are those of one worker of a development cluster. The web UIs follow those of the masters.
func (o devOptions) workerFlags(masters, workDir string, number int) config.WorkerFlags {
	host, port, ui := devHost, 0, o.workerUI(number)
	return config.WorkerFlags{Masters: &masters, Host: &host, Port: &port, WebUIPort: &ui, Cores: &o.cores, Memory: &o.memory,
		WorkDir: &workDir, LogLevel: &o.logLevel, LogJSON: &o.logJSON}
}

// devEnvironment leaves out what is meant for one worker on a machine of its own.
func devEnvironment(environ []string) []string {
	out := make([]string, 0, len(environ))
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "SPARK_WORKER_") && !strings.HasPrefix(entry, "SPARK_PUBLIC_DNS=") && !strings.HasPrefix(entry, "SPARK_LOCAL_IP=") {
			out = append(out, entry)
		}
	}
	return out
}

// waitForLeader returns when one of the masters says that it leads, or after devLeaderWait.
func waitForLeader(ctx context.Context, cfgs []config.Config) {
	ctx, cancel := context.WithTimeout(ctx, devLeaderWait)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	for ctx.Err() == nil {
		for _, cfg := range cfgs {
			if leads(ctx, client, "http://"+net.JoinHostPort(cfg.WebUIHost, strconv.Itoa(cfg.WebUIPort))+"/leader") {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(devLeaderPoll):
		}
	}
}

func leads(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// workersHint is the line that tells how jobs get to the cluster.
func (o devOptions) workersHint(p *program, masters string) string {
	home, _ := p.lookupEnv("SPARK_HOME")
	switch {
	case o.workers == 0:
		return "  workers      none\n"
	case home == "":
		return "  workers      none: set SPARK_HOME to a Spark installation to get some\n"
	}
	first, last := o.workerUI(1), o.workerUI(o.workers)
	pages := "http://" + net.JoinHostPort(devHost, strconv.Itoa(first)) + "/"
	if last != first {
		pages += " to " + strconv.Itoa(last)
	}
	return fmt.Sprintf("  workers      %d of Spark in %s, pages at %s\n  run a job    %s --master %s ...\n", o.workers, home, pages, sparkSubmit(p), masters)
}

// sparkSubmit is the command of SPARK_HOME, or else the one that a PATH has.
func sparkSubmit(p *program) string {
	if home, _ := p.lookupEnv("SPARK_HOME"); home != "" {
		return filepath.Join(home, "bin", "spark-submit")
	}
	return "spark-submit"
}
