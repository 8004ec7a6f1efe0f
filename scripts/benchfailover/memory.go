package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"raftmaster/cluster/sparkpeer"
	"raftmaster/cluster/sparktest"
	"raftmaster/transport/frame"
)

// Memory is the resident anonymous memory of one master with many workers.
type Memory struct {
	Workers   int     `json:"workers"`
	IdleMB    float64 `json:"rss_anon_without_workers_mb"`
	RssAnonMB float64 `json:"rss_anon_mb"` // the largest of a minute of heartbeats
}

// memoryWithFleet registers the workers at one master, lets them send heartbeats
// for a minute, and reads RssAnon of the master's process once a second.
func memoryWithFleet(ctx context.Context, opts options) (Memory, error) {
	result := Memory{Workers: opts.fleet}
	if err := raiseFileLimit(uint64(4*opts.fleet + 200)); err != nil {
		return result, err
	}
	err := sparktest.Guard("bench-memory", progress, func(h sparktest.TB) (err error) {
		c := sparktest.NewCluster(h, sparktest.Options{Kind: sparktest.KindRaft, Masters: 1})
		leader := c.StartMasters()
		if result.IdleMB, err = rssAnonMB(leader.Process().PID()); err != nil {
			return err
		}
		fleet, err := sparkpeer.NewFleet(sparkpeer.FleetConfig{
			N: opts.fleet,
			Worker: sparkpeer.WorkerConfig{Common: sparkpeer.Common{
				Masters: []frame.Address{{Host: leader.Host, Port: 7077}}, Plain: true, Events: -1}},
			Net:  200 + os.Getpid()%50,
			Ramp: 2 * time.Second,
		})
		if err != nil {
			return err
		}
		defer fleet.Close()
		if err := fleet.WaitRegistered(2 * time.Minute); err != nil {
			return err
		}
		state, err := leader.JSON()
		if err != nil {
			return err
		}
		if state.AliveWorkers != opts.fleet {
			return fmt.Errorf("the master lists %d ALIVE workers", state.AliveWorkers)
		}
		for range 60 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
			}
			now, err := rssAnonMB(leader.Process().PID())
			if err != nil {
				return err
			}
			result.RssAnonMB = max(result.RssAnonMB, now)
		}
		return nil
	})
	return result, err
}

var rssAnon = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

func rssAnonMB(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	match := rssAnon.FindSubmatch(data)
	if match == nil {
		return 0, fmt.Errorf("/proc/%d/status has no RssAnon", pid)
	}
	kb, err := strconv.Atoi(string(match[1]))
	return float64(kb) / 1024, err
}

// raiseFileLimit asks for enough descriptors for the fleet's sockets here and at
// the master, which inherits the limit.
func raiseFileLimit(want uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Cur >= want {
		return nil
	}
	if limit.Max < want {
		return fmt.Errorf("a fleet needs %d file descriptors, the limit is %d (ulimit -Hn)", want, limit.Max)
	}
	limit.Cur = want
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
