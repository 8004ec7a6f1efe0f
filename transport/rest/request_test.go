package rest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"raftmaster/transport/sparkmsg"
)

// TestRefusedRequests: every mistake is a 400 that begins as Spark's and says what is wrong.
func TestRefusedRequests(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(minimal, old, new, 1) }
	prop := func(p string) string { return with(`"sparkProperties":{}`, `"sparkProperties":{`+p+`}`) }
	validation := "Malformed request: " + protocolException + ": Validation of message CreateSubmissionRequest failed!\n"
	for _, c := range []struct{ name, body, first, reason string }{
		{"empty", "", "Malformed request: " + inputException + ": No content to map due to end-of-input", ""},
		{"blank", " \n", "Malformed request: " + inputException + ": No content to map due to end-of-input", ""},
		{"no JSON", "{bad", "Malformed request: " + parseException + ": ", "at byte 2"},
		{"cut off", minimal[:40], "Malformed request: " + parseException + ": ", ""},
		{"two values", minimal + minimal, "Malformed request: " + parseException + ": ", ""},
		{"list", "[]", "Malformed request: " + missingException + ": Action field not found in JSON:", ""},
		{"null", "null", "Malformed request: " + missingException + ": Action field not found in JSON:", ""},
		{"no action", `{"a":"hunter2"}`, "Malformed request: " + missingException + ": Action field not found in JSON:", ""},
		{"other action", with("CreateSubmissionRequest", "ErrorResponse"), "Received message of unexpected type ErrorResponse.", ""},
		{"unknown action", with("CreateSubmissionRequest", "Nonsense"), "Received message of unexpected type Nonsense.", ""},
		{"no version", with(`"clientSparkVersion":"4.3.0",`, ""), validation, "'clientSparkVersion' is missing"},
		{"no resource", with(`"appResource":"file:/a.jar",`, ""), validation, "'appResource' is missing"},
		{"null resource", with(`"file:/a.jar"`, "null"), validation, "'appResource' is missing"},
		{"no class", with(`"mainClass":"a.Main",`, ""), "Malformed request: " + missingException + ": Main class is missing.", ""},
		{"no properties", with(`,"sparkProperties":{}`, ""), validation, "'sparkProperties' is missing"},
		{"class is a list", with(`"a.Main"`, "[]"), "Malformed request: " + inputException, "'mainClass' must be a text"},
		{"properties are a list", with(`"sparkProperties":{}`, `"sparkProperties":[]`), "Malformed request: " + inputException, "must be an object"},
		{"property is a list", prop(`"a":[]`), "Malformed request: " + inputException, `"a"`},
		{"property is null", prop(`"a":null`), "Malformed request: " + inputException, `"a"`},
		{"NUL", prop(`"a":"\u0000"`), "Malformed request: " + inputException, "NUL"},
		{"NUL in a name", prop(`"a\u0000":"b"`), "Malformed request: " + inputException, "NUL"},
		{"NUL in the class", with("a.Main", `a\u0000`), "Malformed request: " + inputException, "NUL"},
		{"NUL in an argument", with("{", `{"appArgs":["\u0000"],`), "Malformed request: " + inputException, "NUL"},
		{"args are a text", with("{", `{"appArgs":"x",`), "Malformed request: " + inputException, "must be a list"},
		{"arg is null", with("{", `{"appArgs":["a",null],`), "Malformed request: " + inputException, "at place 1"},
		{"supervise", prop(`"spark.driver.supervise":"yes"`), validation, "'spark.driver.supervise' expected boolean value: actual was 'yes'"},
		{"cores", prop(`"spark.driver.cores":"abc"`), validation, "'spark.driver.cores' expected numeric value"},
		{"half a core", prop(`"spark.driver.cores":"0.5"`), validation, "expected numeric value"},
		{"negative cores", prop(`"spark.driver.cores":"-1"`), validation, "expected numeric value"},
		{"max cores", prop(`"spark.cores.max":"many"`), validation, "'spark.cores.max' expected numeric value"},
		{"memory", prop(`"spark.driver.memory":"1 g"`), validation, "'spark.driver.memory' expected memory value"},
		{"executor memory", prop(`"spark.executor.memory":"1x"`), validation, "'spark.executor.memory' expected memory value"},
		{"too much memory", prop(`"spark.driver.memory":"9999999999p"`), validation, "expected memory value"},
		{"memory in bytes", prop(`"spark.driver.memory":"1024"`), validation, "counts bytes"},
		{"half a GPU", prop(`"spark.driver.resource.gpu.amount":"0.5"`), validation, "expected whole number value"},
		{"GPU without amount", prop(`"spark.driver.resource.gpu.vendor":"x"`), validation, "You must specify an amount for gpu"},
	} {
		f := &fake{}
		resp, body := ask(t, NewHandler(options(f)), "POST", base+"/create", c.body)
		text := message(t, body)
		if resp.StatusCode != 400 || !strings.HasPrefix(text, c.first) || !strings.Contains(text, c.reason) || len(f.asked) > 0 {
			t.Errorf("%s: %d %q", c.name, resp.StatusCode, text)
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s: the request is repeated: %q", c.name, text)
		}
	}
}

