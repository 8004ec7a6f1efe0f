package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// StartError says why nothing was started. Its text is one sentence for an operator, without arguments or environment
// (they may hold secrets).
type StartError struct {
	// Op is what failed: "start", "make directory", "open log file"...
	Op string
	// Path is the program, directory or file concerned.
	Path string
	// Err is the cause, usually an errno.
	Err error
	// Hint says what is wrong in other words, and what to do; often empty.
	Hint string
}

func (e *StartError) Error() string {
	text := fmt.Sprintf("%s %s: %v", e.Op, e.Path, cause(e.Err))
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

func (e *StartError) Unwrap() error { return e.Err }

// cause strips what package os wraps around an errno, because StartError names the path itself.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// dirError is the error of a directory or file in the work directory.
func dirError(op, path string, err error) error {
	return &StartError{Op: op, Path: path, Err: err, Hint: fileHint(err)}
}

// fileHint explains the errno of a file operation.
func fileHint(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "the disk is full, out of inodes, or over quota: make room in the work directory, or let the worker clean it (spark.worker.cleanup.*)"
	case errors.Is(err, unix.EROFS):
		return "the file system is read-only: often after a disk error"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Sprintf("user %d may not write there", os.Geteuid())
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "too many open files: raise the limit (ulimit -n)"
	case errors.Is(err, unix.ENOTDIR):
		return "a part of the path is no directory"
	case errors.Is(err, unix.ELOOP):
		return "a symbolic link is not accepted there"
	}
	return ""
}

// forkError explains the errno of fork, chdir or exec, which the kernel gives as one.
func forkError(s Spec, program string, err error) error {
	e := &StartError{Op: "start", Path: program, Err: err}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		e.Hint = missing(s.Dir, program)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		e.Hint = fmt.Sprintf("user %d may not execute it, or its file system is mounted noexec", os.Geteuid())
	case errors.Is(err, unix.E2BIG):
		e.Hint = tooBig(s)
	case errors.Is(err, unix.EAGAIN):
		e.Hint = "limit of processes reached: ulimit -u of this user, or pids.max of the control group"
	case errors.Is(err, unix.ENOMEM):
		e.Hint = "the kernel has no memory for another process"
	case errors.Is(err, unix.ENOEXEC):
		e.Hint = "it is no program of this machine's architecture, or a script without #!"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		e.Hint = fileHint(err)
	}
	return e
}

// missing tells which of the things that exec needs is not there.
func missing(dir, program string) string {
	if _, err := os.Stat(dir); err != nil {
		return "the working directory " + dir + " is not there"
	}
	path := program
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if _, err := os.Stat(path); err == nil {
		return "the program is there, but its interpreter or loader is not"
	}
	if filepath.Base(program) == "java" {
		return "no Java there: check JAVA_HOME of the worker and of the application (spark.executorEnv.JAVA_HOME)"
	}
	return "no such program"
}

// tooBig names the sizes, never the contents.
func tooBig(s Spec) string {
	total, longest, what := 0, 0, ""
	for i, a := range s.Argv {
		total += len(a) + 1
		if len(a) > longest {
			longest, what = len(a), fmt.Sprintf("argument %d", i)
		}
	}
	for _, v := range s.Env {
		total += len(v) + 1
		if name, _, _ := strings.Cut(v, "="); len(v) > longest {
			longest, what = len(v), "variable "+clip(name)
		}
	}
	return fmt.Sprintf("arguments and environment are %d bytes, the longest is %s with %d; the kernel takes 131,071 for one and by default 2 MiB together",
		total, what, longest)
}

// clip keeps a name short enough for a message.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// lookup resolves a program without a slash in the PATH of the child's environment, as exec does.
func lookup(s Spec) (string, error) {
	program := s.Argv[0]
	if strings.Contains(program, "/") {
		return program, nil
	}
	path := ""
	for _, v := range s.Env {
		if rest, ok := strings.CutPrefix(v, "PATH="); ok {
			path = rest
		}
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, program)
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(dir) {
			return candidate, nil
		}
	}
	return "", &StartError{Op: "start", Path: program, Err: unix.ENOENT, Hint: "not found in the PATH of its environment"}
}
