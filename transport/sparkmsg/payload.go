package sparkmsg

import (
	"errors"
	"fmt"

	"raftmaster/transport/javaser"
)

// MaxPayload is the longest pass-through payload in bytes, as a Java stream of its own.
const MaxPayload = 512 << 10

// PayloadTooLargeError reports a payload over MaxPayload.
type PayloadTooLargeError struct {
	Class string
	Size  int // bytes
}

func (e *PayloadTooLargeError) Error() string {
	return fmt.Sprintf("sparkmsg: %s of %d bytes, at most %d are allowed", e.Class, e.Size, MaxPayload)
}

// ErrNoGraph is returned by MarshalPayload of a description that has typed fields only; see Bind.
var ErrNoGraph = errors.New("sparkmsg: description is not bound to a family")

// ExecutorResourceRequest is one entry of ResourceProfile.ExecutorResources.
type ExecutorResourceRequest struct {
	ResourceName    string // "cores", "memory", "offHeap", "gpu"...
	Amount          int64  // MiB for memory kinds, else a count
	DiscoveryScript string
	Vendor          string
}

// TaskResourceRequest is one entry of ResourceProfile.TaskResources.
type TaskResourceRequest struct {
	ResourceName string
	Amount       float64
}

// ResourceProfile is org.apache.spark.resource.ResourceProfile. Lists are in wire order.
type ResourceProfile struct {
	ID                int32
	ExecutorResources []ExecutorResourceRequest
	TaskResources     []TaskResourceRequest
	// TaskOnly marks a TaskResourceProfile, whose executors are those of the default profile.
	TaskOnly bool
	// Graph is the profile as received, nil for one made here or synthesised for family A. Encode prefers it.
	Graph *javaser.Object
}

// EnvVar is one entry of Command.Environment.
type EnvVar struct{ Name, Value string }

// Command is org.apache.spark.deploy.Command.
type Command struct {
	MainClass          string
	Arguments          []string
	Environment        []EnvVar // in wire order
	ClassPathEntries   []string
	LibraryPathEntries []string
	JavaOpts           []string
	// Unread names the fields whose Scala collection class is not known. They are empty here but pass through in the
	// graph of the description.
	Unread []string
}

// ApplicationDescription is org.apache.spark.deploy.ApplicationDescription. For family A, which has memory and cores as
// plain fields, DefaultProfile is synthesised with id 0.
type ApplicationDescription struct {
	Name                 string
	User                 string
	AppUIURL             string
	MaxCores             *int32
	InitialExecutorLimit *int32
	EventLogDir          *string // text of the URI
	EventLogCodec        *string
	DefaultProfile       ResourceProfile
	Command              Command
	// Graph is the description as received, which is what Encode writes; see Bind for descriptions made here.
	Graph *javaser.Object
}

// DriverDescription is org.apache.spark.deploy.DriverDescription.
type DriverDescription struct {
	JarURL       string
	Mem          int32 // MiB
	Cores        int32
	Supervise    bool
	Command      Command
	ResourceReqs []ResourceRequirement
	// Graph is the description as received, which is what Encode writes; see Bind for descriptions made here.
	Graph *javaser.Object
}

// MemoryPerExecutorMB returns the memory of one executor of the profile in MiB, 1024 if it names none
// (ResourceProfile.getExecutorMemory, Spark's default).
func (p *ResourceProfile) MemoryPerExecutorMB() int32 {
	for _, r := range p.ExecutorResources {
		if r.ResourceName == "memory" {
			return int32(r.Amount)
		}
	}
	return 1024
}

// CoresPerExecutor returns the cores of one executor of the profile, nil if it names none.
func (p *ResourceProfile) CoresPerExecutor() *int32 {
	for _, r := range p.ExecutorResources {
		if r.ResourceName == "cores" {
			n := int32(r.Amount)
			return &n
		}
	}
	return nil
}
