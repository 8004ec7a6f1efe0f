package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// maxJavaOptsBytes bounds the file java-opts of the conf directory.
const maxJavaOptsBytes = 1 << 20

// javaOptsFile reads the options of every process from the file java-opts in the conf directory; a file that is not
// there, or is no regular file, has none (AbstractCommandBuilder.buildJavaCommand).
func javaOptsFile(confDir string) (options []string, err error) {
	path := filepath.Join(confDir, "java-opts")
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("options for every process: %w", err)
	}
	text, err := readBounded(path, maxJavaOptsBytes)
	if err != nil {
		return nil, fmt.Errorf("options for every process: %w", err)
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range lines {
		words, err := splitJavaOptions(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		options = append(options, words...)
	}
	return options, nil
}

var errOpenLine = errors.New("a line ends inside a quotation or with a backslash")

// splitJavaOptions splits one line as CommandBuilderUtils.parseOptionString does: blanks separate; single and double
// quotes group, also inside a word; a backslash takes the next character as it is, but not between single quotes. A
// quotation must end on its line.
func splitJavaOptions(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, single, double, escaped := false, false, false, false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && !single:
			escaped, inWord = true, true
		case c == '\'' && !double:
			single, inWord = !single, true
		case c == '"' && !single:
			double, inWord = !double, true
		case javaWhitespace(c) && !single && !double:
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
	if escaped || single || double {
		return nil, errOpenLine
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// javaWhitespace is java.lang.Character.isWhitespace: separators but the no-break spaces, and some control characters.
func javaWhitespace(c rune) bool {
	switch c {
	case 0x00A0, 0x2007, 0x202F:
		return false
	case '\t', '\n', '\v', '\f', '\r', 0x1C, 0x1D, 0x1E, 0x1F:
		return true
	}
	return unicode.In(c, unicode.Z)
}

// readBounded reads a whole file of at most limit bytes.
func readBounded(path string, limit int64) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err = io.ReadAll(io.LimitReader(f, limit+1))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return text, err
}
