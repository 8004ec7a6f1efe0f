package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"raftmaster/transport/sparkmsg"
)

// Home is a Spark installation.
type Home struct {
	// Dir is the absolute path, what SPARK_HOME says.
	Dir string
	// Release is the Spark release, such as "3.5.9"; Scala its Scala line, such as "2.12".
	Release, Scala string
}

var (
	coreJar = regexp.MustCompile(`^spark-core_([0-9]+\.[0-9]+)-([0-9]+\.[0-9]+.*)\.jar$`)

	errNoHome = errors.New("no Spark installation found: set SPARK_HOME to an unpacked Spark release (or to the pyspark directory of PySpark)")
)

// OpenHome reads which Spark is installed in dir, from the name of jars/spark-core_SCALA-RELEASE.jar. Its errors name
// what is missing.
func OpenHome(dir string) (*Home, error) {
	if dir == "" {
		return nil, errNoHome
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("SPARK_HOME %s: %w", dir, err)
	}
	jars := filepath.Join(abs, "jars")
	entries, err := os.ReadDir(jars)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%s is no Spark installation: %w (SPARK_HOME is the directory with bin and jars; of PySpark, that of the package)", abs, err)
	case err != nil:
		return nil, fmt.Errorf("the Spark installation %s cannot be read by this user: %w", abs, err)
	}
	var found []string
	home := &Home{Dir: abs}
	for _, e := range entries {
		if m := coreJar.FindStringSubmatch(e.Name()); m != nil {
			found = append(found, e.Name())
			home.Scala, home.Release = m[1], m[2]
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%s is no Spark installation: %s has no spark-core_SCALA-RELEASE.jar", abs, jars)
	case 1:
	default:
		return nil, fmt.Errorf("%s has several Spark releases (%s): exactly one may be there", jars, strings.Join(found, ", "))
	}
	if home.major() == 0 {
		return nil, fmt.Errorf("%s: the release in its name is not understood", filepath.Join(jars, found[0]))
	}
	return home, nil
}

// FindHome opens the Spark installation that is meant: dir unless empty, else SPARK_HOME of env, else the installation
// that spark-class or spark-submit of env's PATH belongs to (an unpacked release, or PySpark installed by pip).
func FindHome(dir string, env []string) (*Home, error) {
	vars := newEnviron(env)
	if dir == "" {
		dir = vars.get("SPARK_HOME")
	}
	if dir != "" {
		return OpenHome(dir)
	}
	for _, name := range []string{"spark-class", "spark-submit"} {
		program, err := lookPath(name, vars.get("PATH"))
		if err != nil {
			continue
		}
		bin := filepath.Dir(program)
		candidates := []string{filepath.Dir(bin)}
		// pip copies the scripts into the bin directory of the environment, beside which the package lies.
		packaged, err := filepath.Glob(filepath.Join(filepath.Dir(bin), "lib", "python3*", "site-packages", "pyspark"))
		if err != nil {
			return nil, fmt.Errorf("look for PySpark beside %s: %w", program, err)
		}
		for _, c := range append(candidates, packaged...) {
			if h, err := OpenHome(c); err == nil {
				return h, nil
			}
		}
	}
	return nil, errNoHome
}

// Family is the protocol family of the installed release; an error if this program does not speak it.
func (h *Home) Family() (sparkmsg.Family, error) {
	f, ok := sparkmsg.FamilyForRelease(h.Release)
	if !ok {
		return sparkmsg.FamilyUnknown, fmt.Errorf("the Spark %s of %s is not supported: 3.2 to 3.5 and 4.0 to 4.3 are", h.Release, h.Dir)
	}
	return f, nil
}

// major is the first number of the release, 0 if there is none.
func (h *Home) major() int {
	major, _ := h.line()
	return major
}

// line is the release's major and minor number; both are 0 if they cannot be read.
func (h *Home) line() (major, minor int) {
	if n, err := fmt.Sscanf(h.Release, "%d.%d", &major, &minor); err != nil || n != 2 {
		return 0, 0
	}
	return major, minor
}

// substitutesProfile: 3.4 brought {{RESOURCE_PROFILE_ID}}.
func (h *Home) substitutesProfile() bool {
	major, minor := h.line()
	return major > 3 || major == 3 && minor >= 4
}

// lookPath finds an executable of a PATH that is not necessarily this process's, and follows symbolic links. Entries that
// are not absolute are passed over: what they mean depends on the working directory.
func lookPath(name, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		if checkExecutable(file) != nil {
			continue
		}
		return filepath.EvalSymlinks(file)
	}
	return "", fmt.Errorf("no %s in PATH", name)
}
