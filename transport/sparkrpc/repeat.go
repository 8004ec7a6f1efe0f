package sparkrpc

import (
	"encoding/binary"
	"hash/maphash"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// A worker's heartbeats are the same bytes every time, and most of what a large cluster sends. The last one of each
// connection is remembered by a hash under a key of this process, and what it was decoded to is used again.

// repeatSeed keys the hashes; a peer cannot know it.
var repeatSeed = maphash.MakeSeed()

// repeat is a message that may come again.
type repeat struct {
	size     int    // of the body
	sum      uint64 // hash of the body
	in       Inbound
	families sparkmsg.FamilySet // of this message alone
}

// oneWayHead is what precedes the body of a one-way frame: length, type, size of the body.
const oneWayHead = 8 + 1 + 4

// shortcut is what OnRepeat was given.
type shortcut struct {
	msg  sparkmsg.Message
	take func() bool
}

// takes handles the remembered message if the shortcut is for it; false when the Handler has to.
func (s *shortcut) takes(last *repeat) bool {
	return s != nil && s.msg == last.in.Msg && s.take()
}

// OnRepeat lets take handle msg in place of the Handler when the same bytes come again on this connection, as long as it
// returns true. msg is what the Handler was given for the first one. take runs in the order of the connection's messages,
// on a goroutine that serves other connections too: it must be quick, must not block and must not use the Conn.
func (c *Conn) OnRepeat(msg sparkmsg.Message, take func() bool) {
	c.shortcut.Store(&shortcut{msg, take})
}

// remember keeps a message that was just decoded from body, if it is of the kind that comes again.
func (c *Conn) remember(body []byte, in Inbound, own sparkmsg.FamilySet) {
	if _, ok := in.Msg.(*sparkmsg.Heartbeat); !ok || len(body)+oneWayHead > readBufferSize {
		return
	}
	c.settled = true
	c.last = &repeat{size: len(body), sum: maphash.Bytes(repeatSeed, body), in: in, families: own}
}

// isRepeat reports whether b is the frame of the remembered message.
func (c *Conn) isRepeat(b []byte) bool {
	return binary.BigEndian.Uint64(b) == uint64(len(b)) && frame.Type(b[8]) == frame.OneWayMessage &&
		binary.BigEndian.Uint32(b[9:]) == uint32(c.last.size) && maphash.Bytes(repeatSeed, b[oneWayHead:]) == c.last.sum
}

// repeated handles the next frame, of which a part has been read, if it is the remembered one again; it reports whether it
// did. It waits only for what the frame has by its length.
func (c *Conn) repeated(r *connReader) (bool, error) {
	last := c.last
	if last == nil {
		return false, nil
	}
	size := oneWayHead + last.size
	b, err := r.gather(oneWayHead) // no frame is shorter
	if err == nil && binary.BigEndian.Uint64(b) == uint64(size) {
		b, err = r.gather(size)
	}
	if err != nil || len(b) != size || !c.isRepeat(b) {
		return false, err
	}
	r.r += len(b)
	if c.shortcut.Load().takes(last) {
		c.narrow(last.families)
		c.countIn()
		return true, nil
	}
	in := last.in
	if in.Sender != nil {
		c.e.name(c, *in.Sender)
	}
	in.Families = c.narrow(last.families)
	c.countIn()
	c.e.handler.OneWay(c, in)
	return true, nil
}

// taken handles the remembered message, as often as it is what has arrived while the connection was idle, until its
// shortcut declines. It returns how much of b that was, and never blocks.
func (c *Conn) taken(b []byte) (used int) {
	last, short := c.last, c.shortcut.Load()
	for size := oneWayHead + last.size; len(b)-used >= size; used += size {
		if !c.isRepeat(b[used:used+size]) || !short.takes(last) {
			break
		}
		c.narrow(last.families)
		c.countIn()
	}
	return used
}
