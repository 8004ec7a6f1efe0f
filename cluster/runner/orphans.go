package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// orphanHard is how long an orphan has after SIGKILL before EndOrphans gives it up.
const orphanHard = 10 * time.Second

// Orphan is a process of an earlier worker that EndOrphans ended.
type Orphan struct {
	Name, Dir string
	Pid       int
	// Members is how many processes of its group and session there were, itself included.
	Members int
}

// orphan is one under way.
type orphan struct {
	Orphan
	path    string
	entry   entry
	members []procStat
}

// EndOrphans ends what an earlier worker process with this work directory left running, all groups at the same time, and
// returns what it ended. An error names what is still there; its ledger entry stays, for the next start. It is meant to be
// called once, before the first Start.
func (r *Runner) EndOrphans(ctx context.Context) ([]Orphan, error) {
	paths, err := r.ledger.earlier()
	if err != nil {
		return nil, fmt.Errorf("ledger of processes: %w", err)
	}
	if len(paths) == 0 {
		return nil, nil
	}
	var found []*orphan
	for _, path := range paths {
		e, err := readEntry(path)
		if err != nil {
			r.log.Warn("ledger entry of an earlier worker is left out", "file", path, "error", err)
			r.dropEntry(path)
			continue
		}
		if e.Boot != r.ledger.boot || e.Namespace != r.ledger.namespace {
			r.dropEntry(path) // the machine was started again, or the container: no process of that time exists
			continue
		}
		found = append(found, &orphan{Orphan: Orphan{Name: e.Name, Dir: e.Dir, Pid: e.Pid}, path: path, entry: e})
	}
	return r.endAll(ctx, found)
}

func (r *Runner) dropEntry(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.log.Warn("ledger entry cannot be removed", "file", path, "error", err)
	}
}

// endAll asks, then forces, until nothing is left.
func (r *Runner) endAll(ctx context.Context, found []*orphan) ([]Orphan, error) {
	var ended []Orphan
	begin := time.Now()
	asked := map[string]bool{}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		all, err := scanProcesses()
		if err != nil {
			return ended, fmt.Errorf("processes cannot be listed: %w", err)
		}
		var left []*orphan
		for _, o := range found {
			o.members = o.living(all)
			o.Members = max(o.Members, len(o.members))
			if len(o.members) > 0 {
				left = append(left, o)
				continue
			}
			if o.Members > 0 {
				ended = append(ended, o.Orphan)
			}
			r.dropEntry(o.path)
		}
		found = left
		age := time.Since(begin)
		if len(found) == 0 {
			return ended, nil
		}
		if age > r.orphanGrace+orphanHard {
			return ended, orphansLeft(found, errors.New("they survive SIGKILL"))
		}
		r.signalOrphans(found, age, asked)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ended, orphansLeft(found, ctx.Err())
		}
	}
}

func (r *Runner) signalOrphans(found []*orphan, age time.Duration, asked map[string]bool) {
	for _, o := range found {
		sig := unix.SIGKILL
		if age < r.orphanGrace {
			if asked[o.path] {
				continue
			}
			asked[o.path], sig = true, unix.SIGTERM
			r.log.Info("ending what an earlier worker left running", "name", o.Name, "pid", o.Pid, "processes", len(o.members))
		}
		// One by one, each checked by its start time: a group id is not held by us, and could be another's by now.
		for _, m := range o.members {
			if err := signalExactly(m, sig); err != nil {
				r.log.Warn("cannot signal an orphan", "name", o.Name, "pid", m.pid, "error", err)
			}
		}
	}
}

func orphansLeft(found []*orphan, why error) error {
	var names []string
	for _, o := range found {
		names = append(names, fmt.Sprintf("%s (pid %d)", o.Name, o.Pid))
	}
	return fmt.Errorf("orphans still run: %s: %w", strings.Join(names, ", "), why)
}

// living finds the entry's processes that run: the leader, and the members of its group and session.
func (o *orphan) living(all []procStat) []procStat {
	if o.Pid == 0 {
		o.identify(all)
		if o.Pid == 0 {
			return nil
		}
	}
	leaderIs := leaderGone
	for _, s := range all {
		if s.pid == o.Pid {
			leaderIs = leaderOther
			if s.start == o.entry.Start {
				leaderIs = leaderOurs
			}
		}
	}
	if leaderIs == leaderOther {
		// The kernel gives no id to a new process while a group or session has it: nothing of ours is left.
		return nil
	}
	var members []procStat
	for _, s := range all {
		switch {
		case s.ended():
		case s.pid == o.Pid:
			members = append(members, s)
		case s.group != o.Pid && s.session != o.Pid:
		case leaderIs == leaderOurs || s.start >= o.entry.Start && runsBelow(s.pid, o.Dir):
			// With the leader gone the id might have been given away and be a leader's again that is gone too: believe it
			// only of processes in the child's own directory.
			members = append(members, s)
		}
	}
	return members
}

const (
	leaderGone = iota
	leaderOurs
	leaderOther
)

// identify finds the child of a worker that died between fork and the note of the process id: a session leader, started
// since, in the child's directory and with exactly its arguments.
func (o *orphan) identify(all []procStat) {
	for _, s := range all {
		if s.ended() || s.session != s.pid || s.start+1 < o.entry.After || !runsBelow(s.pid, o.Dir) {
			continue
		}
		cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/cmdline")
		if err == nil && argvDigest(cmdline) == o.entry.Argv {
			o.Pid, o.entry.Pid, o.entry.Start = s.pid, s.pid, s.start
			return
		}
	}
}

// runsBelow is true if the process's working directory is dir or in it.
func runsBelow(pid int, dir string) bool {
	cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return false
	}
	cwd = strings.TrimSuffix(cwd, " (deleted)")
	if real, err := filepath.EvalSymlinks(dir); err == nil && within(cwd, real) {
		return true
	}
	return within(cwd, dir)
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
