package launcher

import (
	"errors"
	"raftmaster/transport/sparkmsg"
)

// Home is a Spark installation.
type Home struct {
	// Dir is the absolute path, what SPARK_HOME says.
	Dir string
	// Release is the Spark release, such as "3.5.9"; Scala its Scala line, such as "2.12".
	Release, Scala string
}

// OpenHome reads which Spark is installed in dir, from the name of jars/spark-core_SCALA-RELEASE.jar. Its errors name
// what is missing.
func OpenHome(dir string) (*Home, error) { return nil, errors.New("not built yet") }

// FindHome opens the Spark installation that is meant: dir unless empty, else SPARK_HOME of env, else the installation
// that spark-class or spark-submit of env's PATH belongs to (an unpacked release, or PySpark installed by pip).
func FindHome(dir string, env []string) (*Home, error) { return nil, errors.New("not built yet") }

// Family is the protocol family of the installed release; an error if this program does not speak it.
func (h *Home) Family() (sparkmsg.Family, error) { return 0, errors.New("not built yet") }
