package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"raftmaster/transport/sparkmsg"
)

// classpath collects entries as AbstractCommandBuilder.buildClassPath does: each part is split at ":", empty entries are
// dropped, an existing directory ends with "/", what is there already is not added again.
type classpath struct {
	entries []string
	seen    map[string]bool
}

func (c *classpath) add(part string) {
	for _, entry := range strings.Split(part, ":") {
		if entry == "" {
			continue
		}
		if !strings.HasSuffix(entry, "/") && isDirectory(entry) {
			entry += "/"
		}
		if !c.seen[entry] {
			c.seen[entry] = true
			c.entries = append(c.entries, entry)
		}
	}
}

// isDirectory says no to whatever cannot be looked at; names with a NUL byte never reach the system.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// buildClasspath gives the argument of -cp.
func buildClasspath(h *Home, command sparkmsg.Command, confDir string, vars pair) (string, error) {
	c := classpath{seen: map[string]bool{}}
	c.add(strings.Join(command.ClassPathEntries, ":"))
	c.add(confDir)
	jars := filepath.Join(h.Dir, "jars")
	if h.slf4jFirst() {
		first, err := slf4jJars(jars)
		if err != nil {
			return "", err
		}
		for _, jar := range first {
			c.add(jar)
		}
	}
	c.add(filepath.Join(jars, "*"))
	for _, name := range []string{"HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"} {
		c.add(vars.get(name))
	}
	return strings.Join(c.entries, ":"), nil
}

// slf4jFirst: releases from 4.0 on put the SLF4J API before all other jars.
func (h *Home) slf4jFirst() bool { return h.major() >= 4 }

// slf4jJars lists the files jars/slf4j-api-*. Spark takes them in the order of the directory; there is one.
func slf4jJars(jars string) ([]string, error) {
	entries, err := os.ReadDir(jars)
	if err != nil {
		return nil, fmt.Errorf("the Spark installation cannot be read: %w", err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "slf4j-api-") {
			out = append(out, filepath.Join(jars, e.Name()))
		}
	}
	sort.Strings(out)
	return out, nil
}
