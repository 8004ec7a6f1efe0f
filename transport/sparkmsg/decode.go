package sparkmsg

import (
	"bytes"
	"sync"

	"raftmaster/transport/javaser"
)

// limits hold for every stream decoded here. Deploy messages are small: the largest field lists are class paths.
var limits = javaser.Limits{Depth: 64, Handles: 100_000, Values: 200_000, Bytes: 16 << 20}

// Decoded is the result of Decode.
type Decoded struct {
	Msg Message
	// Families holds the families whose catalogue agrees with every descriptor in the stream. A message without any
	// Spark or Scala class, such as Boolean, leaves all of them.
	Families FamilySet
}

// Decode decodes one Java stream: the content of a request, or the body of an answer. Errors are *javaser.Error,
// *UnknownClassError, *IncompatibleClassError, *FieldError and *PayloadTooLargeError; none holds content of the stream
// beyond class and field names. Data after the object is an error.
func Decode(stream []byte) (Decoded, error) {
	if d, ok := decodeBoolean(stream); ok {
		return d, nil
	}
	return decodeMessage(stream)
}

// knownBooleans are the streams of the two answers that nearly all questions get, with what they decode to.
var knownBooleans = sync.OnceValue(func() (known [2]struct {
	stream []byte
	value  Boolean
	fams   FamilySet
}) {
	for i := range known {
		k := &known[i]
		k.value.Value = i == 1
		stream, err := encodeGraph(nil, &k.value, FamilyA)
		if err != nil {
			continue // then it is decoded each time
		}
		if d, err := decodeMessage(stream); err == nil {
			k.stream, k.fams = bytes.Clone(stream), d.Families
		}
	}
	return known
})

func decodeBoolean(stream []byte) (Decoded, bool) {
	known := knownBooleans()
	for i := range known {
		if k := &known[i]; k.stream != nil && bytes.Equal(stream, k.stream) {
			return Decoded{Msg: &Boolean{Value: k.value.Value}, Families: k.fams}, true
		}
	}
	return Decoded{}, false
}

func decodeMessage(stream []byte) (Decoded, error) {
	root, fams, err := decodeGraph(stream)
	if err != nil {
		return Decoded{}, err
	}
	name := className(root)
	if a, ok := root.(*javaser.Array); ok && name == threadDumpClass {
		dump, err := readThreadDump(a)
		if err != nil {
			return Decoded{}, err
		}
		return Decoded{Msg: dump, Families: fams}, nil
	}
	read := reader(moduleName(root))
	if read == nil {
		read = reader(name)
	}
	o, ok := root.(*javaser.Object)
	if read == nil || !ok {
		return Decoded{}, &UnknownClassError{Class: name}
	}
	r := newRecord(o)
	msg := read(r)
	if r.st.err != nil {
		return Decoded{}, r.st.err
	}
	if len(stream) > MaxPayload {
		if err := checkPayload(msg); err != nil {
			return Decoded{}, err
		}
	}
	return Decoded{Msg: msg, Families: fams}, nil
}

// decodeGraph decodes a stream with the known descriptors and recognises the families.
func decodeGraph(stream []byte) (javaser.Node, FamilySet, error) {
	all := loadCatalogues()
	g, err := javaser.Decode(stream, limits, all.known)
	if err != nil {
		return nil, 0, err
	}
	fams, err := all.recognise(g.Classes)
	if err != nil {
		return nil, 0, err
	}
	return g.Root, fams, nil
}

// checkPayload measures the pass-through payload of a message that is long enough for it to be too large.
func checkPayload(msg Message) error {
	var err error
	switch m := msg.(type) {
	case *RegisterApplication:
		_, err = m.AppDescription.MarshalPayload()
	case *RequestSubmitDriver:
		_, err = m.DriverDescription.MarshalPayload()
	case *DriverStateChanged:
		if m.Exception != nil {
			_, err = m.Exception.MarshalPayload()
		}
	}
	return err
}

const deployMessages = "org.apache.spark.deploy.DeployMessages$"

// reader returns the function for objects of a class, nil if it is not that of a message.
func reader(class string) func(record) Message {
	if read := readers[class]; read != nil {
		return read
	}
	return executorReaders[class]
}

