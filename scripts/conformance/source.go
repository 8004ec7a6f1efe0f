package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// checkSources reports the tests of the table that are no top-level test function of the package that they name. root is
// the directory of the module.
func checkSources(root string, rows []row) (problems []string) {
	packages := map[string]map[string]bool{}
	for _, r := range rows {
		for _, ref := range r.tests {
			tests, read := packages[ref.pkg]
			if !read {
				var err error
				if tests, err = testsOf(filepath.Join(root, filepath.FromSlash(ref.pkg))); err != nil {
					problems = append(problems, fmt.Sprintf("line %d: %s: %v", r.line, r.number, err))
				}
				packages[ref.pkg] = tests
			}
			top, _, _ := strings.Cut(ref.name, "/")
			if !tests[top] {
				problems = append(problems, fmt.Sprintf("line %d: %s: there is no test %s in %s", r.line, r.number, top, ref.pkg))
			}
		}
	}
	return problems
}

// testsOf gives the names of the test functions of the package in a directory. TestMain is none.
func testsOf(directory string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no test file", directory)
	}
	tests := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range parsed.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && isTest(f) {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests, nil
}

func isTest(f *ast.FuncDecl) bool {
	if f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Type.Params.NumFields() != 1 {
		return false
	}
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	selector, ok := pointer.X.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "T"
}
