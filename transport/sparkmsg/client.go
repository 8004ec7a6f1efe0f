package sparkmsg

// Messages between submission clients and the master, and the replies common to all asks.

// CheckExistence asks whether a process has an endpoint (anyone to "endpoint-verifier", ask; Boolean).
// It is RpcEndpointVerifier.CheckExistence.
type CheckExistence struct{ Name string }

// RequestSubmitDriver submits a driver in cluster mode (client to master, ask).
type RequestSubmitDriver struct{ DriverDescription *DriverDescription }

// SubmitDriverResponse answers RequestSubmitDriver. Master is nil for null, which clients accept and which is the same
// for more families.
type SubmitDriverResponse struct {
	Master   *EndpointRef
	Success  bool
	DriverID *string
	Message  string
}

// RequestKillDriver (client to master, ask).
type RequestKillDriver struct{ DriverID string }

// KillDriverResponse answers RequestKillDriver. Master is nil for null.
type KillDriverResponse struct {
	Master   *EndpointRef
	DriverID string
	Success  bool
	Message  string
}

// RequestDriverStatus (client to master, ask).
type RequestDriverStatus struct{ DriverID string }

// DriverStatusResponse answers RequestDriverStatus.
type DriverStatusResponse struct {
	Found          bool
	State          *DriverState
	WorkerID       *string
	WorkerHostPort *string
	Exception      *Exception
}

// RequestKillAllDrivers (ask; families C to E).
type RequestKillAllDrivers struct{}

// KillAllDriversResponse answers RequestKillAllDrivers (families C to E). Master is nil for null.
type KillAllDriversResponse struct {
	Master  *EndpointRef
	Success bool
	Message string
}

// RequestClearCompletedDriversAndApps (ask, Boolean; families C to E).
type RequestClearCompletedDriversAndApps struct{}

// RequestReadyz (ask, Boolean; families C to E).
type RequestReadyz struct{}

// RpcFailure is the object in an answer whose ask failed at the other side (org.apache.spark.rpc.netty.RpcFailure).
// Encode writes a java.lang.Exception with Message, whatever Class says.
type RpcFailure struct {
	Class   string
	Message string
}

// Boolean is a java.lang.Boolean, the answer to most asks. It is the same in all families.
type Boolean struct{ Value bool }

// MessageName returns Spark's simple class name.
func (*CheckExistence) MessageName() string { return "CheckExistence" }

// MessageName returns Spark's simple class name.
func (*RequestSubmitDriver) MessageName() string { return "RequestSubmitDriver" }

// MessageName returns Spark's simple class name.
func (*SubmitDriverResponse) MessageName() string { return "SubmitDriverResponse" }

// MessageName returns Spark's simple class name.
func (*RequestKillDriver) MessageName() string { return "RequestKillDriver" }

// MessageName returns Spark's simple class name.
func (*KillDriverResponse) MessageName() string { return "KillDriverResponse" }

// MessageName returns Spark's simple class name.
func (*RequestDriverStatus) MessageName() string { return "RequestDriverStatus" }

// MessageName returns Spark's simple class name.
func (*DriverStatusResponse) MessageName() string { return "DriverStatusResponse" }

// MessageName returns Spark's simple class name.
func (*RequestKillAllDrivers) MessageName() string { return "RequestKillAllDrivers" }

// MessageName returns Spark's simple class name.
func (*KillAllDriversResponse) MessageName() string { return "KillAllDriversResponse" }

// MessageName returns Spark's simple class name.
func (*RequestClearCompletedDriversAndApps) MessageName() string {
	return "RequestClearCompletedDriversAndApps"
}

// MessageName returns Spark's simple class name.
func (*RequestReadyz) MessageName() string { return "RequestReadyz" }

// MessageName returns Spark's simple class name.
func (*RpcFailure) MessageName() string { return "RpcFailure" }

// MessageName returns Spark's simple class name.
func (*Boolean) MessageName() string { return "Boolean" }
