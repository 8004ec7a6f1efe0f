package sparkmsg

import (
	"math"

	"raftmaster/transport/javaser"
)

// Classes of the payloads. The receiver casts to them, so an object of any other class is none, whatever its fields.
const (
	applicationDescriptionClass = "org.apache.spark.deploy.ApplicationDescription"
	driverDescriptionClass      = "org.apache.spark.deploy.DriverDescription"
)

func readApplicationDescription(r record) *ApplicationDescription {
	r.mustBe(applicationDescriptionClass)
	d := &ApplicationDescription{
		Name:                 r.str("name"),
		User:                 r.str("user"),
		AppUIURL:             r.str("appUiUrl"),
		MaxCores:             r.optInt("maxCores"),
		InitialExecutorLimit: r.optInt("initialExecutorLimit"),
		EventLogCodec:        r.optString("eventLogCodec"),
		Graph:                r.o,
	}
	if n, ok := r.option("eventLogDir"); ok {
		if uri, ok := r.asObject("eventLogDir", n, false); ok {
			text := uri.str("string")
			d.EventLogDir = &text
		}
	}
	if r.has("memoryPerExecutorMB") { // family A
		d.DefaultProfile = readProfileOfA(r)
	} else if o, ok := r.object("defaultProfile"); ok {
		d.DefaultProfile = readResourceProfile(o)
	}
	if o, ok := r.object("command"); ok {
		d.Command = readCommand(o)
	}
	return d
}

// readProfileOfA makes a profile of what family A has as fields of the application.
func readProfileOfA(r record) ResourceProfile {
	p := ResourceProfile{ExecutorResources: []ExecutorResourceRequest{
		{ResourceName: "memory", Amount: int64(r.i32("memoryPerExecutorMB"))},
	}}
	if n := r.optInt("coresPerExecutor"); n != nil {
		p.ExecutorResources = append(p.ExecutorResources, ExecutorResourceRequest{ResourceName: "cores", Amount: int64(*n)})
	}
	for _, req := range readRequirements(r, "resourceReqsPerExecutor") {
		p.ExecutorResources = append(p.ExecutorResources,
			ExecutorResourceRequest{ResourceName: req.ResourceName, Amount: int64(req.Amount)})
	}
	return p
}

func readResourceProfile(r record) ResourceProfile {
	p := ResourceProfile{
		ID:       r.i32("_id"),
		TaskOnly: r.o.Class.Name == "org.apache.spark.resource.TaskResourceProfile",
		Graph:    r.o,
	}
	for _, e := range r.pairs("executorResources") {
		o, ok := r.asObject("executorResources", e.value, false)
		if !ok {
			break
		}
		req := ExecutorResourceRequest{
			ResourceName:    o.str("resourceName"),
			Amount:          o.i64("amount"),
			DiscoveryScript: o.str("discoveryScript"),
			Vendor:          o.str("vendor"),
		}
		if req.Amount < 0 || req.Amount > math.MaxInt32 {
			o.fail("amount", "is out of range")
		}
		p.ExecutorResources = append(p.ExecutorResources, req)
	}
	for _, e := range r.pairs("taskResources") {
		if o, ok := r.asObject("taskResources", e.value, false); ok {
			p.TaskResources = append(p.TaskResources,
				TaskResourceRequest{ResourceName: o.str("resourceName"), Amount: o.f64("amount")})
		}
	}
	return p
}

func readDriverDescription(r record) *DriverDescription {
	r.mustBe(driverDescriptionClass)
	d := &DriverDescription{
		JarURL:       r.str("jarUrl"),
		Mem:          r.i32("mem"),
		Cores:        r.i32("cores"),
		Supervise:    r.boolean("supervise"),
		ResourceReqs: readRequirements(r, "resourceReqs"),
		Graph:        r.o,
	}
	if o, ok := r.object("command"); ok {
		d.Command = readCommand(o)
	}
	return d
}

