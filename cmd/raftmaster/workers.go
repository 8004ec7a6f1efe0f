package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

// workerStopGrace is how long a worker may take to stop its executors after SIGTERM.
const workerStopGrace = 15 * time.Second

// startWorkers runs real Spark workers as child processes until ctx ends. A worker that ends by itself is reported and
// not replaced: in a development cluster that is something to look at.
func startWorkers(ctx context.Context, sparkClass string, o devOptions, masters, dir string, log hclog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i := 1; i <= o.workers; i++ {
		name := "worker" + strconv.Itoa(i)
		args := []string{"org.apache.spark.deploy.worker.Worker", "--host", devHost, "--port", "0", "--webui-port", "0",
			"--cores", strconv.Itoa(o.cores), "--memory", o.memory, "--work-dir", filepath.Join(dir, name), masters}
		if err := startWorker(ctx, &wg, sparkClass, args, dir, name, log); err != nil {
			cancel() // the workers that did start are stopped
			wg.Wait()
			return fmt.Errorf("start %s: %w", name, err)
		}
	}
	wg.Wait()
	return nil
}

// startWorker starts one worker, whose output goes to a file, and a goroutine in wg that ends with it.
func startWorker(ctx context.Context, wg *sync.WaitGroup, sparkClass string, args []string, dir, name string, log hclog.Logger) error {
	if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// Not CommandContext, which kills: a worker gets the time to stop its executors.
	cmd := exec.Command(sparkClass, args...)
	cmd.Stdout, cmd.Stderr = out, out
	// A group of its own: a Ctrl-C at the terminal reaches this process alone, which then stops the workers in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return closeAfter(out, err)
	}
	log.Info("started a Spark worker", "name", name, "pid", cmd.Process.Pid, "log", out.Name())
	wg.Add(1)
	go func() {
		defer wg.Done()
		watchWorker(ctx, cmd, name, log)
		if err := out.Close(); err != nil {
			log.Warn("cannot close a worker's log", "name", name, "error", err)
		}
	}()
	return nil
}

// watchWorker waits for a worker, and stops it when ctx ends.
func watchWorker(ctx context.Context, cmd *exec.Cmd, name string, log hclog.Logger) {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		log.Error("a Spark worker ended by itself; it is not started again", "name", name, "result", resultOf(err))
		return
	case <-ctx.Done():
	}
	signalGroup(cmd, syscall.SIGTERM, name, log)
	timer := time.NewTimer(workerStopGrace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		log.Warn("a Spark worker did not stop in time and is killed", "name", name)
		signalGroup(cmd, syscall.SIGKILL, name, log)
		<-ended
	}
}

func signalGroup(cmd *exec.Cmd, sig syscall.Signal, name string, log hclog.Logger) {
	if err := syscall.Kill(-cmd.Process.Pid, sig); err != nil && err != syscall.ESRCH {
		log.Warn("cannot signal a Spark worker", "name", name, "signal", sig.String(), "error", err)
	}
}

func resultOf(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

func closeAfter(f *os.File, err error) error {
	if cerr := f.Close(); cerr != nil {
		return fmt.Errorf("%w (and %v)", err, cerr)
	}
	return err
}
