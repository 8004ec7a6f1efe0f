package rest

import "raftmaster/transport/sparkmsg"

// What clients of either gateway need to describe a driver as this server does.
const (
	// DriverWrapperClass is the main class of every driver's process.
	DriverWrapperClass = driverWrapper
	// SparkSubmitClass runs Python programs as drivers.
	SparkSubmitClass = sparkSubmit
)

// ParseMemoryMB reads one of Spark's memory texts, in which a bare number counts bytes, and gives whole MiB, rounded down.
func ParseMemoryMB(v string) (int32, error) { return parseMemoryMB(v) }

// SplitCommand cuts a text into words as Spark does for java options.
func SplitCommand(s string) []string { return splitCommand(s) }

// SplitPath cuts a class or library path.
func SplitPath(s string) []string { return splitPath(s) }

// ResourceRequirements reads the custom resources that properties ask for a driver. The error says which property is wrong.
func ResourceRequirements(properties map[string]string) ([]sparkmsg.ResourceRequirement, error) {
	return resourceRequirements(properties)
}
