package launcher

import (
	"context"
	"errors"
	"time"

	"raftmaster/transport/sparkmsg"
)

// Components of resources files: what an entry belongs to.
const (
	ComponentWorker   = "spark.worker"
	ComponentExecutor = "spark.executor"
	ComponentDriver   = "spark.driver"
)

// ResourceTimeout is how long one discovery script may take.
const ResourceTimeout = 60 * time.Second

// ResourceRequest is what the configuration of a worker says of its custom resources.
type ResourceRequest struct {
	// File is spark.worker.resourcesFile, "" for none.
	File string
	// Wanted are the resources of spark.worker.resource.NAME.*, sorted by name.
	Wanted []WantedResource
	// Env and Dir are the environment and the working directory of the scripts.
	Env []string
	Dir string
}

// WantedResource is spark.worker.resource.NAME.amount, .discoveryScript and .vendor.
type WantedResource struct {
	Name   string
	Amount int
	Script string // "" for none: the resources file must have the resource
	Vendor string // not used, as in Spark's worker
}

// Resources finds the addresses of the custom resources of a worker: those of the file, the others from their scripts.
// Every address that is found is offered, even more than the amount; fewer are an error. Errors name key and script.
func Resources(ctx context.Context, r ResourceRequest) ([]sparkmsg.ResourceInformation, error) {
	return nil, errors.New("not built yet")
}

// WriteResourcesFile writes the addresses given to an executor or driver to a new file resource-executor-*.json or
// resource-driver-*.json in dir and returns its absolute path. component is ComponentExecutor or ComponentDriver.
// The file appears complete or not at all. No resources: no file, and "".
func WriteResourcesFile(dir, component string, resources []sparkmsg.ResourceInformation) (path string, err error) {
	return "", errors.New("not built yet")
}
