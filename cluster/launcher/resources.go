package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"

	"raftmaster/transport/sparkmsg"
)

// ResourceTimeout is how long one discovery script may take.
const ResourceTimeout = 60 * time.Second

// Limits of what the operator's file and scripts may say.
const (
	maxResourceBytes     = 1 << 20
	maxResourceAddresses = 10000
)

// ResourceRequest is what the configuration of a worker says of its custom resources.
type ResourceRequest struct {
	// File is spark.worker.resourcesFile, "" for none.
	File string
	// Wanted are the resources of spark.worker.resource.NAME.*.
	Wanted []WantedResource
	// Env and Dir are the environment and the working directory of the scripts.
	Env []string
	Dir string
	// Timeout of one script; 0: ResourceTimeout.
	Timeout time.Duration
}

// WantedResource is spark.worker.resource.NAME.amount, .discoveryScript and .vendor.
type WantedResource struct {
	Name   string
	Amount int
	Script string // "" for none: the resources file must have the resource
	Vendor string // not used, as in Spark's worker
}

// Resources finds the addresses of the custom resources of a worker: those of the file, the others from their scripts.
// Every address that is found is offered, even more than the amount; fewer are an error. An address that is named twice
// counts once. The result is sorted by name. Errors name key and script. Facts: ResourceUtils.getOrDiscoverAllResources,
// ResourceDiscoveryScriptPlugin.
func Resources(ctx context.Context, r ResourceRequest) ([]sparkmsg.ResourceInformation, error) {
	found := map[string][]string{}
	if r.File != "" {
		if err := readResourcesFile(r.File, found); err != nil {
			return nil, fmt.Errorf("spark.worker.resourcesFile: %w", err)
		}
	}
	for _, want := range r.Wanted {
		key := "spark.worker.resource." + want.Name
		addresses, given := found[want.Name]
		if !given && want.Amount > 0 {
			var err error
			if addresses, err = r.discover(ctx, want); err != nil {
				return nil, fmt.Errorf("%s.discoveryScript: %w", key, err)
			}
			found[want.Name] = addresses
		}
		if len(addresses) < want.Amount {
			source := want.Script
			if given {
				source = r.File
			}
			return nil, fmt.Errorf("%s.amount is %d, and %s names only %d different addresses: %q", key, want.Amount, source,
				len(addresses), clip(fmt.Sprint(addresses)))
		}
	}
	out := make([]sparkmsg.ResourceInformation, 0, len(found))
	for name, addresses := range found {
		out = append(out, sparkmsg.ResourceInformation{Name: name, Addresses: addresses})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// allocation is one entry of a resources file (ResourceAllocation).
type allocation struct {
	ID        resourceID `json:"id"`
	Addresses []string   `json:"addresses"`
}

type resourceID struct {
	ComponentName string `json:"componentName"`
	ResourceName  string `json:"resourceName"`
}

func readResourcesFile(path string, found map[string][]string) error {
	text, err := readBounded(path, maxResourceBytes)
	if err != nil {
		return err
	}
	var entries []allocation
	if err := json.Unmarshal(text, &entries); err != nil {
		return fmt.Errorf(`%s is not [{"id":{"componentName":"spark.worker","resourceName":NAME},"addresses":[...]}]: %w`, path, err)
	}
	for i, e := range entries {
		switch _, twice := found[e.ID.ResourceName]; {
		case e.ID.ComponentName != ComponentWorker:
			continue // the file may serve executors and drivers as well
		case e.ID.ResourceName == "":
			return fmt.Errorf("%s: entry %d has no resourceName", path, i+1)
		case twice:
			return fmt.Errorf("%s names the resource %q twice", path, e.ID.ResourceName)
		}
		if found[e.ID.ResourceName], err = distinct(e.Addresses); err != nil {
			return fmt.Errorf("%s: resource %q %w", path, e.ID.ResourceName, err)
		}
	}
	return nil
}

var (
	errNoScript      = errors.New("not set, and the resource is not in spark.worker.resourcesFile either")
	errManyAddresses = fmt.Errorf("has more than %d addresses", maxResourceAddresses)
)

// discover runs one script.
func (r ResourceRequest) discover(ctx context.Context, want WantedResource) ([]string, error) {
	if want.Script == "" {
		return nil, errNoScript
	}
	if err := checkExecutable(want.Script); err != nil {
		return nil, fmt.Errorf("%s cannot be run: %w", want.Script, err)
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = ResourceTimeout
	}
	run := script{argv: []string{want.Script}, env: r.Env, dir: r.Dir, timeout: timeout, maxOutput: maxResourceBytes}
	text, err := run.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", want.Script, err)
	}
	var answer struct {
		Name      string   `json:"name"`
		Addresses []string `json:"addresses"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf(`%s printed %q, not {"name":%q,"addresses":[...]}: %w`, want.Script, clip(string(text)), want.Name, err)
	}
	if answer.Name != want.Name {
		return nil, fmt.Errorf("%s found the resource %q, and %q is asked for", want.Script, clip(answer.Name), want.Name)
	}
	addresses, err := distinct(answer.Addresses)
	if err != nil {
		return nil, fmt.Errorf("%s: resource %q %w", want.Script, want.Name, err)
	}
	return addresses, nil
}

// distinct keeps the first of equal addresses.
func distinct(addresses []string) ([]string, error) {
	if len(addresses) > maxResourceAddresses {
		return nil, errManyAddresses
	}
	seen := make(map[string]bool, len(addresses))
	out := make([]string, 0, len(addresses))
	for _, a := range addresses {
		if !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out, nil
}

// clip shortens a text for an error.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// Components of resources files: what an entry belongs to.
const (
	ComponentWorker   = "spark.worker"
	ComponentExecutor = "spark.executor"
	ComponentDriver   = "spark.driver"
)

// WriteResourcesFile writes the addresses given to an executor or driver to a new file resource-executor-*.json or
// resource-driver-*.json in dir and returns its path, absolute if dir is. component is ComponentExecutor or
// ComponentDriver. The file appears complete or not at all. No resources: no file, and "".
func WriteResourcesFile(dir, component string, resources []sparkmsg.ResourceInformation) (path string, err error) {
	if len(resources) == 0 {
		return "", nil
	}
	kind := map[string]string{ComponentExecutor: "executor", ComponentDriver: "driver"}[component]
	if kind == "" {
		return "", fmt.Errorf("no component of resources: %q", component)
	}
	entries := make([]allocation, 0, len(resources))
	for _, r := range resources {
		addresses := r.Addresses
		if addresses == nil {
			addresses = []string{}
		}
		entries = append(entries, allocation{ID: resourceID{ComponentName: component, ResourceName: r.Name}, Addresses: addresses})
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].ID.ResourceName < entries[j].ID.ResourceName })
	text, err := json.Marshal(entries)
	if err != nil {
		return "", fmt.Errorf("resources of the %s: %w", kind, err)
	}
	f, err := os.CreateTemp(dir, "resource-"+kind+"-*.json.tmp")
	if err != nil {
		return "", fmt.Errorf("resources of the %s: %w", kind, err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	path = f.Name()[:len(f.Name())-len(".tmp")]
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("resources of the %s: %w", kind, errors.Join(err, os.Remove(f.Name())))
	}
	return path, nil
}
