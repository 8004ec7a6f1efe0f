package sparkmsg

import (
	"encoding/binary"

	"raftmaster/transport/javaser"
	"raftmaster/transport/javaser/mutf8"
)

const (
	executorMessages = "org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages$"
	storageMessages  = "org.apache.spark.storage.BlockManagerMessages$"

	blockManagerIDClass = "org.apache.spark.storage.BlockManagerId"
	threadDumpClass     = "[Lorg.apache.spark.status.api.v1.ThreadStackTrace;"
)

// executorReaders are the readers of the messages between executors and drivers.
var executorReaders = map[string]func(record) Message{
	executorMessages + "RetrieveSparkAppConfig": func(r record) Message {
		return &RetrieveSparkAppConfig{ResourceProfileID: r.i32("resourceProfileId")}
	},
	executorMessages + "SparkAppConfig":        readSparkAppConfig,
	executorMessages + "RegisterExecutor":      readRegisterExecutor,
	executorMessages + "LaunchedExecutor":      func(r record) Message { return &LaunchedExecutor{ExecutorID: r.str("executorId")} },
	executorMessages + "RemoveExecutor":        readRemoveExecutor,
	executorMessages + "StopExecutor$":         func(record) Message { return &StopExecutor{} },
	executorMessages + "DecommissionExecutor$": func(record) Message { return &DecommissionExecutor{} },
	executorMessages + "ExecutorDecommissioning": func(r record) Message {
		return &ExecutorDecommissioning{ExecutorID: r.str("executorId")}
	},
	storageMessages + "RegisterBlockManager": readRegisterBlockManager,
	storageMessages + "TriggerThreadDump$":   func(record) Message { return &TriggerThreadDump{} },
	blockManagerIDClass:                      func(r record) Message { return &RegisteredBlockManager{ID: r.blockManagerID()} },
	"org.apache.spark.Heartbeat":             readExecutorHeartbeat,
	"org.apache.spark.HeartbeatResponse": func(r record) Message {
		return &HeartbeatResponse{ReregisterBlockManager: r.boolean("reregisterBlockManager")}
	},
}

func readSparkAppConfig(r record) Message {
	m := &SparkAppConfig{
		IOEncryptionKey:       r.optBytes("ioEncryptionKey"),
		HadoopDelegationCreds: r.optBytes("hadoopDelegationCreds"),
	}
	if o, ok := r.object("resourceProfile"); ok {
		m.ResourceProfile = readResourceProfile(o)
	}
	if r.has("logLevel") {
		m.LogLevel = r.optString("logLevel")
	}
	const field = "sparkProperties"
	entries, reason := tuples(r.seq(field))
	if reason != "" {
		r.fail(field, reason)
	}
	for _, e := range entries {
		m.SparkProperties = append(m.SparkProperties, Property{Key: r.asString(field, e.key), Value: r.asString(field, e.value)})
	}
	return m
}

// optBytes reads an Option[Array[Byte]]; nil for None, and not nil for an empty array.
func (r record) optBytes(field string) []byte {
	n, ok := r.option(field)
	if !ok {
		return nil
	}
	a, ok := n.(*javaser.Array)
	if !ok || a.Class.Name != "[B" {
		r.fail(field, "is not an array of bytes")
		return nil
	}
	return append([]byte{}, a.Raw...)
}

func readRegisterExecutor(r record) Message {
	return &RegisterExecutor{
		ExecutorID:        r.str("executorId"),
		Executor:          r.ref("executorRef"),
		Hostname:          r.str("hostname"),
		Cores:             r.i32("cores"),
		LogURLs:           r.stringPairs("logUrls"),
		Attributes:        r.stringPairs("attributes"),
		Resources:         r.resources("resources"),
		ResourceProfileID: r.i32("resourceProfileId"),
	}
}

// stringPairs reads a map of strings; one of an unknown class is empty.
func (r record) stringPairs(field string) []StringPair {
	entries, reason := readMap(r.node(field))
	if reason != "" || !r.spend(field, len(entries)) {
		return nil
	}
	var out []StringPair
	for _, e := range entries {
		out = append(out, StringPair{Key: r.asString(field, e.key), Value: r.asString(field, e.value)})
	}
	return out
}

