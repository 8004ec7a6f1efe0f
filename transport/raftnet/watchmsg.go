package raftnet

import (
	"encoding/binary"
	"fmt"
	"io"
)

// WatchMessage is one of *Ping, *Info, *Ask, *Answer, *Goodbye, *DigestReport, *DigestVerdict, *Campaign.
type WatchMessage interface {
	watchType() byte
	encode(b []byte) []byte
	decode(f *fields)
}

// Ping keeps a watch connection warm. It has no answer: TCP's own acknowledgement is enough.
type Ping struct{}

// Info renews what a handshake said: a node has joined a cluster, or its URLs have changed.
type Info struct{ Hello Hello }

// Ask asks a voter about a leader that seems lost.
type Ask struct {
	Seq                  uint64
	LeaderID, LeaderBoot string
	Term                 uint64
}

// Answer answers an Ask. Lost: that process of the leader is proven gone here too.
type Answer struct {
	Seq                 uint64
	Lost                bool
	Term                uint64
	LastIndex, LastTerm uint64
	NodeID              string
}

// Goodbye announces that the sender stops on purpose, in that term: its end is no failure.
type Goodbye struct{ Term uint64 }

// DigestReport tells the leader a follower's digest at an index.
type DigestReport struct {
	Index  uint64
	Digest string
}

// DigestVerdict is the leader's word on the digest that the majority has at an index.
type DigestVerdict struct {
	Term, Index uint64
	Digest      string
}

// Campaign announces that the sender is about to ask for votes of that term: saving its own takes a few disk syncs, in
// which others must not begin, too.
type Campaign struct{ Term uint64 }

const (
	watchPing byte = iota + 1
	watchInfo
	watchAsk
	watchAnswer
	watchGoodbye
	watchDigestReport
	watchDigestVerdict
	watchCampaign
)

func (*Ping) watchType() byte          { return watchPing }
func (*Info) watchType() byte          { return watchInfo }
func (*Ask) watchType() byte           { return watchAsk }
func (*Answer) watchType() byte        { return watchAnswer }
func (*Goodbye) watchType() byte       { return watchGoodbye }
func (*DigestReport) watchType() byte  { return watchDigestReport }
func (*DigestVerdict) watchType() byte { return watchDigestVerdict }
func (*Campaign) watchType() byte      { return watchCampaign }

func (*Ping) encode(b []byte) []byte { return b }
func (*Ping) decode(*fields)         {}

func (m *Info) encode(b []byte) []byte { return append(b, AppendHello(nil, m.Hello)[6:]...) }
func (m *Info) decode(f *fields)       { m.Hello, f.err = parseHello(f.b) }

func (m *Ask) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, m.Seq)
	b = appendString(b, m.LeaderID)
	b = appendString(b, m.LeaderBoot)
	return binary.AppendUvarint(b, m.Term)
}

func (m *Ask) decode(f *fields) {
	m.Seq, m.LeaderID, m.LeaderBoot, m.Term = f.uint(), f.string(), f.string(), f.uint()
}

func (m *Answer) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, m.Seq)
	b = appendBool(b, m.Lost)
	b = binary.AppendUvarint(b, m.Term)
	b = binary.AppendUvarint(b, m.LastIndex)
	b = binary.AppendUvarint(b, m.LastTerm)
	return appendString(b, m.NodeID)
}

func (m *Answer) decode(f *fields) {
	m.Seq, m.Lost, m.Term = f.uint(), f.bool(), f.uint()
	m.LastIndex, m.LastTerm, m.NodeID = f.uint(), f.uint(), f.string()
}

func (m *Goodbye) encode(b []byte) []byte { return binary.AppendUvarint(b, m.Term) }
func (m *Goodbye) decode(f *fields)       { m.Term = f.uint() }

func (m *DigestReport) encode(b []byte) []byte {
	return appendString(binary.AppendUvarint(b, m.Index), m.Digest)
}
func (m *DigestReport) decode(f *fields) { m.Index, m.Digest = f.uint(), f.string() }

func (m *DigestVerdict) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, m.Term)
	return appendString(binary.AppendUvarint(b, m.Index), m.Digest)
}
func (m *DigestVerdict) decode(f *fields) { m.Term, m.Index, m.Digest = f.uint(), f.uint(), f.string() }

func (m *Campaign) encode(b []byte) []byte { return binary.AppendUvarint(b, m.Term) }
func (m *Campaign) decode(f *fields)       { m.Term = f.uint() }

// AppendWatch encodes a message with its length: 4 bytes of length, 1 of type, the fields.
func AppendWatch(b []byte, m WatchMessage) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, m.watchType())
	b = m.encode(b)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// ReadWatch reads the next message. A type of a newer release gives nil without an error.
func ReadWatch(r io.Reader) (WatchMessage, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxWatchMessage {
		return nil, fmt.Errorf("%w: watch message of %d bytes, 1 to %d are allowed", ErrProtocol, n, maxWatchMessage)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return parseWatch(body)
}

func parseWatch(body []byte) (WatchMessage, error) {
	var m WatchMessage
	switch body[0] {
	case watchPing:
		m = &Ping{}
	case watchInfo:
		m = &Info{}
	case watchAsk:
		m = &Ask{}
	case watchAnswer:
		m = &Answer{}
	case watchGoodbye:
		m = &Goodbye{}
	case watchDigestReport:
		m = &DigestReport{}
	case watchDigestVerdict:
		m = &DigestVerdict{}
	case watchCampaign:
		m = &Campaign{}
	default:
		return nil, nil
	}
	f := fields{b: body[1:]}
	m.decode(&f)
	if f.err != nil {
		return nil, fmt.Errorf("%w: watch message type %d: %w", ErrProtocol, body[0], f.err)
	}
	return m, nil
}
