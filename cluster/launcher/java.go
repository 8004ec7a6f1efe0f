package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// JavaError says that the Java of a process cannot be started.
type JavaError struct {
	// Path is the java program that was meant, "" if none was found.
	Path string
	// Source says where it came from.
	Source string
	// Err is the reason.
	Err error
}

func (e *JavaError) Error() string {
	const advice = "install Java 17 or later, and set JAVA_HOME or PATH for the worker"
	if e.Path == "" {
		return fmt.Sprintf("no Java found: %v, and JAVA_HOME is not set; %s", e.Err, advice)
	}
	return fmt.Sprintf("the Java of %s cannot be started: %v; %s", e.Source, e.Err, advice)
}

func (e *JavaError) Unwrap() error { return e.Err }

// java gives the path of the java program for a command: JAVA_HOME of the command, else of the worker, joined literally
// as in AbstractCommandBuilder.buildJavaCommand; else, where Spark takes the home of the worker's own JVM, the java of
// the worker's PATH with symbolic links followed, which is the same home.
func java(vars pair) (path, source string, err error) {
	for _, from := range []struct {
		env    *environ
		source string
	}{
		{vars.command, "JAVA_HOME in the command's environment"},
		{vars.worker, "JAVA_HOME in the worker's environment"},
	} {
		if home := from.env.get("JAVA_HOME"); home != "" {
			return home + "/bin/java", from.source, nil
		}
	}
	found, err := lookPath("java", vars.worker.get("PATH"))
	if err != nil {
		return "", "", &JavaError{Err: err}
	}
	return filepath.Join(filepath.Dir(filepath.Dir(found)), "bin", "java"), "PATH in the worker's environment", nil
}

// checkJava makes sure that a process can be started with it.
func checkJava(path, source string) error {
	if err := checkExecutable(path); err != nil {
		return &JavaError{Path: path, Source: source, Err: err}
	}
	return nil
}

// CheckJava says what is wrong with the Java that processes without a JAVA_HOME of their own get: a worker warns of it at
// its start. The same error comes from Executor and Driver.
func (w *Worker) CheckJava() error {
	path, source, err := java(pair{command: newEnviron(nil), worker: newEnviron(w.Env)})
	if err != nil {
		return err
	}
	return checkJava(path, source)
}

var errNotExecutable = errors.New("not an executable file")

// checkExecutable: a regular file that this process may execute.
func checkExecutable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "execute", Path: path, Err: errNotExecutable}
	}
	const execute = 1 // X_OK of access(2)
	if err := syscall.Access(path, execute); err != nil {
		return &fs.PathError{Op: "execute", Path: path, Err: err}
	}
	if info.Mode().Perm()&0o111 == 0 { // root passes access(2) only if some x bit is set; be plain about it
		return &fs.PathError{Op: "execute", Path: path, Err: errNotExecutable}
	}
	return nil
}
