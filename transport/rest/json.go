package rest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// fields is one answer: texts, booleans and lists of texts by name.
type fields map[string]any

// without drops the fields that hold the text s.
func (f fields) without(s string) fields {
	maps.DeleteFunc(f, func(_ string, v any) bool { return v == s })
	return f
}

// encode writes the fields as Spark does: names in order, two spaces, `" : "`, lists on one line, no line end.
func (f fields) encode() []byte {
	var b bytes.Buffer
	b.WriteString("{")
	for i, name := range slices.Sorted(maps.Keys(f)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		writeValue(&b, name)
		b.WriteString(" : ")
		if list, ok := f[name].([]string); ok {
			b.WriteString("[ ")
			for k, s := range list {
				if k > 0 {
					b.WriteString(", ")
				}
				writeValue(&b, s)
			}
			b.WriteString(" ]")
			continue
		}
		writeValue(&b, f[name])
	}
	b.WriteString("\n}")
	return b.Bytes()
}

func writeValue(b *bytes.Buffer, v any) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // only texts and booleans come here
	}
	b.Truncate(b.Len() - 1) // the encoder ends a line
}
