package javaser_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"raftmaster/transport/frame"
	"raftmaster/transport/javaser"
)

// capturedStreams returns every Java stream in the recordings of real Spark processes, by file name.
func capturedStreams(t testing.TB) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	for _, glob := range []string{"testdata/executor-*/*.bin", "../sparkmsg/testdata/spark-*/*.bin"} {
		files, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := frame.NewReader(bytes.NewReader(raw)).Next()
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if f.Type == frame.RPCFailure {
				continue
			}
			body := f.Body
			if f.Type != frame.RPCResponse {
				req, err := frame.ParseRequest(body)
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				body = req.Content
			}
			if bytes.HasPrefix(body, []byte{0xAC, 0xED}) {
				out[file] = body
			}
		}
	}
	if len(out) < 300 {
		t.Fatalf("only %d recorded streams found", len(out))
	}
	return out
}

func TestEveryCapturedStreamReencodesToItself(t *testing.T) {
	for file, stream := range capturedStreams(t) {
		g, err := javaser.Decode(stream, javaser.Limits{}, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		back, err := javaser.Encode(g.Root, javaser.Limits{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if !bytes.Equal(back, stream) {
			t.Errorf("%s: %d bytes became %d different ones", file, len(stream), len(back))
		}
	}
}

func TestKnownDescriptorsAreSharedBetweenStreams(t *testing.T) {
	known := javaser.NewRegistry()
	for file, stream := range capturedStreams(t) {
		g, err := javaser.Decode(stream, javaser.Limits{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range g.Classes {
			internAll(known, c)
		}
		again, err := javaser.Decode(stream, javaser.Limits{}, known)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for i, c := range again.Classes {
			if !c.Equal(g.Classes[i]) || known.Intern(c) != c {
				t.Errorf("%s: descriptor %s was not taken from the registry", file, c.Name)
			}
		}
		back, err := javaser.Encode(again.Root, javaser.Limits{})
		if err != nil || !bytes.Equal(back, stream) {
			t.Errorf("%s: differs after decoding with a registry (%v)", file, err)
		}
	}
}

func internAll(r *javaser.Registry, c *javaser.Class) *javaser.Class {
	if c == nil {
		return nil
	}
	super := internAll(r, c.Super)
	return r.Intern(javaser.NewClass(c.Name, c.SUID, c.Flags, c.Fields, super))
}
