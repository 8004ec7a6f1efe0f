package redact

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSecretsAreHidden(t *testing.T) {
	r := New("literal-secret-77")
	for _, text := range []string{
		`spark.ssl.keyStorePassword=HUSH1234`,
		`{"spark.authenticate.secret": "HUSH1234"}`,
		`{"args": "{\"password\":\"HUSH1234\",\"a\":1}"}`,
		`password: 'HUSH1234 with words'`,
		`jar="https://user:HUSH1234@host/a.jar"`,
		`https://host/a.jar?X-Amz-Signature=HUSH1234&b=c`,
		`https://host/a.jar?sig=HUSH1234`,
		`Authorization: Bearer HUSH1234.abc`,
		`Authorization: Basic SFVTSDEyMzQ6SFVTSDEyMzQ= HUSH`,
		`--token HUSH1234 --port 7`,
		`-Dfs.s3a.access.key=HUSH1234`,
		"x\n-----BEGIN RSA PRIVATE KEY-----\nHUSH1234\n-----END RSA PRIVATE KEY-----\ny",
		"-----BEGIN PRIVATE KEY-----\nHUSH1234, cut off",
		`see literal-secret-77 HERE`,
		`AWS_SECRET_ACCESS_KEY=HUSH1234`,
		`api_key = HUSH1234`,
		`spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net=HUSH1234+/x==`,
		`spark.io.encryption.key: HUSH1234`,
		`[WARN] x: api-key="HUSH1234 and \"HUSH1234\" more"`,
	} {
		got := r.Text(text)
		if strings.Contains(got, "HUSH1234") || strings.Contains(got, "SFVTSDEy") || strings.Contains(got, "literal-secret") || !strings.Contains(got, Mark) {
			t.Errorf("%s\nbecame\n%s", text, got)
		}
	}
	if got := r.Text("AKIAABCDEFGHIJKLMNOP"); got != Mark {
		t.Errorf("a key id became %s", got)
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	r := New("short")
	for _, text := range []string{
		`{"token_file": "/etc/raftmaster/tokens"}`, `--token-file /etc/tokens`, `raftmaster_auth_failures_total 3`,
		`http://a:8080/v1/status`, `worker-1 registered`, `{"token": null, "tokens": 3, "secret": ""}`, `short`, `took over in term 7: no word`,
	} {
		if got := r.Text(text); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// What was JSON is JSON afterwards, and says the same about everything else.
func TestJSONStaysJSON(t *testing.T) {
	in := map[string]any{"a.password": "HUSH\"12\\34", "b": []any{"x token=HUSH1234", 7.0}, "my_token": map[string]any{"c": "d"}, "tokens": []any{"a"},
		"nested": `{"secret":"HUSH1234"}`, "u": "https://u:HUSH1234@h/", "secret_given": true}
	for _, indent := range []string{"", "  "} {
		data, err := json.MarshalIndent(in, "", indent)
		if err != nil {
			t.Fatal(err)
		}
		text := New().Text(string(data))
		var out map[string]any
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if strings.Contains(text, "HUSH") {
			t.Error(text)
		}
		if len(out) != len(in) || out["secret_given"] != true {
			t.Errorf("the rest has changed: %s", text)
		}
	}
}

func TestValue(t *testing.T) {
	r := New()
	for _, c := range [][3]string{{"spark.ssl.trustStorePassword", "x", Mark}, {"spark.ssl.passwordFile", "/x", "/x"}, {"spark.master.rest.port", "6066", "6066"},
		{"spark.jars", "https://u:p@h/a.jar", "https://" + Mark + "@h/a.jar"}, {"spark.secret", "", ""}} {
		if got := r.Value(c[0], c[1]); got != c[2] {
			t.Errorf("%s=%s is shown as %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// A literal is hidden as JSON writes it, too.
func TestLiteralsAreHiddenInJSON(t *testing.T) {
	secret := "a\"b\\c<d>&e\tf"
	for _, forPages := range []bool{false, true} {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(forPages)
		if err := enc.Encode(map[string]string{"command": "run " + secret + " now"}); err != nil {
			t.Fatal(err)
		}
		if got := New(secret).Text(b.String()); got != `{"command":"run `+Mark+` now"}`+"\n" {
			t.Errorf("%s became %s", b.String(), got)
		}
	}
	if got := New(secret).Text("run " + secret); got != "run "+Mark {
		t.Errorf("as it is: %s", got)
	}
}

// No input makes it fail, and hiding twice is hiding once.
func FuzzText(f *testing.F) {
	f.Add(`{"password": "a\"b"}`)
	f.Add(`token='x`)
	f.Fuzz(func(t *testing.T, s string) {
		r := New()
		once := r.Text(s)
		if json.Valid([]byte(s)) && !json.Valid([]byte(once)) {
			t.Errorf("%q was JSON and became %q", s, once)
		}
		r.Text(once)
	})
}
