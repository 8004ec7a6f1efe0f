package sparkmsg

import (
	"bytes"
	"encoding/binary"
	"sync"
	"weak"

	"raftmaster/transport/javaser/mutf8"
)

// Most messages of a busy master differ from the last one of their kind in a few numbers and strings. They are not
// encoded from an object graph again: the bytes before are kept as a form, and the new values filled in. A form is only
// kept if filling it in gives the very bytes that the graph does.

const (
	maxForms    = 1024    // entries of a table of forms; a full one is emptied
	maxFormSize = 8 << 10 // bytes of one form
	maxFormText = 256     // bytes of free text in a form's key: longer ones hardly come again
)

// forms is a bounded table that may be used from any goroutine.
type forms[K comparable, V any] struct {
	mu sync.RWMutex
	m  map[K]V
}

func (f *forms[K, V]) get(k K) (V, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	v, ok := f.m[k]
	return v, ok
}

func (f *forms[K, V]) put(k K, v V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m == nil || len(f.m) >= maxForms {
		f.m = make(map[K]V)
	}
	f.m[k] = v
}

// numbered is a stream with 32-bit numbers in one place. The zero value marks a message that has no form.
type numbered struct {
	stream []byte
	at     int
}

// fill appends the stream with other numbers.
func (n numbered) fill(dst []byte, numbers ...int32) []byte {
	at := len(dst) + n.at
	dst = append(dst, n.stream...)
	for i, v := range numbers {
		binary.BigEndian.PutUint32(dst[at+4*i:], uint32(v))
	}
	return dst
}

// newNumbered makes a form from the stream of a message with the given marks for numbers.
func newNumbered(stream []byte, marks ...int32) numbered {
	var sign []byte
	for _, m := range marks {
		sign = binary.BigEndian.AppendUint32(sign, uint32(m))
	}
	at := bytes.Index(stream, sign)
	if at < 0 || bytes.Contains(stream[at+1:], sign) || len(stream) > maxFormSize {
		return numbered{}
	}
	return numbered{bytes.Clone(stream), at}
}

// The marks stand for numbers while a form is made. They fit every check of a message's fields.
const (
	mark1 int32 = 0x3A5B6C7D
	mark2 int32 = 0x3B6C7D5A
	mark3 int32 = 0x3C7D5A6B
	mark4 int32 = 0x3D5A6B7C
)

type launchKey struct {
	desc          weak.Pointer[ApplicationDescription]
	appID, master string
	fam           Family
}

var launchForms forms[launchKey, numbered]

// appendLaunch appends a launch without resources of a description that was received; ok is false for any other.
func appendLaunch(dst []byte, m *LaunchExecutor, fam Family) (_ []byte, ok bool) {
	if m.AppDesc == nil || m.AppDesc.Graph == nil || len(m.Resources) > 0 {
		return dst, false
	}
	key := launchKey{desc: weak.Make(m.AppDesc), appID: m.AppID, master: m.MasterURL, fam: fam}
	numbers := [4]int32{m.Cores, m.ExecID, m.Memory, m.RPID} // in the order of the class
	used := numbers[:]
	if fam == FamilyA {
		used = numbers[:3] // it has no rpId
	}
	form, known := launchForms.get(key)
	if !known {
		marked := *m
		marked.Cores, marked.ExecID, marked.Memory, marked.RPID = mark1, mark2, mark3, mark4
		form = learn(m, &marked, fam, used, []int32{mark1, mark2, mark3, mark4}[:len(used)])
		launchForms.put(key, form)
	}
	if form.stream == nil {
		return dst, false
	}
	return form.fill(dst, used...), true
}

// learn makes a form of the marked message, and gives the zero form unless it reproduces the message itself.
func learn(msg, marked Message, fam Family, numbers, marks []int32) numbered {
	want, err := encodeGraph(nil, msg, fam)
	if err != nil {
		return numbered{}
	}
	stream, err := encodeGraph(nil, marked, fam)
	if err != nil {
		return numbered{}
	}
	form := newNumbered(stream, marks...)
	if form.stream == nil || !bytes.Equal(form.fill(nil, numbers...), want) {
		return numbered{}
	}
	return form
}

type updateKey struct {
	fam                      Family
	state                    ExecutorState
	exit                     int32
	message, host            string
	hasExit, hasMsg, hasHost bool
}

var updateForms forms[updateKey, numbered]

