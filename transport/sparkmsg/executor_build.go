package sparkmsg

import (
	"encoding/binary"

	"raftmaster/transport/javaser"
	"raftmaster/transport/javaser/mutf8"
)

// executorMessage builds the messages between executors and drivers; ok is false for others.
func (b *builder) executorMessage(msg Message) (n javaser.Node, ok bool) {
	switch m := msg.(type) {
	case *RetrieveSparkAppConfig:
		return b.executor("RetrieveSparkAppConfig").i32("resourceProfileId", m.ResourceProfileID).node(), true
	case *SparkAppConfig:
		return b.sparkAppConfig(m), true
	case *RegisterExecutor:
		return b.registerExecutor(m), true
	case *LaunchedExecutor:
		return b.executor("LaunchedExecutor").str("executorId", m.ExecutorID).node(), true
	case *RemoveExecutor:
		reason := b.object("org.apache.spark.scheduler.ExecutorLossReason").str("message", m.Reason).node()
		return b.executor("RemoveExecutor").str("executorId", m.ExecutorID).ref("reason", reason).node(), true
	case *StopExecutor:
		return b.module(executorMessages + "StopExecutor$"), true
	case *DecommissionExecutor:
		return b.module(executorMessages + "DecommissionExecutor$"), true
	case *ExecutorDecommissioning:
		return b.executor("ExecutorDecommissioning").str("executorId", m.ExecutorID).node(), true
	case *RegisterBlockManager:
		return b.registerBlockManager(m), true
	case *RegisteredBlockManager:
		return b.blockManagerID(m.ID), true
	case *ExecutorHeartbeat:
		return b.executorHeartbeat(m), true
	case *HeartbeatResponse:
		return b.object("org.apache.spark.HeartbeatResponse").boolean("reregisterBlockManager", m.ReregisterBlockManager).node(), true
	case *TriggerThreadDump:
		return b.module(storageMessages + "TriggerThreadDump$"), true
	case *ThreadDump:
		b.fail("is read only: its classes are in no catalogue")
		return nil, true
	}
	return nil, false
}

func (b *builder) executor(name string) fields { return b.object(executorMessages + name) }

func (b *builder) sparkAppConfig(m *SparkAppConfig) javaser.Node {
	f := b.executor("SparkAppConfig")
	b.adopt(m.ResourceProfile.Graph)
	f.ref("hadoopDelegationCreds", b.optBytes(m.HadoopDelegationCreds)).ref("ioEncryptionKey", b.optBytes(m.IOEncryptionKey))
	if f.o != nil && !f.o.Set("logLevel", javaser.Value{Ref: b.optString(m.LogLevel)}) && m.LogLevel != nil {
		b.fail("has no log level")
	}
	entries := make([]javaser.Node, len(m.SparkProperties))
	for i, p := range m.SparkProperties {
		entries[i] = b.object("scala.Tuple2").ref("_1", text(p.Key)).ref("_2", text(p.Value)).node()
	}
	return f.ref("resourceProfile", b.resourceProfile(m.ResourceProfile)).
		ref("sparkProperties", b.wrappedArray(&javaser.Array{Class: b.cat.classes[tupleArray], Refs: entries})).node()
}

const tupleArray = "[Lscala.Tuple2;"

// wrappedArray builds the Seq that is an array: what toSeq makes of one.
func (b *builder) wrappedArray(array *javaser.Array) javaser.Node {
	if b.cat.fam.scala213() {
		return b.object("scala.collection.immutable.ArraySeq$ofRef").ref("unsafeArray", array).node()
	}
	return b.object("scala.collection.mutable.WrappedArray$ofRef").ref("array", array).node()
}

func (b *builder) optBytes(raw []byte) javaser.Node {
	if raw == nil {
		return b.none()
	}
	return b.some(&javaser.Array{Class: b.cat.classes["[B"], Raw: raw})
}

func (b *builder) registerExecutor(m *RegisterExecutor) javaser.Node {
	return b.executor("RegisterExecutor").i32("cores", m.Cores).i32("resourceProfileId", m.ResourceProfileID).
		ref("attributes", b.stringMap(m.Attributes)).str("executorId", m.ExecutorID).
		ref("executorRef", b.endpointRef(m.Executor)).str("hostname", m.Hostname).
		ref("logUrls", b.stringMap(m.LogURLs)).ref("resources", b.resources(m.Resources, nil)).node()
}

// stringMap builds the map that an executor makes of its environment; with Scala 2.13 it is a HashMap whatever its size.
func (b *builder) stringMap(list []StringPair) javaser.Node {
	entries := make([]pair, len(list))
	for i, p := range list {
		entries[i] = pair{text(p.Key), text(p.Value)}
	}
	if b.cat.fam.scala213() {
		return b.hashMap213(entries)
	}
	return b.mapOf(entries)
}

