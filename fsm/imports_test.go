package fsm_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "raftmaster/"

// importable lists, for each top directory, which top directories its packages may import: the arrows of the design,
// cmd -> cluster -> transport, fsm. Tests keep to them as well.
var importable = map[string][]string{
	"fsm":       {"fsm"},
	"transport": {"transport"},
	"cluster":   {"cluster", "transport", "fsm"},
	"cmd":       {"cmd", "cluster", "transport", "fsm"},
	"scripts":   {"scripts", "cmd", "cluster", "transport", "fsm"},
}

// raftPackages are the only ones that see hashicorp/raft: everybody else depends on small interfaces.
var raftPackages = []string{"transport/raftnet", "cluster/node", "cluster/raftstore", "cluster/clustertest"}

// forbidden gives the reason against an import, "" if there is none. dir is relative to the module, with slashes.
func forbidden(dir, path string) string {
	if path == "github.com/hashicorp/raft" || strings.HasPrefix(path, "github.com/hashicorp/raft/") ||
		strings.HasPrefix(path, "github.com/hashicorp/raft-boltdb") {
		for _, allowed := range raftPackages {
			if dir == allowed || strings.HasPrefix(dir, allowed+"/") {
				return ""
			}
		}
		return "only " + strings.Join(raftPackages, ", ") + " may import hashicorp/raft"
	}
	target, ours := strings.CutPrefix(path, modulePath)
	if !ours {
		return ""
	}
	top, _, _ := strings.Cut(dir, "/")
	targetTop, _, _ := strings.Cut(target, "/")
	allowed, known := importable[top]
	if !known {
		return "directory " + top + " is not in the design"
	}
	for _, a := range allowed {
		if a == targetTop {
			return ""
		}
	}
	return top + " must not import " + targetTop
}

func TestImportArrows(t *testing.T) {
	const root = ".."
	files := 0
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() && name != root && (strings.HasPrefix(base, ".") || base == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(base, ".go") {
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files++
		checkImports(t, name, filepath.ToSlash(filepath.Dir(relative)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no Go file found")
	}
}

func checkImports(t *testing.T, name, dir string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if reason := forbidden(dir, path); reason != "" {
			t.Errorf("%s imports %s: %s", name, path, reason)
		}
	}
}

func TestImportArrowsAreEnforced(t *testing.T) {
	for _, c := range []struct {
		dir, path string
		ok        bool
	}{
		{"fsm", "raftmaster/fsm", true},
		{"fsm/fsmtest", "raftmaster/fsm", true},
		{"fsm", "raftmaster/transport/frame", false},
		{"fsm", "raftmaster/cluster/node", false},
		{"transport/sparkrpc", "raftmaster/transport/frame", true},
		{"transport/sparkrpc", "raftmaster/fsm", false},
		{"transport/webui", "raftmaster/cluster/admin", false},
		{"cluster/master", "raftmaster/fsm", true},
		{"cluster/master", "raftmaster/cmd/raftctl", false},
		{"cluster/master", "github.com/hashicorp/raft", false},
		{"cluster/node", "github.com/hashicorp/raft", true},
		{"cluster/nodes", "github.com/hashicorp/raft", false},
		{"cluster/raftstore", "github.com/hashicorp/raft-boltdb/v2", true},
		{"cmd/raftmaster", "raftmaster/cluster/node", true},
		{"other", "raftmaster/fsm", false},
	} {
		if reason := forbidden(c.dir, c.path); (reason == "") != c.ok {
			t.Errorf("%s importing %s: %q", c.dir, c.path, reason)
		}
	}
}
