package fsm_test

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// allowedImports is all that the state machine may use. What is missing on purpose: time (its clock), math/rand and
// crypto/rand, os, net and everything else that does I/O, maps (its iterators have no order), runtime and unsafe.
var allowedImports = map[string]bool{
	"bufio": true, "bytes": true, "cmp": true, "crypto/sha256": true, "encoding/binary": true, "encoding/hex": true,
	"errors": true, "fmt": true, "hash": true, "io": true, "math": true, "slices": true, "strconv": true,
	"strings": true, "sync/atomic": true, "unicode/utf8": true,
	"github.com/hashicorp/go-immutable-radix/v2": true,
	"github.com/hashicorp/go-msgpack/v2/codec":   true,
}

const (
	maxFileLines     = 500
	maxFunctionLines = 70
)

type linter struct {
	fset  *token.FileSet
	info  *types.Info
	found []string
}

func (l *linter) report(at ast.Node, message string) {
	l.found = append(l.found, l.fset.Position(at.Pos()).String()+": "+message)
}

func (l *linter) file(f *ast.File) {
	if lines := l.fset.File(f.Pos()).LineCount(); lines > maxFileLines {
		l.report(f, "file of "+strconv.Itoa(lines)+" lines")
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			if path, err := strconv.Unquote(n.Path.Value); err != nil || !allowedImports[path] {
				l.report(n, "import of "+n.Path.Value)
			}
		case *ast.GoStmt:
			l.report(n, "goroutine")
		case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			l.report(n, "channel")
		case *ast.Ident:
			if n.Name == "float32" || n.Name == "float64" {
				l.report(n, "floating point: sums depend on their order")
			}
		case *ast.BasicLit:
			if n.Kind == token.FLOAT {
				l.report(n, "floating point: sums depend on their order")
			}
		case *ast.RangeStmt:
			l.rangeOver(n)
		case *ast.FuncDecl:
			lines := l.fset.Position(n.End()).Line - l.fset.Position(n.Pos()).Line + 1
			if lines > maxFunctionLines {
				l.report(n, n.Name.Name+" has "+strconv.Itoa(lines)+" lines")
			}
		}
		return true
	})
}

func (l *linter) rangeOver(n *ast.RangeStmt) {
	t := l.info.TypeOf(n.X)
	if t == nil {
		l.report(n, "range over something of unknown type")
		return
	}
	if _, isMap := t.Underlying().(*types.Map); isMap {
		l.report(n, "range over a map: it has no order")
	}
}

// lint checks the given files, which must be one package.
func lint(t *testing.T, files []string, lookup importer.Lookup) []string {
	t.Helper()
	l := &linter{fset: token.NewFileSet(), info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{},
		Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}}
	var parsed []*ast.File
	for _, name := range files {
		f, err := parser.ParseFile(l.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	config := types.Config{Importer: importer.ForCompiler(l.fset, "gc", lookup)}
	if _, err := config.Check("fsm", l.fset, parsed, l.info); err != nil {
		t.Fatal(err)
	}
	for _, f := range parsed {
		l.file(f)
	}
	return l.found
}

// exportData finds the compiled packages that this one imports.
func exportData(t *testing.T, packages ...string) importer.Lookup {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, packages...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			exports[path] = file
		}
	}
	return func(path string) (io.ReadCloser, error) {
		file, ok := exports[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		data, err := os.ReadFile(file)
		return io.NopCloser(bytes.NewReader(data)), err
	}
}

func TestDeterminismIsKept(t *testing.T) {
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range all {
		if !strings.HasSuffix(name, "_test.go") {
			files = append(files, name)
		}
	}
	if len(files) < 10 {
		t.Fatalf("found only %v", files)
	}
	for _, finding := range lint(t, files, exportData(t, ".")) {
		t.Error(finding)
	}
}

func TestLintFindsWhatItForbids(t *testing.T) {
	source := `package fsm
import "time"
func f(m map[string]int) (sum float64) {
	for range m { sum += 1.5 }
	c := make(chan int)
	go func() { c <- 1 }()
	select { case <-c: case <-time.After(1): }
	return sum
}
`
	name := filepath.Join(t.TempDir(), "bad.go")
	if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	found := strings.Join(lint(t, []string{name}, exportData(t, "time")), "\n")
	for _, want := range []string{`import of "time"`, "range over a map", "floating point", "goroutine", "channel"} {
		if !strings.Contains(found, want) {
			t.Errorf("nothing says %q in:\n%s", want, found)
		}
	}
}
