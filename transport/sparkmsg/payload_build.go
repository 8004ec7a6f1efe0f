package sparkmsg

import (
	"strconv"

	"raftmaster/transport/javaser"
)

// Bind builds Graph from the typed fields with the descriptors of fam, replacing a graph that is there. A description
// made here must be bound before MarshalPayload; Encode binds it for one message by itself.
func (d *ApplicationDescription) Bind(fam Family) error {
	graph, err := bind(fam, "ApplicationDescription", func(b *builder) javaser.Node { return b.newApplicationDescription(d) })
	if err == nil {
		d.Graph = graph
	}
	return err
}

// Bind builds Graph from the typed fields with the descriptors of fam, replacing a graph that is there. A description
// made here must be bound before MarshalPayload; Encode binds it for one message by itself.
func (d *DriverDescription) Bind(fam Family) error {
	graph, err := bind(fam, "DriverDescription", func(b *builder) javaser.Node { return b.newDriverDescription(d) })
	if err == nil {
		d.Graph = graph
	}
	return err
}

func bind(fam Family, name string, build func(*builder) javaser.Node) (*javaser.Object, error) {
	if fam == FamilyUnknown || fam >= familyEnd {
		return nil, &UnsupportedError{Message: name, Family: fam, Reason: "family is not known"}
	}
	b := &builder{cat: loadCatalogues().of[fam], message: name}
	n := build(b)
	if b.err != nil {
		return nil, b.err
	}
	return n.(*javaser.Object), nil
}

func (b *builder) applicationDescription(d *ApplicationDescription) javaser.Node {
	switch {
	case d == nil:
		b.fail("lacks its ApplicationDescription")
		return nil
	case d.Graph != nil:
		return d.Graph
	}
	return b.newApplicationDescription(d)
}

func (b *builder) driverDescription(d *DriverDescription) javaser.Node {
	switch {
	case d == nil:
		b.fail("lacks its DriverDescription")
		return nil
	case d.Graph != nil:
		return d.Graph
	}
	return b.newDriverDescription(d)
}

// uriClass is java.net.URI, which is in no catalogue because it is the JDK's.
var uriClass = javaser.NewClass("java.net.URI", -0x53fe87d1bc61b655, javaser.FlagSerializable|javaser.FlagWriteMethod,
	[]javaser.Field{{Type: 'L', Name: "string", Signature: &javaser.String{Value: "Ljava/lang/String;"}}}, nil)

func (b *builder) newApplicationDescription(d *ApplicationDescription) javaser.Node {
	f := b.object("org.apache.spark.deploy.ApplicationDescription").str("appUiUrl", d.AppUIURL).
		ref("command", b.command(d.Command)).ref("eventLogCodec", b.optString(d.EventLogCodec)).
		ref("initialExecutorLimit", b.optInt(d.InitialExecutorLimit)).ref("maxCores", b.optInt(d.MaxCores)).
		str("name", d.Name).str("user", d.User)
	if d.EventLogDir != nil {
		uri := javaser.New(uriClass)
		uri.Fields[0] = javaser.Str(*d.EventLogDir)
		f.ref("eventLogDir", b.some(uri))
	} else {
		f.ref("eventLogDir", b.none())
	}
	if b.cat.fam != FamilyA {
		return f.ref("defaultProfile", b.resourceProfile(d.DefaultProfile)).node()
	}
	var reqs []javaser.Node
	for _, r := range d.DefaultProfile.ExecutorResources {
		if r.ResourceName != "cores" && r.ResourceName != "memory" {
			reqs = append(reqs, b.requirement(ResourceRequirement{ResourceName: r.ResourceName, Amount: int32(r.Amount), NumParts: 1}))
		}
	}
	return f.i32("memoryPerExecutorMB", d.DefaultProfile.MemoryPerExecutorMB()).
		ref("coresPerExecutor", b.optInt(d.DefaultProfile.CoresPerExecutor())).
		ref("resourceReqsPerExecutor", b.list(reqs)).node()
}

func (b *builder) newDriverDescription(d *DriverDescription) javaser.Node {
	reqs := make([]javaser.Node, len(d.ResourceReqs))
	for i, r := range d.ResourceReqs {
		reqs[i] = b.requirement(r)
	}
	return b.object("org.apache.spark.deploy.DriverDescription").i32("cores", d.Cores).i32("mem", d.Mem).
		boolean("supervise", d.Supervise).ref("command", b.command(d.Command)).str("jarUrl", d.JarURL).
		ref("resourceReqs", b.list(reqs)).node()
}

func (b *builder) requirement(r ResourceRequirement) javaser.Node {
	return b.object("org.apache.spark.resource.ResourceRequirement").i32("amount", r.Amount).
		i32("numParts", r.NumParts).str("resourceName", r.ResourceName).node()
}

func (b *builder) command(c Command) javaser.Node {
	if len(c.Unread) > 0 {
		b.fail("has a Command with " + strconv.Itoa(len(c.Unread)) + " unread fields and no graph")
		return nil
	}
	env := make([]pair, len(c.Environment))
	for i, e := range c.Environment {
		env[i] = pair{text(e.Name), text(e.Value)}
	}
	return b.object("org.apache.spark.deploy.Command").ref("arguments", b.strings(c.Arguments)).
		ref("classPathEntries", b.strings(c.ClassPathEntries)).ref("environment", b.mapOf(env)).
		ref("javaOpts", b.strings(c.JavaOpts)).ref("libraryPathEntries", b.strings(c.LibraryPathEntries)).
		str("mainClass", c.MainClass).node()
}

// resourceProfile returns the profile as received, or builds one with its cached limits empty.
func (b *builder) resourceProfile(p ResourceProfile) javaser.Node {
	if p.Graph != nil {
		return p.Graph
	}
	executor := make([]pair, len(p.ExecutorResources))
	for i, r := range p.ExecutorResources {
		executor[i] = pair{text(r.ResourceName), b.object("org.apache.spark.resource.ExecutorResourceRequest").
			set("amount", javaser.Long(r.Amount)).str("discoveryScript", r.DiscoveryScript).
			str("resourceName", r.ResourceName).str("vendor", r.Vendor).node()}
	}
	task := make([]pair, len(p.TaskResources))
	for i, r := range p.TaskResources {
		task[i] = pair{text(r.ResourceName), b.object("org.apache.spark.resource.TaskResourceRequest").
			set("amount", javaser.Double(r.Amount)).str("resourceName", r.ResourceName).node()}
	}
	class := "org.apache.spark.resource.ResourceProfile"
	if p.TaskOnly {
		class = "org.apache.spark.resource.TaskResourceProfile"
	}
	return b.object(class).i32("_id", p.ID).ref("_executorResourceSlotsPerAddr", b.none()).
		ref("_limitingResource", b.none()).ref("_maxTasksPerExecutor", b.none()).
		ref("executorResources", b.mapOf(executor)).ref("taskResources", b.mapOf(task)).node()
}
