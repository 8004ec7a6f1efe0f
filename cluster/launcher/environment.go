package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// EnvironmentTimeout is how long conf/spark-env.sh may take.
const EnvironmentTimeout = 30 * time.Second

// maxEnvironmentBytes bounds what comes back: more could not be handed to a process.
const maxEnvironmentBytes = 8 << 20

// loadEnvironment does what spark-class does before it starts the JVM (bin/spark-class, bin/load-spark-env.sh), and ends
// in env as spark-class ends in java, so that bash leaves the same variables. $1 is spark-env.sh. bash goes on behind a
// script that it cannot parse, and what the script would have set is missing: that is found out first.
const loadEnvironment = `if [ -z "$SPARK_ENV_LOADED" ] && [ -f "$1" ]; then "$BASH" -n "$1" || exit 101; fi
. "$SPARK_HOME/bin/load-spark-env.sh"
exec env -0 >&3 3>&-`

// Environment is the environment that a worker JVM started by spark-class from the environment base would have: Spark's
// bin/load-spark-env.sh, and with it conf/spark-env.sh, is run once under bash. A script that hangs, ends the shell or
// cannot be parsed is an error that names it. The settings of a worker (SPARK_WORKER_CORES and so on) may be in
// spark-env.sh: load the configuration from this environment, not from the process's own.
func Environment(ctx context.Context, h *Home, base []string) ([]string, error) {
	return EnvironmentOutput(ctx, h, base, io.Discard)
}

// EnvironmentOutput is Environment; what the scripts print to standard output and standard error goes to output, and the
// end of it into errors as well.
func EnvironmentOutput(ctx context.Context, h *Home, base []string, output io.Writer) (env []string, err error) {
	loader := filepath.Join(h.Dir, "bin", "load-spark-env.sh")
	if _, err := os.Stat(loader); err != nil {
		return nil, fmt.Errorf("the Spark installation %s is not complete: %w", h.Dir, err)
	}
	vars := newEnviron(base)
	vars.set("SPARK_HOME", h.Dir)
	bash, err := lookPath("bash", vars.get("PATH"))
	if err != nil {
		return nil, fmt.Errorf("%s needs bash: %w", loader, err)
	}
	confDir := vars.get("SPARK_CONF_DIR")
	if confDir == "" {
		confDir = h.Dir + "/conf"
	}
	sparkEnv := confDir + "/spark-env.sh"
	// A file, not a pipe: what the script starts in the background would keep a pipe open.
	result, err := os.CreateTemp("", "raftmaster-env-")
	if err != nil {
		return nil, fmt.Errorf("environment of the processes: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(result.Name()), result.Close()) }()
	said := &tail{limit: maxMessageBytes}
	run := script{argv: []string{bash, "-c", loadEnvironment, "bash", sparkEnv}, env: vars.entries(), files: []*os.File{result},
		timeout: EnvironmentTimeout, maxOutput: maxEnvironmentBytes, messages: io.MultiWriter(said, output)}
	printed, err := run.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s (run by %s): %w", sparkEnv, loader, err)
	}
	if _, err := output.Write(printed); err != nil {
		return nil, fmt.Errorf("output of %s: %w", sparkEnv, err)
	}
	text, err := io.ReadAll(io.NewSectionReader(result, 0, maxEnvironmentBytes))
	if err != nil {
		return nil, fmt.Errorf("environment of the processes: %w", err)
	}
	if env = splitEnvironment(text); env == nil {
		err = fmt.Errorf("%s ended the shell (exit) before the environment was complete", sparkEnv)
		return nil, withMessages(err, said.String())
	}
	return env, nil
}

// splitEnvironment reads the output of env -0: nil if there is none, or the last variable is cut.
func splitEnvironment(text []byte) []string {
	if !bytes.HasSuffix(text, []byte{0}) {
		return nil
	}
	return strings.Split(string(text[:len(text)-1]), "\x00")
}
