package sparkmsg

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"raftmaster/transport/frame"
	"raftmaster/transport/javaser"
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

func captures(t testing.TB) []capture { return readCaptures(t, "spark-", 250) }

// readCaptures reads the recordings of both releases, of which there must be at least so many.
func readCaptures(t testing.TB, prefix string, atLeast int) []capture {
	t.Helper()
	var out []capture
	for dir, fam := range map[string]Family{prefix + "3.5.9": FamilyB, prefix + "4.3.0": FamilyE} {
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
	if len(out) < atLeast {
		t.Fatalf("only %d recordings found", len(out))
	}
	return out
}

func find(t testing.TB, file string, fam Family) capture { return findIn(t, captures(t), file, fam) }

func findIn(t testing.TB, all []capture, file string, fam Family) capture {
	t.Helper()
	for _, c := range all {
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

// notReproduced names the recordings of a master whose bytes depend on the history of its JVM and not on the message:
// Scala 2.12 fills Enumeration.nmap when a value's name is first asked for, and sends it from then on.
var notReproduced = map[string]bool{"B/master-to-driver-ExecutorUpdated-10": true}

func TestEncodeGivesTheBytesOfTheRealMaster(t *testing.T) {
	count := 0
	for _, c := range captures(t) {
		name := c.family.String() + "/" + c.file
		if !strings.HasPrefix(c.file, "master-to-") || notReproduced[name] {
			continue
		}
		d, err := Decode(c.stream)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := Encode(d.Msg, c.family)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(got, c.stream) {
			t.Errorf("%s: %d bytes, real %d, first difference at %d", name, len(got), len(c.stream), firstDifference(got, c.stream))
		}
		count++
	}
	if count < 120 {
		t.Errorf("only %d recordings compared", count)
	}
}

// Workers, drivers and clients may choose other collection classes than Encode; what the master reads must be equal.
func TestEncodeMeansWhatTheRealProcessSaid(t *testing.T) {
	same := 0
	for _, c := range captures(t) {
		d, err := Decode(c.stream)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Encode(d.Msg, c.family)
		if err != nil {
			t.Errorf("%s/%s: %v", c.family, c.file, err)
			continue
		}
		again, err := Decode(got)
		if err != nil {
			t.Errorf("%s/%s: %v", c.family, c.file, err)
			continue
		}
		if !reflect.DeepEqual(again.Msg, d.Msg) {
			t.Errorf("%s/%s: meaning changed", c.family, c.file)
		}
		if !again.Families.Has(c.family) {
			t.Errorf("%s/%s: families became %s", c.family, c.file, again.Families)
		}
		if bytes.Equal(got, c.stream) {
			same++
		}
	}
	if same < 230 {
		t.Errorf("only %d recordings came out byte for byte", same)
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

func TestCatalogueMatchesCaptures(t *testing.T) {
	all := loadCatalogues()
	absent := make(map[string]bool)
	for _, c := range captures(t) {
		g, err := javaser.Decode(c.stream, limits, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, class := range g.Classes {
			known := all.of[c.family].classes[class.Name]
			if known == nil {
				absent[class.Name] = true
				continue
			}
			if !known.Equal(class) {
				t.Errorf("%s/%s: descriptor of %s differs from the catalogue", c.family, c.file, class.Name)
			}
		}
	}
	for name := range absent { // all of these only pass through
		if strings.HasPrefix(name, "org.apache.spark.") {
			t.Errorf("%s is in no catalogue", name)
		}
	}
}

func TestFamiliesAreRecognised(t *testing.T) {
	for _, tt := range []struct {
		file   string
		family Family
		want   FamilySet
	}{
		{"worker-to-master-CheckExistence", FamilyB, SetOf(FamilyA, FamilyB)},
		{"worker-to-master-CheckExistence", FamilyE, SetOf(FamilyC, FamilyD, FamilyE)},
		{"worker-to-master-RegisterWorker", FamilyB, SetOf(FamilyB)},
		{"worker-to-master-RegisterWorker", FamilyE, SetOf(FamilyD, FamilyE)},
		{"worker-to-master-Heartbeat", FamilyB, SetOf(FamilyB)},
		{"worker-to-master-Heartbeat", FamilyE, SetOf(FamilyD, FamilyE)},
		{"driver-to-master-RegisterApplication", FamilyB, SetOf(FamilyB)},
		{"driver-to-master-RegisterApplication", FamilyE, SetOf(FamilyE)},
		{"client-to-master-RequestSubmitDriver", FamilyB, SetOf(FamilyA, FamilyB)},
		{"client-to-master-RequestKillDriver", FamilyE, SetOf(FamilyC, FamilyD, FamilyE)},
		{"master-to-worker-ReplyToCheckExistence-Boolean", FamilyE, AllFamilies},
	} {
		d, err := Decode(find(t, tt.file, tt.family).stream)
		if err != nil {
			t.Fatal(err)
		}
		if d.Families != tt.want {
			t.Errorf("%s of %s: recognised %s, want %s", tt.file, tt.family, d.Families, tt.want)
		}
	}
}
