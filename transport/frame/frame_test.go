package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// recordedFrames returns the frames recorded between real Spark processes, by file.
func recordedFrames(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../sparkmsg/testdata/spark-*/*.bin")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]byte)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[file] = raw
	}
	if len(out) < 250 {
		t.Fatalf("only %d recordings found", len(out))
	}
	return out
}

func TestRecordedFramesComeOutAsTheyWentIn(t *testing.T) {
	for file, raw := range recordedFrames(t) {
		f, err := NewReader(bytes.NewReader(raw)).Next()
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if f.Type == RPCRequest || f.Type == OneWayMessage {
			req, err := ParseRequest(f.Body)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			f.Body = AppendRequest(nil, req)
		}
		if !bytes.Equal(Append(nil, f), raw) {
			t.Errorf("%s: bytes changed", file)
		}
	}
}

// The example that PROTOCOL notes take apart: a worker's first message.
func TestFirstMessageOfAWorker(t *testing.T) {
	f, err := NewReader(bytes.NewReader(recordedFrames(t)["../sparkmsg/testdata/spark-3.5.9/worker-to-master-CheckExistence.bin"])).Next()
	if err != nil {
		t.Fatal(err)
	}
	if f.Type != RPCRequest || f.RequestID != 0x6AFDDBA53D52B549 || len(f.Body) != 170 {
		t.Errorf("%s %x %d", f.Type, f.RequestID, len(f.Body))
	}
	req, err := ParseRequest(f.Body)
	if err != nil {
		t.Fatal(err)
	}
	want := Request{Sender: &Address{"127.0.0.1", 21010}, Receiver: &Address{"127.0.0.1", 21000}, Endpoint: "endpoint-verifier", Content: req.Content}
	if !reflect.DeepEqual(req, want) || !bytes.HasPrefix(req.Content, []byte{0xAC, 0xED, 0, 5}) {
		t.Errorf("%+v", req)
	}
}

func TestFramesSplitAndMergedAnywhere(t *testing.T) {
	frames := []Frame{
		{Type: RPCRequest, RequestID: 1, Body: []byte("ask")}, {Type: OneWayMessage, Body: bytes.Repeat([]byte("x"), 100_000)},
		{Type: RPCResponse, RequestID: -1, Body: []byte{}}, {Type: RPCFailure, RequestID: 1 << 62, Body: []byte("text")},
	}
	var stream []byte
	for _, f := range frames {
		stream = Append(stream, f)
	}
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(stream), "bytes": iotest.OneByteReader(bytes.NewReader(stream)), "halves": iotest.HalfReader(bytes.NewReader(stream)),
		"data with error": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		reader := NewReader(r)
		for i, want := range frames {
			got, err := reader.Next()
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: frame %d: %v", name, i, err)
			}
		}
		if _, err := reader.Next(); err != io.EOF {
			t.Errorf("%s: end is %v", name, err)
		}
	}
}

func TestStreamEndingInsideAFrame(t *testing.T) {
	raw := Append(nil, Frame{Type: RPCRequest, RequestID: 7, Body: []byte("body")})
	for n := 1; n < len(raw); n++ {
		if _, err := NewReader(bytes.NewReader(raw[:n])).Next(); err != ErrTruncated || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	broken := errors.New("reset")
	if _, err := NewReader(io.MultiReader(bytes.NewReader(raw[:20]), iotest.ErrReader(broken))).Next(); err != broken {
		t.Errorf("error of the connection became %v", err)
	}
}

func header(length uint64, typ byte, rest ...byte) []byte {
	return append(append(binary.BigEndian.AppendUint64(nil, length), typ), rest...)
}

func TestImpossibleLengthsAreRefused(t *testing.T) {
	for name, raw := range map[string][]byte{
		"zero":         header(0, 9),
		"negative":     header(1<<63, 9),
		"minus one":    header(1<<64-1, 9),
		"no body size": header(12, 9),
		"short ask":    header(20, 3, make([]byte, 20)...),
		"over default": header(DefaultMax+1, 9),
		"HTTP":         []byte("GET /v1/submissions/status/x HTTP/1.1\r\n"),
	} {
		_, err := NewReader(bytes.NewReader(raw)).Next()
		if s := (*SizeError)(nil); !errors.As(err, &s) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLimitCanBeRaisedForRegisteredPeers(t *testing.T) {
	raw := Append(nil, Frame{Type: OneWayMessage, Body: make([]byte, DefaultMax)})
	r := NewReader(bytes.NewReader(raw))
	r.SetMaxFrame(RegisteredMax)
	if f, err := r.Next(); err != nil || len(f.Body) != DefaultMax {
		t.Error(err)
	}
	r = NewReader(bytes.NewReader(raw))
	r.SetMaxFrame(-5)
	_, err := r.Next()
	if s := (*SizeError)(nil); !errors.As(err, &s) || s.Max != minFrame {
		t.Error(err)
	}
}

func TestBodySizeMustFitTheFrame(t *testing.T) {
	raw := Append(nil, Frame{Type: OneWayMessage, Body: []byte("body")})
	for _, declared := range []uint32{3, 5, 0, 1 << 31, 1<<32 - 1} {
		binary.BigEndian.PutUint32(raw[9:], declared)
		_, err := NewReader(bytes.NewReader(raw)).Next()
		if b := (*BodySizeError)(nil); !errors.As(err, &b) || b.Declared != int32(declared) || b.Actual != 4 {
			t.Errorf("%d: %v", declared, err)
		}
	}
}

func TestOtherMessageTypesAreRefused(t *testing.T) {
	files, err := filepath.Glob("testdata/refused-*.bin") // block transfers between executors
	if err != nil || len(files) != 6 {
		t.Fatal(err, len(files))
	}
	raws := [][]byte{header(100, 255, make([]byte, 100)...)}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raws = append(raws, raw)
	}
	for _, raw := range raws {
		_, err := NewReader(bytes.NewReader(raw)).Next()
		if e := (*TypeError)(nil); !errors.As(err, &e) || byte(e.Type) != raw[8] {
			t.Errorf("type %d: %v", raw[8], err)
		}
	}
}

func TestDeclaredLengthAllocatesNothingByItself(t *testing.T) {
	raw := header(RegisteredMax, 9, 0, 0xFF, 0xFF, 0xF3, 'x')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := NewReader(bytes.NewReader(raw))
	r.SetMaxFrame(RegisteredMax)
	if _, err := r.Next(); err != ErrTruncated {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<10 {
		t.Errorf("%d bytes allocated for one that arrived", used)
	}
}

func TestRequestWithAbsentAddressesAndRareNames(t *testing.T) {
	for _, want := range []Request{
		{Endpoint: "Worker", Content: []byte{1}},
		{Sender: &Address{"h", 0}, Endpoint: "", Content: []byte{1}},
		{Receiver: &Address{"::1", 65535}, Endpoint: "endpoint-verifier", Content: []byte{1, 2}},
		{Sender: &Address{"h\u00f6st\x00\U0001F600", -1}, Endpoint: "e", Content: []byte{1}},
	} {
		got, err := ParseRequest(AppendRequest(nil, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
	}
}

func TestAddressesPrintAsSparkDoes(t *testing.T) {
	for a, want := range map[Address]string{
		{"h", 7077}: "h:7077", {"10.0.0.1", 1}: "10.0.0.1:1", {"::1", 7077}: "[::1]:7077", {"[::1]", 7077}: "[::1]:7077",
	} {
		if a.String() != want {
			t.Errorf("%q, want %q", a.String(), want)
		}
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	good := AppendRequest(nil, Request{Sender: &Address{"secret", 1}, Receiver: &Address{"secret", 2}, Endpoint: "secret", Content: []byte{1}})
	bad := map[string][]byte{
		"presence":    {2},
		"long name":   append([]byte{0, 0, 0xFF, 0xFF}, make([]byte, 1<<16)...),
		"bad text":    {0, 0, 0, 2, 0xC0, 0x20, 1},
		"raw zero":    {0, 0, 0, 1, 0, 1},
		"half a pair": {0, 0, 0, 3, 0xED, 0xA0},
	}
	for n := range good {
		bad["cut at "+string(rune('0'+n))] = good[:n]
	}
	for name, body := range bad {
		_, err := ParseRequest(body)
		if r := (*RequestError)(nil); !errors.As(err, &r) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTypesHaveSparkNames(t *testing.T) {
	for typ, want := range map[Type]string{RPCRequest: "RpcRequest", RPCResponse: "RpcResponse", RPCFailure: "RpcFailure", OneWayMessage: "OneWayMessage", 0: "Type(0)"} {
		if typ.String() != want {
			t.Errorf("%d is %s", typ, typ)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, raw := range recordedFrames(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewReader(bytes.NewReader(stream))
		var back []byte
		for {
			frame, err := r.Next()
			if err != nil {
				break
			}
			back = Append(back, frame)
		}
		if !bytes.HasPrefix(stream, back) {
			t.Fatal("frames written back differ from those read")
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	for _, raw := range recordedFrames(f) {
		if frame, err := NewReader(bytes.NewReader(raw)).Next(); err == nil {
			f.Add(frame.Body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := ParseRequest(body)
		if err == nil && !bytes.Equal(AppendRequest(nil, req), body) {
			t.Fatal("request written back differs from the one read")
		}
	})
}

func TestBeginAndEndRequestMakeTheSameFrame(t *testing.T) {
	from, to := Address{Host: "127.0.0.1", Port: 7077}, Address{Host: "worker", Port: 1}
	for _, typ := range []Type{RPCRequest, OneWayMessage} {
		id := int64(0)
		if typ == RPCRequest {
			id = 42
		}
		for _, content := range []string{"", "x", strings.Repeat("long", 1000)} {
			r := Request{Sender: &from, Receiver: &to, Endpoint: "Worker", Content: []byte(content)}
			want := Append([]byte("before"), Frame{Type: typ, RequestID: id, Body: AppendRequest(nil, r)})
			got := append(BeginRequest([]byte("before"), typ, id, r), content...)
			EndRequest(got, len("before"))
			if !bytes.Equal(got, want) {
				t.Errorf("%s with %d bytes: %q, want %q", typ, len(content), got, want)
			}
		}
	}
}
