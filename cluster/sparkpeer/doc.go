// Package sparkpeer plays Spark's side of the Standalone deploy protocol: workers, application clients and submission
// clients that register, heartbeat, launch, report and submit over real TCP as the JVM's do, for tests and load.
//
// A Worker follows org.apache.spark.deploy.worker.Worker (registration at all masters, retries, MasterChanged,
// ReconnectWorker, refusal of a wrong master URL, WorkerLatestState, WorkerSchedulerStateResponse, ExecutorStateChanged
// as an ask with retries); an App follows org.apache.spark.deploy.client.StandaloneAppClient (registration at all
// masters three times, no re-registration after a lost master, MasterChangeAcknowledged); a SubmitClient follows
// org.apache.spark.deploy.Client (every master is asked, the leader's answer counts). No process is started:
// executors and drivers are entries in a table. All timers are configurable, so that minutes pass in milliseconds.
//
// Behaviour can be changed while a peer runs: silence, slow reading, a frozen process, lost answers. Each peer keeps a
// log of what it saw and did, with waiting, for assertions. A Fleet runs many light workers in one process.
//
// Goroutines: one for each listener and one for each connection; Close waits for all of them. A peer's state is
// guarded by one mutex, never held while sending.
package sparkpeer
