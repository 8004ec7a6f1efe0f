package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"raftmaster/cluster/app"
	"raftmaster/cluster/sparktest"
)

const (
	patience = 2 * time.Minute
	pollGap  = 2 * time.Millisecond
)

// memory of a process, MB of 2^20 bytes.
type memory struct{ rss, anon float64 }

// sample is what one start of one worker gave. Times are milliseconds.
type sample struct {
	registered                     float64 // start of the process to its entry at the master
	idle, executor                 memory
	running, configAsked, launched float64 // after the executor was granted
	cpuRegistered, cpu             float64 // of the worker's process: until it was registered, and at the end
}

// measure starts one worker at a fresh master of ours, and one executor on it.
func measure(ctx context.Context, spark sparktest.Spark, kind sparktest.WorkerKind, settle time.Duration) (s sample, err error) {
	err = sparktest.Guard("bench-worker", progress, func(tb sparktest.TB) error {
		c := sparktest.NewCluster(tb, sparktest.Options{Kind: sparktest.KindRaft, Masters: 1, Spark: spark})
		master := c.StartMasters()
		began := time.Now()
		// Spark's default size of a daemon, which the tests make smaller.
		w := c.StartWorker(sparktest.WorkerOptions{Kind: kind, Cores: 1, Memory: "1g", Env: map[string]string{"SPARK_DAEMON_MEMORY": "1g"}})
		if err := waitRegistered(ctx, master, w); err != nil {
			return err
		}
		s.registered = ms(time.Since(began))
		if s.cpuRegistered, err = cpuOf(w.PID()); err != nil {
			return err
		}
		if s.idle, err = memoryAfter(ctx, w.PID(), settle); err != nil {
			return err
		}
		if err := s.withExecutor(ctx, c, w, spark, settle); err != nil {
			return err
		}
		s.cpu, err = cpuOf(w.PID())
		return err
	})
	return s, err
}

func waitRegistered(ctx context.Context, master *sparktest.Master, w *sparktest.Worker) error {
	deadline := time.Now().Add(patience)
	for {
		state, err := master.JSON()
		if err == nil {
			if _, err = state.Worker(w.Host, "ALIVE"); err == nil {
				return nil
			}
		}
		if time.Now().After(deadline) || ctx.Err() != nil || !w.Running() {
			return fmt.Errorf("%s is not registered: %w", w.Name, errors.Join(err, ctx.Err()))
		}
		time.Sleep(pollGap)
	}
}

// withExecutor runs one executor of an application that gives it nothing to do.
func (s *sample) withExecutor(ctx context.Context, c *sparktest.Cluster, w *sparktest.Worker, spark sparktest.Spark, settle time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience+settle)
	defer cancel()
	host := c.ClientHost(0)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	a, err := app.New(app.Config{Masters: []string{c.URL()}, Release: spark.Release, Host: host, Name: "bench-worker", MaxCores: 1, MemoryMB: 512,
		Dial: dialer.DialContext})
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.Start(ctx); err != nil {
		return err
	}
	list, err := a.Driver().Wait(ctx, func(list []app.Executor) bool {
		return len(list) == 1 && (list[0].Reached(app.StepHeartbeat) || list[0].Failure != nil)
	})
	if err != nil {
		return err
	}
	e := list[0]
	if e.Failure != nil {
		return fmt.Errorf("the executor failed: %+v", *e.Failure)
	}
	since := func(step app.Step) float64 { return ms(e.Times[step].Sub(e.Times[app.StepGranted])) }
	s.running, s.configAsked, s.launched = since(app.StepRunning), since(app.StepConfigAsked), since(app.StepLaunched)
	if s.executor, err = memoryAfter(ctx, w.PID(), settle); err != nil {
		return err
	}
	return a.Stop(ctx)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

var statusLine = regexp.MustCompile(`(?m)^(VmRSS|RssAnon):\s+(\d+) kB$`)

// memoryAfter reads the memory of a process after a time.
func memoryAfter(ctx context.Context, pid int, settle time.Duration) (m memory, err error) {
	select {
	case <-ctx.Done():
		return m, ctx.Err()
	case <-time.After(settle):
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m, err
	}
	for _, match := range statusLine.FindAllStringSubmatch(string(data), -1) {
		kb, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return m, err
		}
		if match[1] == "VmRSS" {
			m.rss = kb / 1024
		} else {
			m.anon = kb / 1024
		}
	}
	if m.rss == 0 {
		return m, fmt.Errorf("/proc/%d/status has no VmRSS", pid)
	}
	return m, nil
}

// clockTick is that of /proc on Linux (USER_HZ), whatever the kernel's own.
const clockTick = 100

// cpuOf is the processor time of a process alone, in milliseconds.
func cpuOf(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const utime, stime = 11, 12 // behind the name
	if len(fields) <= stime {
		return 0, syscall.EINVAL
	}
	sum := 0.0
	for _, i := range []int{utime, stime} {
		ticks, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return 0, err
		}
		sum += ticks
	}
	return sum * 1000 / clockTick, nil
}
