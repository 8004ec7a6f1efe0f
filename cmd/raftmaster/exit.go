package main

import (
	"errors"
	"io/fs"
	"net"
	"syscall"

	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
)

// loggedError is a failure that has been reported already.
type loggedError struct{ err error }

func (e *loggedError) Error() string { return e.err.Error() }
func (e *loggedError) Unwrap() error { return e.err }

// exitCode: exitUsage for what another start cannot change, so that a supervisor does not try for ever.
func exitCode(err error) int {
	var worker *workerError
	if errors.As(err, &worker) {
		return worker.code()
	}
	var usage *usageError
	if errors.As(err, &usage) || isHopeless(err) {
		return exitUsage
	}
	return exitFailed
}

// isHopeless: the configuration or the data directory must be corrected before a start can succeed. A port or a
// directory in use, a full disk and a name server that does not answer are not among them: they can pass.
func isHopeless(err error) bool {
	if errors.Is(err, raftstore.ErrInUse) {
		return false
	}
	for _, refusal := range []error{
		raftstore.ErrDamaged, raftstore.ErrForeign, raftstore.ErrOtherCluster,
		fs.ErrPermission, fs.ErrExist, syscall.ENOTDIR, syscall.EISDIR, syscall.EROFS, syscall.ENAMETOOLONG, syscall.ELOOP,
		syscall.EADDRNOTAVAIL,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	var level *fsm.LevelError
	var unknown *fsm.UnknownCommandError
	if errors.As(err, &level) || errors.As(err, &unknown) { // this release is too old for its data
		return true
	}
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}