// registerBlockManagerClasses are the descriptors without and with Scala 2.13. They are in no catalogue, because the
// first releases of Spark 3.3 have one field less: the class is read by the names of its fields.
var registerBlockManagerClasses = func() (classes [2]*javaser.Class) {
	sig := func(s string) *javaser.String { return &javaser.String{Value: s} }
	fields := []javaser.Field{
		{Type: 'Z', Name: "isReRegister"}, {Type: 'J', Name: "maxOffHeapMemSize"}, {Type: 'J', Name: "maxOnHeapMemSize"},
		{Type: 'L', Name: "blockManagerId", Signature: sig("Lorg/apache/spark/storage/BlockManagerId;")},
		{Type: '[', Name: "localDirs", Signature: sig("[Ljava/lang/String;")},
		{Type: 'L', Name: "sender", Signature: sig("Lorg/apache/spark/rpc/RpcEndpointRef;")},
	}
	for i, suid := range [2]uint64{0xf64c89dee31b7eb3, 0x37ff709ca574387a} {
		classes[i] = javaser.NewClass(storageMessages+"RegisterBlockManager", int64(suid), javaser.FlagSerializable, fields, nil)
	}
	return classes
}()

func (b *builder) registerBlockManager(m *RegisterBlockManager) javaser.Node {
	class := registerBlockManagerClasses[0]
	if b.cat.fam.scala213() {
		class = registerBlockManagerClasses[1]
	}
	dirs := &javaser.Array{Class: b.cat.classes["[Ljava.lang.String;"], Refs: texts(m.LocalDirs)}
	return fields{b: b, o: javaser.New(class)}.boolean("isReRegister", m.IsReRegister).
		set("maxOffHeapMemSize", javaser.Long(m.MaxOffHeapMemSize)).set("maxOnHeapMemSize", javaser.Long(m.MaxOnHeapMemSize)).
		ref("blockManagerId", b.blockManagerID(m.ID)).ref("localDirs", dirs).ref("sender", b.endpointRef(m.Sender)).node()
}

// blockManagerID returns the object as received, or builds one; see record.blockManagerID.
func (b *builder) blockManagerID(id BlockManagerID) javaser.Node {
	if id.Graph != nil {
		return id.Graph
	}
	f := b.object(blockManagerIDClass)
	if f.o == nil {
		return nil
	}
	texts := []string{id.ExecutorID, id.Host}
	if id.Topology != nil {
		texts = append(texts, *id.Topology)
	}
	for _, s := range texts {
		if mutf8.Len(s) > 1<<16-1 {
			b.fail("has a text that is too long")
			return nil
		}
	}
	data := appendUTF(appendUTF(nil, id.ExecutorID), id.Host)
	data = binary.BigEndian.AppendUint32(data, uint32(id.Port))
	if id.Topology == nil {
		data = append(data, 0)
	} else {
		data = appendUTF(append(data, 1), *id.Topology)
	}
	f.o.Annotations = []javaser.Annotation{{Class: f.o.Class, Items: []javaser.Node{&javaser.Block{Data: data}}}}
	return f.o
}

// appendUTF appends what DataOutput.writeUTF writes; s must be short enough.
func appendUTF(dst []byte, s string) []byte {
	return mutf8.Append(binary.BigEndian.AppendUint16(dst, uint16(mutf8.Len(s))), s)
}

func (b *builder) executorHeartbeat(m *ExecutorHeartbeat) javaser.Node {
	if m.AccumUpdates > 0 || m.Updates > 0 {
		b.fail("can be written for an executor without tasks only")
		return nil
	}
	return b.object("org.apache.spark.Heartbeat").ref("accumUpdates", &javaser.Array{Class: b.cat.classes[tupleArray]}).
		ref("blockManagerId", b.blockManagerID(m.BlockManager)).str("executorId", m.ExecutorID).
		ref("executorUpdates", b.emptyMutableMap()).node()
}

func (b *builder) emptyMutableMap() javaser.Node {
	if !b.cat.fam.scala213() {
		return b.mutableHashMap212(nil)
	}
	factory := b.object("scala.collection.mutable.HashMap$DeserializationFactory").
		set("loadFactor", javaser.Double(0.75)).i32("tableLength", 16).node()
	return b.proxy213(factory, 0, nil)
}

// ForFamily is a message that is written for one family whatever the receiver seems to be: the answer to a peer whose
// own messages do not tell its family, when it is known otherwise.
type ForFamily struct {
	Message
	Family Family
}
