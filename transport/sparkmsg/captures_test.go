package sparkmsg

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"raftmaster/transport/frame"
)

// capture is one frame recorded between real Spark processes.
type capture struct {
	file   string // such as master-to-worker-LaunchExecutor-3
	family Family
	frame  frame.Frame
	stream []byte // the Java stream inside
}

// message returns Spark's name of the message.
func (c capture) message() string {
	part := strings.Split(c.file, "-")
	if part[3] == "ReplyToCheckExistence" || strings.HasPrefix(part[3], "ReplyTo") {
		return part[4]
	}
	return part[3]
}

func captures(t testing.TB) []capture {
	t.Helper()
	var out []capture
	for dir, fam := range map[string]Family{"spark-3.5.9": FamilyB, "spark-4.3.0": FamilyE} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.bin"))
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
			c := capture{file: strings.TrimSuffix(filepath.Base(file), ".bin"), family: fam, frame: f, stream: f.Body}
			if f.Type != frame.RPCResponse {
				req, err := frame.ParseRequest(f.Body)
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				c.stream = req.Content
			}
			out = append(out, c)
		}
	}
	if len(out) < 250 {
		t.Fatalf("only %d recordings found", len(out))
	}
	return out
}

func find(t testing.TB, file string, fam Family) capture {
	t.Helper()
	for _, c := range captures(t) {
		if c.file == file && c.family == fam {
			return c
		}
	}
	t.Fatalf("no recording %s of family %s", file, fam)
	return capture{}
}

func TestEveryCaptureDecodesToItsMessage(t *testing.T) {
	for _, c := range captures(t) {
		d, err := Decode(c.stream)
		if err != nil {
			t.Errorf("%s/%s: %v", c.family, c.file, err)
			continue
		}
		if d.Msg.MessageName() != c.message() {
			t.Errorf("%s/%s decoded as %s", c.family, c.file, d.Msg.MessageName())
		}
		if !d.Families.Has(c.family) {
			t.Errorf("%s/%s: families %s", c.family, c.file, d.Families)
		}
	}
}

func TestEncodeGivesTheBytesOfTheRealProcess(t *testing.T) {
	for _, c := range captures(t) {
		d, err := Decode(c.stream)
		if err != nil {
			t.Errorf("%s/%s: %v", c.family, c.file, err)
			continue
		}
		got, err := Encode(d.Msg, c.family)
		if err != nil {
			t.Errorf("%s/%s: %v", c.family, c.file, err)
			continue
		}
		if !bytes.Equal(got, c.stream) {
			t.Errorf("%s/%s: %d bytes, real %d, first difference at %d", c.family, c.file, len(got), len(c.stream), firstDifference(got, c.stream))
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
