package launcher

import (
	"context"
	"errors"
	"io"
	"time"
)

// EnvironmentTimeout is how long conf/spark-env.sh may take.
const EnvironmentTimeout = 30 * time.Second

// Environment is the environment that a worker JVM started by spark-class from the environment base would have: Spark's
// bin/load-spark-env.sh, and with it conf/spark-env.sh, is run once under bash. A script that hangs, ends the shell or
// cannot be parsed is an error that names it. The settings of a worker (SPARK_WORKER_CORES and so on) may be in
// spark-env.sh: load the configuration from this environment, not from the process's own.
func Environment(ctx context.Context, h *Home, base []string) ([]string, error) {
	return EnvironmentOutput(ctx, h, base, io.Discard)
}

// EnvironmentOutput is Environment; what the scripts print goes to output as well as into errors.
func EnvironmentOutput(ctx context.Context, h *Home, base []string, output io.Writer) ([]string, error) {
	return nil, errors.New("not built yet")
}
