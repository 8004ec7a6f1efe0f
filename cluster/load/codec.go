package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// codec encodes and recognises the messages of one family without building a graph for each of them.
type codec struct {
	fam    sparkmsg.Family
	exist  []byte // CheckExistence("Master")
	nosuch []byte // RequestDriverStatus of a driver that nobody has
	seed   maphash.Seed

	mu      sync.RWMutex
	reports map[reportKey]patched
	prefix  []byte                // of a LaunchExecutor, up to its four numbers
	tails   map[uint64]launchTail // what follows the numbers, by hash
	checks  map[string]string     // CheckExistence streams and the endpoint they name
}

type reportKey struct {
	app   string
	state sparkmsg.ExecutorState
}

// patched is a message with a place for an executor id.
type patched struct {
	content []byte
	at      int
}

type launchTail struct{ app, masterURL string }

// launch is what a worker needs of a LaunchExecutor.
type launch struct {
	app, masterURL        string
	id, rp, cores, memory int32
}

const maxCached = 1 << 16 // entries of each cache

// nobody is a driver id that no master has given.
const nobody = "driver-19700101000000-0000-load"

func newCodec(fam sparkmsg.Family) (*codec, error) {
	c := &codec{fam: fam, seed: maphash.MakeSeed(), reports: map[reportKey]patched{}, tails: map[uint64]launchTail{},
		checks: map[string]string{}}
	var err, err2 error
	c.exist, err = sparkmsg.Encode(&sparkmsg.CheckExistence{Name: "Master"}, fam)
	c.nosuch, err2 = sparkmsg.Encode(&sparkmsg.RequestDriverStatus{DriverID: nobody}, fam)
	return c, errors.Join(err, err2)
}

// request puts a content into a frame; id is 0 for a one-way message.
func request(from, to frame.Address, endpoint string, id int64, content []byte) []byte {
	body := frame.AppendRequest(make([]byte, 0, len(content)+96), frame.Request{Sender: &from, Receiver: &to, Endpoint: endpoint, Content: content})
	t := frame.OneWayMessage
	if id != 0 {
		t = frame.RPCRequest
	}
	return frame.Append(make([]byte, 0, len(body)+21), frame.Frame{Type: t, RequestID: id, Body: body})
}

// report encodes an ExecutorStateChanged.
func (c *codec) report(app string, id int32, state sparkmsg.ExecutorState) ([]byte, error) {
	key := reportKey{app, state}
	c.mu.RLock()
	p, ok := c.reports[key]
	c.mu.RUnlock()
	if !ok {
		var err error
		if p, err = c.newReport(key); err != nil {
			return nil, err
		}
	}
	content := bytes.Clone(p.content)
	binary.BigEndian.PutUint32(content[p.at:], uint32(id))
	return content, nil
}

func (c *codec) newReport(key reportKey) (patched, error) {
	const mark = 0x5A5B5C5D
	m := &sparkmsg.ExecutorStateChanged{AppID: key.app, ExecID: mark, State: key.state}
	if key.state.Finished() {
		status := int32(0)
		if key.state == sparkmsg.ExecutorKilled {
			status = 143
		}
		text := fmt.Sprintf("Command exited with code %d", status)
		m.ExitStatus, m.Message = &status, &text
	}
	content, err := sparkmsg.Encode(m, c.fam)
	if err != nil {
		return patched{}, err
	}
	sign := binary.BigEndian.AppendUint32(nil, mark)
	at := bytes.Index(content, sign)
	if at < 0 || bytes.Contains(content[at+1:], sign) {
		return patched{}, errors.New("load: no single place for the executor id")
	}
	p := patched{content, at}
	c.mu.Lock()
	if len(c.reports) < maxCached {
		c.reports[key] = p
	}
	c.mu.Unlock()
	return p, nil
}

// launch reads a LaunchExecutor. Two launches of one application differ in four numbers only, which stand together
// behind the class descriptor: cores, execId, memory, rpId.
func (c *codec) launch(content []byte) (launch, error) {
	const numbers = 16
	c.mu.RLock()
	prefix := c.prefix
	if n := len(prefix); n > 0 && len(content) > n+numbers && bytes.Equal(content[:n], prefix) {
		tail, ok := c.tails[maphash.Bytes(c.seed, content[n+numbers:])]
		if ok {
			c.mu.RUnlock()
			at := func(i int) int32 { return int32(binary.BigEndian.Uint32(content[n+4*i:])) }
			return launch{app: tail.app, masterURL: tail.masterURL, cores: at(0), id: at(1), memory: at(2), rp: at(3)}, nil
		}
	}
	c.mu.RUnlock()
	d, err := sparkmsg.Decode(content)
	if err != nil {
		return launch{}, err
	}
	m, ok := d.Msg.(*sparkmsg.LaunchExecutor)
	if !ok {
		return launch{}, fmt.Errorf("load: %s where LaunchExecutor was expected", d.Msg.MessageName())
	}
	l := launch{app: m.AppID, masterURL: m.MasterURL, id: m.ExecID, rp: m.RPID, cores: m.Cores, memory: m.Memory}
	c.learn(content, l)
	return l, nil
}

func (c *codec) learn(content []byte, l launch) {
	var sign []byte
	for _, n := range []int32{l.cores, l.id, l.memory, l.rp} {
		sign = binary.BigEndian.AppendUint32(sign, uint32(n))
	}
	at := bytes.Index(content, sign)
	if at < 0 { // another layout (family A has no rpId): it is decoded each time
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prefix == nil {
		c.prefix = bytes.Clone(content[:at])
	}
	if len(c.prefix) == at && len(c.tails) < maxCached {
		c.tails[maphash.Bytes(c.seed, content[at+len(sign):])] = launchTail{app: l.app, masterURL: l.masterURL}
	}
}

// check returns the endpoint that a CheckExistence asks for.
func (c *codec) check(content []byte) (string, error) {
	c.mu.RLock()
	name, ok := c.checks[string(content)]
	c.mu.RUnlock()
	if ok {
		return name, nil
	}
	d, err := sparkmsg.Decode(content)
	if err != nil {
		return "", err
	}
	m, ok := d.Msg.(*sparkmsg.CheckExistence)
	if !ok {
		return "", fmt.Errorf("load: %s at the endpoint verifier", d.Msg.MessageName())
	}
	c.mu.Lock()
	if len(c.checks) < 64 {
		c.checks[string(content)] = m.Name
	}
	c.mu.Unlock()
	return m.Name, nil
}

// messageName returns the simple name of the class of a stream's object, "" when it cannot be told without decoding.
func messageName(content []byte) string {
	const at = 8 // AC ED 00 05, TC_OBJECT, TC_CLASSDESC, two bytes of length
	if len(content) < at || content[4] != 0x73 || content[5] != 0x72 {
		return ""
	}
	n := int(binary.BigEndian.Uint16(content[6:]))
	if len(content) < at+n {
		return ""
	}
	const prefix = "org.apache.spark.deploy.DeployMessages$"
	name := string(content[at : at+n])
	if !strings.HasPrefix(name, prefix) {
		return ""
	}
	return strings.TrimSuffix(name[len(prefix):], "$")
}