func readRequirements(r record, field string) []ResourceRequirement {
	var out []ResourceRequirement
	for _, n := range r.seq(field) {
		if o, ok := r.asObject(field, n, false); ok {
			out = append(out, ResourceRequirement{
				ResourceName: o.str("resourceName"),
				Amount:       o.i32("amount"),
				NumParts:     o.i32("numParts"),
			})
		}
	}
	return out
}

// readCommand reads a Command. It passes through untouched, so a collection of a class unknown here is no error.
func readCommand(r record) Command {
	c := Command{MainClass: r.str("mainClass")}
	list := func(field string) []string {
		items, reason := readSeq(r.node(field))
		if reason != "" {
			c.Unread = append(c.Unread, field)
			return nil
		}
		if !r.spend(field, len(items)) {
			return nil
		}
		return r.asStrings(field, items)
	}
	c.Arguments = list("arguments")
	c.ClassPathEntries = list("classPathEntries")
	c.LibraryPathEntries = list("libraryPathEntries")
	c.JavaOpts = list("javaOpts")
	entries, reason := readMap(r.node("environment"))
	if reason != "" {
		c.Unread = append(c.Unread, "environment")
	}
	if r.spend("environment", len(entries)) {
		for _, e := range entries {
			c.Environment = append(c.Environment,
				EnvVar{Name: r.asString("environment", e.key), Value: r.asString("environment", e.value)})
		}
	}
	return c
}

// MarshalPayload returns the description as a Java stream of its own, at most MaxPayload bytes. It needs Graph.
func (d *ApplicationDescription) MarshalPayload() ([]byte, error) { return marshalPayload(d.Graph) }

// MarshalPayload returns the description as a Java stream of its own, at most MaxPayload bytes. It needs Graph.
func (d *DriverDescription) MarshalPayload() ([]byte, error) { return marshalPayload(d.Graph) }

// MarshalPayload returns the exception as a Java stream of its own, at most MaxPayload bytes. It needs Graph.
func (e *Exception) MarshalPayload() ([]byte, error) { return marshalPayload(e.Graph) }

func marshalPayload(graph *javaser.Object) ([]byte, error) {
	if graph == nil {
		return nil, ErrNoGraph
	}
	out, err := javaser.Encode(graph, limits)
	if err != nil {
		return nil, err
	}
	if len(out) > MaxPayload {
		return nil, &PayloadTooLargeError{Class: graph.Class.Name, Size: len(out)}
	}
	return out, nil
}

// ParseApplicationDescription is the inverse of MarshalPayload.
func ParseApplicationDescription(payload []byte) (*ApplicationDescription, error) {
	r, err := parsePayload(payload, applicationDescriptionClass)
	if err != nil {
		return nil, err
	}
	d := readApplicationDescription(r)
	return d, r.st.err
}

// ParseDriverDescription is the inverse of MarshalPayload.
func ParseDriverDescription(payload []byte) (*DriverDescription, error) {
	r, err := parsePayload(payload, driverDescriptionClass)
	if err != nil {
		return nil, err
	}
	d := readDriverDescription(r)
	return d, r.st.err
}

// ParseException is the inverse of MarshalPayload.
func ParseException(payload []byte) (*Exception, error) {
	r, err := parsePayload(payload, "")
	if err != nil {
		return nil, err
	}
	e := r.throwable()
	return e, r.st.err
}

// PayloadFamilies returns the families whose workers can read a payload made by MarshalPayload.
func PayloadFamilies(payload []byte) (FamilySet, error) {
	_, fams, err := decodeGraph(payload)
	return fams, err
}

func parsePayload(payload []byte, class string) (record, error) {
	if len(payload) > MaxPayload {
		return record{}, &PayloadTooLargeError{Class: class, Size: len(payload)}
	}
	root, _, err := decodeGraph(payload)
	if err != nil {
		return record{}, err
	}
	o, ok := root.(*javaser.Object)
	if !ok || class != "" && o.Class.Name != class {
		return record{}, &UnknownClassError{Class: className(root)}
	}
	return newRecord(o), nil
}