// readRemoveExecutor reads the reason as far as it is text: some reasons are Scala objects, which travel by name only.
func readRemoveExecutor(r record) Message {
	m := &RemoveExecutor{ExecutorID: r.str("executorId"), ReasonClass: moduleName(r.node("reason"))}
	if o, ok := r.asObject("reason", r.node("reason"), true); ok && o.has("message") {
		m.Reason = o.str("message")
	}
	return m
}

func readRegisterBlockManager(r record) Message {
	m := &RegisterBlockManager{
		MaxOnHeapMemSize:  r.i64("maxOnHeapMemSize"),
		MaxOffHeapMemSize: r.i64("maxOffHeapMemSize"),
		Sender:            r.ref("sender"),
	}
	if o, ok := r.object("blockManagerId"); ok {
		m.ID = o.blockManagerID()
	}
	if r.has("isReRegister") {
		m.IsReRegister = r.boolean("isReRegister")
	}
	list, ok := r.node("localDirs").(*javaser.Array)
	if !ok || len(list.Raw) > 0 {
		r.fail("localDirs", "is not an array of strings")
		return nil
	}
	if r.spend("localDirs", len(list.Refs)) {
		m.LocalDirs = r.asStrings("localDirs", list.Refs)
	}
	return m
}

// blockManagerID reads what BlockManagerId.writeExternal writes: executor id, host, port, whether there is a topology,
// and the topology.
func (r record) blockManagerID() BlockManagerID {
	r.mustBe(blockManagerIDClass)
	id := BlockManagerID{Graph: r.o}
	var data []byte
	for _, n := range r.o.Annotation(blockManagerIDClass) {
		b, ok := n.(*javaser.Block) // more than one only if it is longer than a JVM's block
		if !ok {
			r.fail("content", "is not block data")
			return id
		}
		data = append(data, b.Data...)
	}
	in := externalReader{b: data}
	id.ExecutorID, id.Host, id.Port = in.text(), in.text(), in.i32()
	if in.boolean() {
		topology := in.text()
		id.Topology = &topology
	}
	if in.bad || len(in.b) > 0 {
		r.fail("content", "is not that of a BlockManagerId")
	}
	return id
}

// externalReader reads what a java.io.DataOutput wrote; reads after an error give zero values.
type externalReader struct {
	b   []byte
	bad bool
}

// take returns the next n bytes, nil after an error.
func (e *externalReader) take(n int) []byte {
	if e.bad || n > len(e.b) {
		e.bad = true
		return nil
	}
	out := e.b[:n]
	e.b = e.b[n:]
	return out
}

func (e *externalReader) i32() int32 {
	if b := e.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (e *externalReader) boolean() bool {
	b := e.take(1)
	return b != nil && b[0] != 0
}

func (e *externalReader) text() string {
	n := e.take(2)
	if n == nil {
		return ""
	}
	s, err := mutf8.Decode(e.take(int(binary.BigEndian.Uint16(n))))
	if err != nil {
		e.bad = true
	}
	return s
}

func readExecutorHeartbeat(r record) Message {
	m := &ExecutorHeartbeat{ExecutorID: r.str("executorId")}
	if o, ok := r.object("blockManagerId"); ok {
		m.BlockManager = o.blockManagerID()
	}
	m.AccumUpdates = len(refs(r.node("accumUpdates")))
	if entries, reason := readMap(r.node("executorUpdates")); reason == "" {
		m.Updates = len(entries)
	}
	return m
}

// readThreadDump reads the array that answers TriggerThreadDump. Its classes are in no catalogue: they differ inside
// families, and are read by the names of their fields.
func readThreadDump(a *javaser.Array) (*ThreadDump, error) {
	r := newRecord(&javaser.Object{Class: a.Class})
	m := &ThreadDump{}
	if !r.spend("elements", len(a.Refs)) {
		return nil, r.st.err
	}
	for _, n := range a.Refs {
		o, ok := r.asObject("element", n, false)
		if !ok {
			return nil, r.st.err
		}
		t := ThreadStackTrace{ThreadID: o.i64("threadId"), Name: o.str("threadName")}
		if state, ok := o.node("threadState").(*javaser.Enum); ok && state.Name != nil {
			t.State = state.Name.Value
		}
		if stack, ok := o.object("stackTrace"); ok {
			t.Stack = stack.strings("elems")
		}
		m.Threads = append(m.Threads, t)
	}
	return m, r.st.err
}
