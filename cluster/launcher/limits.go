package launcher

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
)

// ErrTooLarge: the system cannot start a process with so many or so long arguments and variables.
var ErrTooLarge = errors.New("the command is too large for this system")

// StringError refuses a string that no process can be given.
type StringError struct {
	// What names the string without its value, which may be a secret.
	What string
	// Reason is what is wrong with it.
	Reason string
}

func (e *StringError) Error() string { return e.What + " " + e.Reason }

const hasNUL = "has a NUL byte"

// checkStrings refuses what execve(2) would refuse, or worse, cut short. firstArgument is the index of the first argument
// behind the main class.
func checkStrings(c Command, firstArgument int) error {
	if strings.IndexByte(c.Dir, 0) >= 0 {
		return &StringError{What: "the working directory", Reason: hasNUL}
	}
	limit := os.Getpagesize() * 32 // MAX_ARG_STRLEN of Linux, the NUL at the end included
	total := 0
	for i, a := range c.Argv {
		if err := checkString(a, limit, func() string { return nameOf(i, firstArgument, a) }); err != nil {
			return err
		}
		total += len(a) + 1
	}
	for _, entry := range c.Env {
		name, _, _ := strings.Cut(entry, "=")
		if err := checkString(entry, limit, func() string { return fmt.Sprintf("environment variable %q", name) }); err != nil {
			return err
		}
		total += len(entry) + 1
	}
	const pointer = 8
	total += pointer * (len(c.Argv) + len(c.Env))
	if most := argumentSpace(); total > most {
		return fmt.Errorf("%w: its %d arguments and %d variables have %d bytes, and %d are possible (ulimit -s)", ErrTooLarge,
			len(c.Argv), len(c.Env), total, most)
	}
	return nil
}

func checkString(s string, limit int, what func() string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return &StringError{What: what(), Reason: hasNUL}
	}
	if len(s) >= limit {
		return fmt.Errorf("%w: %s has %d bytes, and %d are possible", ErrTooLarge, what(), len(s), limit-1)
	}
	return nil
}

// nameOf tells which string of an argument vector is meant.
func nameOf(i, firstArgument int, text string) string {
	switch {
	case i == 0:
		return "the path of java"
	case i >= firstArgument:
		return fmt.Sprintf("argument %d", i-firstArgument+1)
	case i == firstArgument-1:
		return "the main class"
	}
	if key, _, ok := strings.Cut(text, "="); ok && strings.HasPrefix(key, "-") && len(key) < 200 {
		return fmt.Sprintf("java option %q", key)
	}
	return fmt.Sprintf("java option number %d", i)
}

// argumentSpace is what Linux allows the strings and pointers of arguments and environment together: a quarter of the
// stack, at most 6 MiB, at least 128 KiB (fs/exec.c, bprm_stack_limits).
func argumentSpace() int {
	const least, most = 128 << 10, 6 << 20
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &r); err != nil || r.Cur > math.MaxInt64 {
		return most
	}
	return int(min(max(r.Cur/4, least), most))
}

// StartError explains why starting cmd failed with err, in words for the master: java, the directory, or the size.
func StartError(cmd Command, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("%w (%w)", ErrTooLarge, err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s is no program for this machine: %w", cmd.program(), err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOTDIR):
		if !isDirectory(cmd.Dir) {
			return fmt.Errorf("the working directory %s is gone: %w", cmd.Dir, err)
		}
		if javaErr := checkJava(cmd.program(), "this process"); javaErr != nil {
			return javaErr
		}
	}
	return fmt.Errorf("start %s: %w", cmd.program(), err)
}

func (c Command) program() string {
	if len(c.Argv) == 0 {
		return "nothing"
	}
	return c.Argv[0]
}
