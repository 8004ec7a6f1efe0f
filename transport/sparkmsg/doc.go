// Package sparkmsg translates between the messages of Spark's Standalone deploy protocol
// (org.apache.spark.deploy.DeployMessages) and Go structs, and likewise those between executors and their driver that an
// executor without tasks needs (CoarseGrainedClusterMessages, BlockManagerMessages, HeartbeatReceiver).
//
// One cluster speaks several Spark releases at once. The releases fall into five families (Family) whose class
// descriptors are identical inside a family; a catalogue per family is embedded, generated from the published jars.
// Decode recognises the families that a peer can belong to from all the descriptors in its message. Encode writes a
// message with the descriptors, and the Scala collection forms, of one family.
//
// What Encode writes for a message of the master is what the real master of that family writes, byte for byte: tests
// compare with recordings for families B and E. That includes the shape of Scala 2.12's enumerations, which travel with
// all their values.
//
// Payloads that only pass through the master (ApplicationDescription, DriverDescription, exceptions) keep the graph
// they came in; typed fields beside it are for the master's own decisions. Encoding hangs the graph under the new
// message, so that the receiver gets what the sender wrote, whatever classes it holds. MarshalPayload and the Parse
// functions carry such a graph through storage. A payload is at most MaxPayload bytes. A throwable whose class is
// JDK-made carries JDK descriptors, which differ between Java versions; they take no part in recognition.
//
// A description made here (REST submissions, tests) has no graph. Encode builds one for the message at hand; Bind builds
// one to keep.
//
// Null strings decode as "". The package keeps no goroutine; the catalogues are parsed once, on first use.
package sparkmsg
