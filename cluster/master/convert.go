package master

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// defaultExecutorMemoryMB is what an executor gets when the application does not say (B-181).
const defaultExecutorMemoryMB = 1024

var errNoReference = errors.New("the message carries no reference with an address to answer to")

// refAddress gives the listening address in a reference (B-212): the socket's own address says nothing.
func refAddress(ref sparkmsg.EndpointRef) (sparkmsg.Address, error) {
	if ref.Address == nil || ref.Address.Host == "" {
		return sparkmsg.Address{}, errNoReference
	}
	if ref.Address.Port <= 0 || ref.Address.Port > 65535 {
		return sparkmsg.Address{}, fmt.Errorf("the reference names port %d; 1 to 65535 are allowed", ref.Address.Port)
	}
	return *ref.Address, nil
}

func (c *Core) selfRef() sparkmsg.EndpointRef {
	self := c.cfg.Self
	return sparkmsg.EndpointRef{Name: endpointMaster, Address: &self}
}

func toFSMAddress(a sparkmsg.Address) fsm.Address {
	return fsm.Address{Host: a.Host, Port: int(a.Port)}
}

func fromFSMAddress(a fsm.Address) sparkmsg.Address {
	return sparkmsg.Address{Host: a.Host, Port: int32(a.Port)}
}

// pickFamily chooses what to encode for a peer of which only a set is known: what a master says is the same for all
// families that messages cannot tell apart, so any of the set will do; the newest is taken.
func pickFamily(set sparkmsg.FamilySet) sparkmsg.Family {
	all := set.Families()
	if len(all) == 0 {
		return sparkmsg.FamilyUnknown
	}
	return all[len(all)-1]
}

func toInt(p *int32) *int {
	if p == nil {
		return nil
	}
	v := int(*p)
	return &v
}

func toInt32(p *int) *int32 {
	if p == nil {
		return nil
	}
	v := int32(*p)
	return &v
}

func toFSMResources(in []sparkmsg.ResourceInformation) []fsm.Resource {
	out := make([]fsm.Resource, 0, len(in))
	for _, r := range in {
		out = append(out, fsm.Resource{Name: r.Name, Addresses: r.Addresses})
	}
	return out
}

func fromFSMResources(in []fsm.Resource) []sparkmsg.ResourceInformation {
	out := make([]sparkmsg.ResourceInformation, 0, len(in))
	for _, r := range in {
		out = append(out, sparkmsg.ResourceInformation{Name: r.Name, Addresses: r.Addresses})
	}
	return out
}

// toFSMProfile keeps what scheduling looks at (B-181): cores, memory and custom resources. Overheads, off-heap and
// PySpark memory are ignored, as in Spark.
func toFSMProfile(p *sparkmsg.ResourceProfile) fsm.Profile {
	out := fsm.Profile{ID: int(p.ID)}
	for _, r := range p.ExecutorResources {
		switch r.ResourceName {
		case "cores":
			cores := int(r.Amount)
			out.Cores = &cores
		case "memory":
			out.MemoryMB = int(r.Amount)
		case "memoryOverhead", "pyspark.memory", "offHeap":
		default:
			out.Resources = append(out.Resources, fsm.ResourceAmount{Name: r.ResourceName, Amount: int(r.Amount)})
		}
	}
	sort.Slice(out.Resources, func(i, j int) bool { return out.Resources[i].Name < out.Resources[j].Name })
	return out
}

func toReported(d *sparkmsg.ExecutorDescription) fsm.ReportedExecutor {
	return fsm.ReportedExecutor{
		AppID: d.AppID, ExecID: int(d.ExecID), ProfileID: int(d.RPID), Cores: int(d.Cores), MemoryMB: int(d.MemoryMB),
		State: fsm.ExecutorState(d.State),
	}
}

func parseExecutorID(text string) (int, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	return int(id), err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// sameWorker tells whether a registration brings nothing that the replicated entry does not say already.
func sameWorker(w *fsm.Worker, m *sparkmsg.RegisterWorker, addr sparkmsg.Address) bool {
	if w.Host != m.Host || w.Port != int(m.Port) || w.Address != toFSMAddress(addr) || w.Cores != int(m.Cores) ||
		w.MemoryMB != int(m.Memory) || w.WebUIURL != m.WorkerWebUIURL || len(w.Resources) != len(m.Resources) {
		return false
	}
	have := make(map[string][]string, len(w.Resources))
	for _, r := range w.Resources {
		have[r.Name] = r.Addresses
	}
	for _, r := range m.Resources {
		offered := slices.Clone(r.Addresses)
		slices.Sort(offered)
		if !slices.Equal(have[r.Name], offered) {
			return false
		}
	}
	return true
}
