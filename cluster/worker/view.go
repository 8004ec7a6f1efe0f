package worker

import (
	"regexp"
	"sort"
	"strings"
	"time"

	"raftmaster/cluster/launcher"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/workerui"
)

// maxCommandText bounds what is kept of an application's command for the pages.
const maxCommandText = 8 << 10

// appFacts is what the pages show of an application. All its executors here share one.
type appFacts struct {
	name, user, uiURL string
	maxCores          int
	memory            int
	resources         []workerui.ResourceRequest
	command           string
}

// factsOf keeps of a description what is shown: the description itself is large.
func factsOf(d *sparkmsg.ApplicationDescription, redaction *regexp.Regexp) *appFacts {
	f := &appFacts{name: strings.Clone(d.Name), user: strings.Clone(d.User), uiURL: strings.Clone(d.AppUIURL),
		memory: int(d.DefaultProfile.MemoryPerExecutorMB()), command: commandText(&d.Command, redaction)}
	if d.MaxCores != nil {
		f.maxCores = int(*d.MaxCores)
	}
	for _, r := range d.DefaultProfile.ExecutorResources {
		switch r.ResourceName {
		case "cores", "memory", "memoryOverhead", "offHeap", "pyspark.memory":
		default:
			f.resources = append(f.resources, workerui.ResourceRequest{Name: r.ResourceName, Amount: int(r.Amount)})
		}
	}
	return f
}

// commandText is the text form of a command, as Spark's case class has it, without secrets.
func commandText(cmd *sparkmsg.Command, redaction *regexp.Regexp) string {
	var b strings.Builder
	list := func(name string, items []string) {
		b.WriteString("," + name + "(")
		for i, item := range items {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(launcher.Redact(item, redaction))
		}
		b.WriteString(")")
	}
	b.WriteString("Command(" + cmd.MainClass)
	list("List", cmd.Arguments)
	env := make([]string, 0, len(cmd.Environment))
	for _, v := range cmd.Environment {
		shown := strings.TrimPrefix(launcher.Redact("-D"+v.Name+"="+v.Value, redaction), "-D")
		env = append(env, strings.Replace(shown, "=", " -> ", 1))
	}
	list("Map", env)
	list("List", cmd.ClassPathEntries)
	list("List", cmd.LibraryPathEntries)
	list("List", cmd.JavaOpts)
	b.WriteString(")")
	if b.Len() > maxCommandText {
		return strings.ToValidUTF8(b.String()[:maxCommandText], "") + "..."
	}
	return b.String()
}

// Status is what the worker knows of itself.
type Status = workerui.View

// Status copies what the Core knows now.
func (c *Core) Status() Status {
	v := Status{
		ID: c.cfg.ID, URL: "spark://" + c.cfg.Self.String(), Registered: c.link.registered || c.link.connected,
		Connected: c.link.connected, Decommissioned: c.decommissioned,
		Cores: int(c.cfg.Cores), CoresUsed: int(c.coresUsed), MemoryMB: int(c.cfg.MemoryMB), MemoryUsedMB: int(c.memoryUsed),
		Resources: c.resourcesInUse(), StartMillis: millis(c.started), LastHeartbeatMillis: millis(c.lastBeat),
		Problems: c.problems(),
	}
	if c.link.known {
		v.MasterURL, v.MasterWebURL = c.link.url(), c.link.webURL
	}
	for _, e := range c.sortedExecutors() {
		v.Executors = append(v.Executors, e.shown())
	}
	for _, e := range c.ended {
		v.FinishedExecutors = append(v.FinishedExecutors, e.shown())
	}
	for _, d := range c.sortedDrivers() {
		v.Drivers = append(v.Drivers, d.shown())
	}
	for _, d := range c.endedDrivers {
		v.FinishedDrivers = append(v.FinishedDrivers, d.shown())
	}
	return v
}

func (c *Core) problems() (out []string) {
	switch {
	case c.link.connected:
	case c.link.known:
		out = append(out, "The connection to the master is lost; this worker waits for the next one or registers again.")
	default:
		out = append(out, "No master has accepted this worker yet.")
	}
	if n := len(c.reports); n > 0 && !c.link.connected {
		out = append(out, "Ends of executors wait until there is a master to take them.")
	}
	return out
}

// resourcesInUse counts the addresses given to executors and drivers.
func (c *Core) resourcesInUse() []workerui.Resource {
	used := map[string][]string{}
	note := func(list []sparkmsg.ResourceInformation) {
		for _, r := range list {
			used[r.Name] = append(used[r.Name], r.Addresses...)
		}
	}
	for _, e := range c.executors {
		note(e.resources)
	}
	for _, d := range c.drivers {
		note(d.resources)
	}
	out := shownResources(c.cfg.Resources)
	for i := range out {
		out[i].UsedAddresses = used[out[i].Name]
		sort.Strings(out[i].UsedAddresses)
	}
	return out
}

func shownResources(list []sparkmsg.ResourceInformation) []workerui.Resource {
	out := make([]workerui.Resource, 0, len(list))
	for _, r := range list {
		out = append(out, workerui.Resource{Name: r.Name, Addresses: append([]string(nil), r.Addresses...)})
	}
	return out
}

func (e *executor) shown() workerui.Executor {
	out := workerui.Executor{ID: int(e.key.id), AppID: e.key.app, State: e.state.String(), Cores: int(e.cores), MemoryMB: int(e.memory),
		Resources: shownResources(e.resources), PID: e.pid, StartMillis: millis(e.started), EndMillis: millis(e.ended), Message: e.message,
		App: workerui.App{Name: e.app.name, User: e.app.user, UIURL: e.app.uiURL, MaxCores: e.app.maxCores, MemoryPerExecutorMB: e.app.memory,
			ResourcesPerExecutor: append([]workerui.ResourceRequest(nil), e.app.resources...), Command: e.app.command}}
	if !e.ended.IsZero() {
		out.PID = 0
	}
	if e.exitStatus != nil {
		code := int(*e.exitStatus)
		out.ExitCode = &code
	}
	return out
}

func (d *driver) shown() workerui.Driver {
	out := workerui.Driver{ID: d.id, MainClass: d.mainClass, State: d.state.String(), Cores: int(d.cores), MemoryMB: int(d.memory),
		Resources: shownResources(d.resources), Supervise: d.supervise, Attempts: d.attempts, PID: d.pid,
		StartMillis: millis(d.started), EndMillis: millis(d.ended), Message: d.message}
	if !d.ended.IsZero() {
		out.PID = 0
	}
	return out
}

// millis is a time in milliseconds since the epoch, 0 for never.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
