package sparkmsg

import (
	"fmt"

	"raftmaster/transport/frame"
	"raftmaster/transport/javaser"
)

// Message is one deploy message: always a pointer to one of the structs of this package.
type Message interface {
	// MessageName is Spark's simple class name, such as "RegisterWorker".
	MessageName() string
}

// Address is org.apache.spark.rpc.RpcAddress.
type Address = frame.Address

// EndpointRef is a reference to an RPC endpoint (NettyRpcEndpointRef). The ask time-out inside is always written as
// Spark's default, 120 s; a peer's own value is ignored.
type EndpointRef struct {
	Name    string   // "Master", "Worker", "AppClient"...
	Address *Address // nil for an endpoint in a process without a server
}

// URI returns what Spark's RpcEndpointAddress.toString holds.
func (r EndpointRef) URI() string {
	if r.Address == nil {
		return "spark-client://" + r.Name
	}
	return fmt.Sprintf("spark://%s@%s:%d", r.Name, r.Address.Host, r.Address.Port)
}

// ResourceInformation names the addresses of one kind of resource, such as gpu. In Spark's messages it is the value of
// a map whose key is Name; here lists in wire order stand for such maps.
type ResourceInformation struct {
	Name      string
	Addresses []string
}

// ResourceRequirement is an amount of a custom resource that a driver or executor needs
// (org.apache.spark.resource.ResourceRequirement).
type ResourceRequirement struct {
	ResourceName string
	Amount       int32
	NumParts     int32 // 1 unless fractional amounts are asked for
}

// ExecutorState is org.apache.spark.deploy.ExecutorState; the numbers are its ordinals.
type ExecutorState uint8

// The states of an executor.
const (
	ExecutorLaunching ExecutorState = iota
	ExecutorRunning
	ExecutorKilled
	ExecutorFailed
	ExecutorLost
	ExecutorExited
	ExecutorDecommissioned
	executorStates
)

var executorStateNames = [executorStates]string{"LAUNCHING", "RUNNING", "KILLED", "FAILED", "LOST", "EXITED", "DECOMMISSIONED"}

// String returns Spark's name of the state.
func (s ExecutorState) String() string {
	if s >= executorStates {
		return fmt.Sprintf("ExecutorState(%d)", uint8(s))
	}
	return executorStateNames[s]
}

// Finished reports whether the executor is gone (ExecutorState.isFinished; DECOMMISSIONED is not finished).
func (s ExecutorState) Finished() bool {
	return s == ExecutorKilled || s == ExecutorFailed || s == ExecutorLost || s == ExecutorExited
}

// DriverState is org.apache.spark.deploy.master.DriverState; the numbers are its ordinals.
type DriverState uint8

// The states of a driver.
const (
	DriverSubmitted DriverState = iota
	DriverRunning
	DriverFinished
	DriverRelaunching
	DriverUnknown
	DriverKilled
	DriverFailed
	DriverError
	driverStates
)

var driverStateNames = [driverStates]string{"SUBMITTED", "RUNNING", "FINISHED", "RELAUNCHING", "UNKNOWN", "KILLED", "FAILED", "ERROR"}

// String returns Spark's name of the state.
func (s DriverState) String() string {
	if s >= driverStates {
		return fmt.Sprintf("DriverState(%d)", uint8(s))
	}
	return driverStateNames[s]
}

// Finished reports whether the driver has ended for good: FINISHED, KILLED, FAILED or ERROR.
func (s DriverState) Finished() bool {
	return s == DriverFinished || s == DriverKilled || s == DriverFailed || s == DriverError
}

// Exception is a Java throwable.
type Exception struct {
	Class   string // class name; on encoding without Graph it is not used: a java.lang.Exception is written
	Message string // getMessage; "" for none
	// Graph is the throwable as received; it is what Encode writes. Nil for one made by the master.
	Graph *javaser.Object
}

// Error returns Class: Message, as Throwable.toString does.
func (e *Exception) Error() string {
	if e.Message == "" {
		return e.Class
	}
	return e.Class + ": " + e.Message
}
