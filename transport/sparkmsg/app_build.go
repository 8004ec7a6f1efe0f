package sparkmsg

import "raftmaster/transport/javaser"

// appMessage builds the messages between drivers and the master; ok is false for others.
func (b *builder) appMessage(msg Message) (n javaser.Node, ok bool) {
	switch m := msg.(type) {
	case *RegisterApplication:
		return b.deploy("RegisterApplication").ref("appDescription", b.applicationDescription(m.AppDescription)).
			ref("driver", b.endpointRef(m.Driver)).node(), true
	case *RegisteredApplication:
		return b.deploy("RegisteredApplication").str("appId", m.AppID).ref("master", b.endpointRef(m.Master)).node(), true
	case *ExecutorAdded:
		return b.deploy("ExecutorAdded").i32("cores", m.Cores).i32("id", m.ID).i32("memory", m.Memory).
			str("hostPort", m.HostPort).str("workerId", m.WorkerID).node(), true
	case *ExecutorUpdated:
		return b.deploy("ExecutorUpdated").i32("id", m.ID).ref("exitStatus", b.optInt(m.ExitStatus)).
			ref("message", b.optString(m.Message)).ref("state", b.executorState(m.State)).
			ref("workerHost", b.optString(m.WorkerHost)).node(), true
	case *ApplicationRemoved:
		return b.deploy("ApplicationRemoved").str("message", m.Message).node(), true
	case *WorkerRemoved:
		return b.deploy("WorkerRemoved").str("host", m.Host).str("id", m.ID).str("message", m.Message).node(), true
	case *UnregisterApplication:
		return b.deploy("UnregisterApplication").strOrNull("appId", m.AppID).node(), true
	case *MasterChangeAcknowledged:
		return b.deploy("MasterChangeAcknowledged").strOrNull("appId", m.AppID).node(), true
	case *RequestExecutors:
		return b.requestExecutors(m), true
	case *KillExecutors:
		return b.deploy("KillExecutors").str("appId", m.AppID).ref("executorIds", b.strings(m.ExecutorIDs)).node(), true
	}
	return nil, false
}

func (b *builder) requestExecutors(m *RequestExecutors) javaser.Node {
	f := b.deploy("RequestExecutors").str("appId", m.AppID)
	if b.cat.fam == FamilyA {
		if len(m.ResourceProfileToTotalExecs) != 1 {
			b.fail("takes exactly one total")
			return nil
		}
		return f.i32("requestedTotal", m.ResourceProfileToTotalExecs[0].Total).node()
	}
	entries := make([]pair, len(m.ResourceProfileToTotalExecs))
	for i, e := range m.ResourceProfileToTotalExecs {
		entries[i] = pair{b.resourceProfile(e.Profile), b.integer(e.Total)}
	}
	return f.ref("resourceProfileToTotalExecs", b.mapOf(entries)).node()
}
