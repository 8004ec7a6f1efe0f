package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/magiconair/properties"
)

// readProperties collects the -D options of the environment and the properties file.
func (l *loader) readProperties() error {
	l.opts = map[string]string{}
	// Spark puts SPARK_DAEMON_JAVA_OPTS before SPARK_MASTER_OPTS and SPARK_WORKER_OPTS on the command line of its JVM, so that these win
	// (launcher/SparkClassCommandBuilder.java).
	for _, name := range l.optionVars {
		v, ok := l.env.get(name)
		if !ok {
			continue
		}
		words, err := splitOptions(v)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		l.takeOptions(name, words)
	}
	return l.readFile()
}

func (l *loader) takeOptions(name string, words []string) {
	for _, w := range words {
		def, ok := strings.CutPrefix(w, "-D")
		if !ok {
			l.warn("%s: %q has no effect: there is no JVM", name, w)
			continue
		}
		key, value, _ := strings.Cut(def, "=")
		if !strings.HasPrefix(key, "spark.") {
			l.warn("%s: -D%s has no effect: only spark.* properties are read", name, key)
			continue
		}
		l.opts[key] = strings.TrimSpace(value)
	}
}

// readFile loads --properties-file, else $SPARK_CONF_DIR/spark-defaults.conf, else $SPARK_HOME/conf/spark-defaults.conf.
// Only the first of them must exist.
func (l *loader) readFile() error {
	l.file = map[string]string{}
	must := l.src.Flags.PropertiesFile != nil
	switch conf, hasConf := l.env.get(envConfDir); {
	case must:
		l.fileName = *l.src.Flags.PropertiesFile
	case hasConf:
		l.fileName = filepath.Join(conf, defaultsFile)
	default:
		home, ok := l.env.get(envSparkHome)
		if !ok {
			return nil
		}
		l.fileName = filepath.Join(home, "conf", defaultsFile)
	}
	data, err := l.src.ReadFile(l.fileName)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil
	}
	if err != nil {
		return fmt.Errorf("properties file: %w", err)
	}
	// Spark reads the file with java.util.Properties: "=", ":" or blanks separate, and ${...} means nothing.
	parser := &properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := parser.LoadBytes(data)
	if err != nil {
		return fmt.Errorf("properties file %s: %w", l.fileName, err)
	}
	for key, value := range p.Map() {
		if !strings.HasPrefix(key, "spark.") {
			l.warn("%s: %s ignored: not a spark.* property", l.fileName, key)
			continue
		}
		l.file[key] = strings.TrimSpace(value)
	}
	return nil
}

// property finds a property: -D first, then the file.
func (l *loader) property(key string) (string, bool) {
	if v, ok := l.opts[key]; ok {
		return v, true
	}
	v, ok := l.file[key]
	return v, ok
}

// properties lists every property that was given, each once.
func (l *loader) propertyNames() []string {
	seen := make(map[string]bool, len(l.opts)+len(l.file))
	var names []string
	for _, m := range []map[string]string{l.opts, l.file} {
		for k := range m {
			if !seen[k] {
				seen[k] = true
				names = append(names, k)
			}
		}
	}
	return names
}

var errUnbalanced = errors.New("a quote is not closed")

// splitOptions splits a line of options as Spark's launcher does (launcher/CommandBuilderUtils.java): blanks separate,
// single and double quotes group, a backslash escapes in double quotes and outside quotes.
func splitOptions(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote, escaped := false, rune(0), false
	for _, c := range s {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteRune(c)
			}
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errUnbalanced
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
