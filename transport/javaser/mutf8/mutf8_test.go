package mutf8

import (
	"bytes"
	"errors"
	"testing"
)

func TestKnownEncodings(t *testing.T) {
	for s, want := range map[string]string{
		"":             "",
		"plain":        "plain",
		"\x00":         "\xC0\x80",
		"a\x00b":       "a\xC0\x80b",
		"\u00e9":       "\xC3\xA9",
		"\u20ac":       "\xE2\x82\xAC",
		"\U0001F600":   "\xED\xA0\xBD\xED\xB8\x80",
		"\U0010FFFF.":  "\xED\xAF\xBF\xED\xBF\xBF.",
		"\xED\xA0\xBD": "\xED\xA0\xBD", // a lone surrogate
		"\xED\xB8\x80": "\xED\xB8\x80",
	} {
		got := Append(nil, s)
		if string(got) != want || Len(s) != len(want) {
			t.Errorf("%q: % X, length %d", s, got, Len(s))
		}
		if back, err := Decode(got); err != nil || back != s {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	}
	if got := Append(nil, "a\xFFb"); string(got) != "a\xEF\xBF\xBDb" || Len("a\xFFb") != len(got) {
		t.Errorf("invalid UTF-8 became % X", got)
	}
}

func TestMalformedInputIsRefusedByOffset(t *testing.T) {
	for in, offset := range map[string]int{
		"\x00": 0, "ab\x00": 2, "\x80": 0, "x\xC3": 1, "\xC3\x28": 0, "\xC1\x81": 0, "\xE2\x82": 0, "\xE0\x80\x80": 0,
		"\xF0\x9F\x98\x80": 0, "\xFF": 0, "\xE2\x28\xAC": 0, "\xC3\xA9\xED\xA0": 2,
	} {
		_, err := Decode([]byte(in))
		if e := (*Error)(nil); !errors.As(err, &e) || e.Offset != offset {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"plain", "\xC0\x80", "\xED\xA0\xBD\xED\xB8\x80", "\xED\xA0\xBD", "\xE2\x82\xAC"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		if got := Append(nil, s); !bytes.Equal(got, b) || Len(s) != len(b) {
			t.Fatalf("% X came back as % X", b, got)
		}
	})
}