// appendUpdate appends an ExecutorUpdated.
func appendUpdate(dst []byte, m *ExecutorUpdated, fam Family) (_ []byte, ok bool) {
	key := updateKey{fam: fam, state: m.State}
	if m.ExitStatus != nil {
		key.exit, key.hasExit = *m.ExitStatus, true
	}
	if m.Message != nil {
		key.message, key.hasMsg = *m.Message, true
	}
	if m.WorkerHost != nil {
		key.host, key.hasHost = *m.WorkerHost, true
	}
	if len(key.message)+len(key.host) > maxFormText {
		return dst, false
	}
	form, known := updateForms.get(key)
	if !known {
		marked := *m
		marked.ID = mark1
		form = learn(m, &marked, fam, []int32{m.ID}, []int32{mark1})
		updateForms.put(key, form)
	}
	if form.stream == nil {
		return dst, false
	}
	return form.fill(dst, m.ID), true
}

// flat is the form of a class whose fields are 32-bit numbers followed by strings: everything before the numbers.
type flat struct {
	fam  Family
	name string
}

var flatForms forms[flat, []byte]

// appendFlat appends an object of such a class. blank is a message of it without any content.
func appendFlat(dst []byte, blank Message, fam Family, numbers []int32, texts ...string) (_ []byte, ok bool) {
	const emptyString = 3 // type and length
	key := flat{fam, blank.MessageName()}
	prefix, known := flatForms.get(key)
	if !known {
		stream, err := encodeGraph(nil, blank, fam)
		size := 4*len(numbers) + emptyString*len(texts)
		if err == nil && len(stream) > size && bytes.Equal(stream[len(stream)-size:], appendFlatFields(nil, make([]int32, len(numbers)), make([]string, len(texts)))) {
			prefix = bytes.Clone(stream[:len(stream)-size])
		}
		flatForms.put(key, prefix)
	}
	if prefix == nil {
		return dst, false
	}
	for _, s := range texts {
		if len(s) > 1<<14 {
			return dst, false // a long string has another form
		}
	}
	return appendFlatFields(append(dst, prefix...), numbers, texts), true
}

func appendFlatFields(dst []byte, numbers []int32, texts []string) []byte {
	for _, v := range numbers {
		dst = binary.BigEndian.AppendUint32(dst, uint32(v))
	}
	for _, s := range texts {
		const tcString = 0x74 // java.io.ObjectStreamConstants
		n := mutf8.Len(s)
		dst = append(dst, tcString, byte(n>>8), byte(n))
		dst = mutf8.Append(dst, s)
	}
	return dst
}

// sameKey tells messages apart that are alike for many peers.
type sameKey struct {
	fam     Family
	message any // a comparable value
}

// registeredKey stands for a RegisteredWorker, which holds a pointer.
type registeredKey struct {
	message RegisteredWorker // without the master's address
	master  Address
}

var sameForms forms[sameKey, []byte]

// appendSame appends a message that was encoded before, or remembers it.
func appendSame(dst []byte, key any, msg Message, fam Family) (_ []byte, ok bool) {
	k := sameKey{fam, key}
	stream, known := sameForms.get(k)
	if !known {
		var err error
		if stream, err = encodeGraph(nil, msg, fam); err != nil || len(stream) > maxFormSize {
			return dst, false
		}
		stream = bytes.Clone(stream)
		sameForms.put(k, stream)
	}
	return append(dst, stream...), true
}

// appendForm appends the messages that have forms; ok is false for others, and dst is then as it was.
func appendForm(dst []byte, msg Message, fam Family) (_ []byte, ok bool) {
	switch m := msg.(type) {
	case *LaunchExecutor:
		return appendLaunch(dst, m, fam)
	case *ExecutorUpdated:
		return appendUpdate(dst, m, fam)
	case *ExecutorAdded:
		return appendFlat(dst, &ExecutorAdded{}, fam, []int32{m.Cores, m.ID, m.Memory}, m.HostPort, m.WorkerID)
	case *KillExecutor:
		return appendFlat(dst, &KillExecutor{}, fam, []int32{m.ExecID}, m.AppID, m.MasterURL)
	case *ApplicationFinished:
		return appendFlat(dst, &ApplicationFinished{}, fam, nil, m.ID)
	case *WorkerRemoved:
		return appendFlat(dst, &WorkerRemoved{}, fam, nil, m.Host, m.ID, m.Message)
	case *CheckExistence:
		return appendFlat(dst, &CheckExistence{}, fam, nil, m.Name)
	case *RegisteredWorker:
		if m.Master.Address == nil {
			return dst, false
		}
		key := registeredKey{message: *m, master: *m.Master.Address}
		key.message.Master.Address = nil
		return appendSame(dst, key, m, fam)
	}
	return dst, false
}