// readers maps class names to the functions that read their objects. Case objects go by the class of the object.
var readers = map[string]func(record) Message{
	deployMessages + "RegisterWorker":               readRegisterWorker,
	deployMessages + "RegisteredWorker":             readRegisteredWorker,
	deployMessages + "RegisterWorkerFailed":         func(r record) Message { return &RegisterWorkerFailed{Message: r.str("message")} },
	deployMessages + "MasterInStandby$":             func(record) Message { return &MasterInStandby{} },
	deployMessages + "Heartbeat":                    readHeartbeat,
	deployMessages + "ReconnectWorker":              func(r record) Message { return &ReconnectWorker{MasterURL: r.str("masterUrl")} },
	deployMessages + "WorkerLatestState":            readWorkerLatestState,
	deployMessages + "LaunchExecutor":               readLaunchExecutor,
	deployMessages + "KillExecutor":                 readKillExecutor,
	deployMessages + "ApplicationFinished":          func(r record) Message { return &ApplicationFinished{ID: r.str("id")} },
	deployMessages + "ExecutorStateChanged":         readExecutorStateChanged,
	deployMessages + "LaunchDriver":                 readLaunchDriver,
	deployMessages + "KillDriver":                   func(r record) Message { return &KillDriver{DriverID: r.str("driverId")} },
	deployMessages + "DriverStateChanged":           readDriverStateChanged,
	deployMessages + "WorkerDecommissioning":        readWorkerDecommissioning,
	deployMessages + "DecommissionWorker$":          func(record) Message { return &DecommissionWorker{} },
	deployMessages + "MasterChanged":                readMasterChanged,
	deployMessages + "WorkerSchedulerStateResponse": readWorkerSchedulerStateResponse,

	deployMessages + "RegisterApplication":      readRegisterApplication,
	deployMessages + "RegisteredApplication":    readRegisteredApplication,
	deployMessages + "ExecutorAdded":            readExecutorAdded,
	deployMessages + "ExecutorUpdated":          readExecutorUpdated,
	deployMessages + "ApplicationRemoved":       func(r record) Message { return &ApplicationRemoved{Message: r.str("message")} },
	deployMessages + "WorkerRemoved":            readWorkerRemoved,
	deployMessages + "UnregisterApplication":    func(r record) Message { return &UnregisterApplication{AppID: r.str("appId")} },
	deployMessages + "MasterChangeAcknowledged": func(r record) Message { return &MasterChangeAcknowledged{AppID: r.str("appId")} },
	deployMessages + "RequestExecutors":         readRequestExecutors,
	deployMessages + "KillExecutors":            readKillExecutors,

	deployMessages + "RequestSubmitDriver":                  readRequestSubmitDriver,
	deployMessages + "SubmitDriverResponse":                 readSubmitDriverResponse,
	deployMessages + "RequestKillDriver":                    func(r record) Message { return &RequestKillDriver{DriverID: r.str("driverId")} },
	deployMessages + "KillDriverResponse":                   readKillDriverResponse,
	deployMessages + "RequestDriverStatus":                  func(r record) Message { return &RequestDriverStatus{DriverID: r.str("driverId")} },
	deployMessages + "DriverStatusResponse":                 readDriverStatusResponse,
	deployMessages + "RequestKillAllDrivers$":               func(record) Message { return &RequestKillAllDrivers{} },
	deployMessages + "KillAllDriversResponse":               readKillAllDriversResponse,
	deployMessages + "RequestClearCompletedDriversAndApps$": func(record) Message { return &RequestClearCompletedDriversAndApps{} },
	deployMessages + "RequestReadyz$":                       func(record) Message { return &RequestReadyz{} },

	"org.apache.spark.rpc.netty.RpcEndpointVerifier$CheckExistence": func(r record) Message { return &CheckExistence{Name: r.str("name")} },
	"org.apache.spark.rpc.netty.RpcFailure":                         readRPCFailure,
	"java.lang.Boolean":                                             func(r record) Message { return &Boolean{Value: r.boolean("value")} },
}