// TestMoreThanADriverMayHave: what can never be stored is refused before a driver is built of it, whether it is one long text
// or a great many short ones.
func TestMoreThanADriverMayHave(t *testing.T) {
	for name, body := range map[string]string{
		"one text":        strings.Replace(minimal, "a.Main", strings.Repeat("x", sparkmsg.MaxPayload), 1),
		"many arguments":  strings.Replace(minimal, "{", `{"appArgs":[""`+strings.Repeat(`,""`, sparkmsg.MaxPayload/3)+`],`, 1),
		"many properties": strings.Replace(minimal, `"sparkProperties":{}`, `"sparkProperties":{`+manyPairs(sparkmsg.MaxPayload/11)+`}`, 1),
		"many variables":  strings.Replace(minimal, "{", `{"environmentVariables":{`+manyPairs(sparkmsg.MaxPayload/11)+`},`, 1),
	} {
		_, err := decodeRequest([]byte(body))
		if err == nil || !strings.Contains(err.Error(), "at most 524288 are allowed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := decodeRequest([]byte(strings.Replace(minimal, "a.Main", strings.Repeat("x", sparkmsg.MaxPayload/2), 1))); err != nil {
		t.Error(err)
	}
}

// manyPairs is the inside of an object of n empty texts.
func manyPairs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%06d":""`, i)
	}
	return b.String()[1:]
}

// TestCoercion: scalars count as texts, as in Jackson; what Spark 4 makes optional may be missing or null.
func TestCoercion(t *testing.T) {
	req, err := decodeRequest([]byte(`{"action":"CreateSubmissionRequest","clientSparkVersion":4,"appResource":"","mainClass":"","appArgs":[1,true,"x"],
		"sparkProperties":{"spark.driver.cores":2,"spark.driver.supervise":true,"big":12345678901234567890},"environmentVariables":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if req.ClientSparkVersion != "4" || !slices.Equal(req.AppArgs, []string{"1", "true", "x"}) || req.SparkProperties["spark.driver.cores"] != "2" ||
		req.SparkProperties["spark.driver.supervise"] != "true" || req.SparkProperties["big"] != "12345678901234567890" || req.EnvironmentVariables != nil {
		t.Errorf("%+v", req)
	}
}

// TestMemoryTexts: units as in util/Utils.scala; a bare number counts bytes.
func TestMemoryTexts(t *testing.T) {
	for in, want := range map[string]int32{"1g": 1024, "500m": 500, "1024k": 1, "1GB": 1024, " 2T ": 2 << 20, "1048576": 1, "1048575": 0, "10b": 0, "0": 0} {
		if got, err := parseMemoryMB(in); err != nil || got != want {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "g", "1.5g", "-1g", "1 g", "1x", "9999999999999999999", "9999999p", "4096t"} {
		if got, err := parseMemoryMB(in); err == nil {
			t.Errorf("%q: %d", in, got)
		}
	}
}

func TestSplitCommand(t *testing.T) {
	for in, want := range map[string][]string{
		"":                 nil,
		"  ":               nil,
		"a  b\tc\nd":       {"a", "b", "c", "d"},
		`-Da="b c" d`:      {"-Da=b c", "d"},
		`'a "b' "c 'd"`:    {`a "b`, "c 'd"},
		`a\b "c\"d" 'e\f'`: {`a\b`, `c"d`, `e\f`},
		`"" ''`:            {"", ""},
		`"open`:            {"open"},
		`"ends with \`:     {"ends with "},
	} {
		if got := splitCommand(in); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzDecodeRequest: whatever comes, the answer is a request or a text for a 400; and a driver that is built can be sent.
func FuzzDecodeRequest(f *testing.F) {
	files, err := filepath.Glob("testdata/*/rest_create_*.txt")
	if err != nil || len(files) < 20 {
		f.Fatalf("%d samples, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		_, body, _ := strings.Cut(line, "-d ")
		f.Add([]byte(body))
	}
	f.Add([]byte(minimal))
	f.Add([]byte(submission("4.1.0", map[string]string{"spark.driver.resource.gpu.amount": "1", "spark.driver.extraJavaOptions": `-Da="b c`}, map[string]string{"A": "{{B}}"})))
	h := NewHandler(options(&fake{}))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := decodeRequest(body)
		if err == nil {
			d, derr := h.describe(req)
			if err = derr; err == nil {
				if d.Mem < 1 || d.Cores < 0 || len(d.Command.Arguments) < 3 {
					t.Errorf("%+v", d)
				}
				return
			}
		}
		var r *requestError
		if !errors.As(err, &r) || strings.Contains(r.text, "\n\t") {
			t.Errorf("%T: %v", err, err)
		}
	})
}
