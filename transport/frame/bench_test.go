package frame

import (
	"bytes"
	"testing"
)

// BenchmarkReader reads frames of the length of a heartbeat, which is most of what a master gets.
func BenchmarkReader(b *testing.B) {
	const count = 64
	one := Append(nil, Frame{Type: OneWayMessage, Body: make([]byte, 1115)})
	stream := bytes.Repeat(one, count)
	r := bytes.NewReader(stream)
	b.ReportAllocs()
	b.SetBytes(int64(len(one)))
	for n := 0; b.Loop(); n++ {
		if n%count == 0 {
			r.Reset(stream)
		}
		if _, err := NewReader(r).Next(); err != nil {
			b.Fatal(err)
		}
	}
}
