package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"raftmaster/transport/webui"
)

// isStranger: the master knows a cluster's members, and is none of them.
func isStranger(st webui.Status) bool {
	members, self := false, false
	for _, p := range st.Quorum.Peers {
		members = members || p.Member
		self = self || p.Member && (p.Self || p.NodeID == st.NodeID)
	}
	return members && !self
}

// problem says why the masters that answered cannot be judged as one cluster: they are of several, or more than one
// leads. Masters that belong to no cluster yet are none of another one. Empty: all well.
func (s survey) problem() string {
	clusters, alive := map[string]map[string]bool{}, map[string]string{}
	for _, a := range s.answered() {
		if id := a.value.ClusterID; id != "" {
			if clusters[id] == nil {
				clusters[id] = map[string]bool{}
			}
			clusters[id][a.value.Address+" ("+a.endpoint+")"] = true
		}
		if a.value.State == webui.StateAlive {
			alive[a.value.NodeID] = fmt.Sprintf("%s (%s, term %d)", a.value.Address, a.endpoint, a.value.Term)
		}
	}
	if len(clusters) > 1 {
		ids := map[string]bool{}
		for id, at := range clusters {
			ids["cluster "+id+": "+strings.Join(sortedKeys(at), ", ")] = true
		}
		return clean("these masters are not of one cluster: "+strings.Join(sortedKeys(ids), "; ")) +
			"\nnext: give the --endpoints of one cluster; if they are meant to be one, compare their --cluster and --data-dir"
	}
	if len(alive) > 1 {
		names := map[string]bool{}
		for _, name := range alive {
			names[name] = true
		}
		return clean("more than one master is ALIVE: "+strings.Join(sortedKeys(names), ", ")) +
			"\nnext: ask again; if it stays, keep all logs and data directories and stop the one of the lower term"
	}
	return ""
}

// settlePause lets a change of the leader that fell between the answers of two masters end.
const settlePause = 300 * time.Millisecond

// settledSurvey asks everybody, and once more when there seems to be a problem: two masters answer at two moments, and
// each may have led at its own.
func (c *client) settledSurvey(ctx context.Context) (survey, string) {
	s := c.survey(ctx)
	if s.problem() == "" {
		return s, ""
	}
	select {
	case <-ctx.Done():
	case <-time.After(settlePause):
		s = c.survey(ctx)
	}
	return s, s.problem()
}

// silent names the endpoints that did not answer; nil when all did.
func (s survey) silent() error {
	var names []string
	for _, a := range s.answers {
		if a.err != nil {
			names = append(names, a.endpoint+" ("+shortError(a.err)+")")
		}
	}
	if len(names) == 0 {
		return nil
	}
	return coded(exitUnhealthy, "%d of %d endpoints did not answer: %s", len(names), len(s.answers), strings.Join(names, ", "))
}

// leaderToChange finds the leader for a call that changes something. It refuses when it is not clear whose leader.
func (a *app) leaderToChange(ctx context.Context) (string, error) {
	s, problem := a.client.settledSurvey(ctx)
	if problem != "" {
		return "", coded(exitUnhealthy, "%s", problem)
	}
	return a.client.findLeader(ctx, s)
}

// peerNamed turns a host without a port into the address of the one master there. Everything else is the leader's to
// judge and stays as it is.
func (a *app) peerNamed(ctx context.Context, endpoint, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if _, _, err := net.SplitHostPort(name); err == nil {
		return name, nil
	}
	var v webui.PeersAnswer
	if err := a.client.get(ctx, endpoint, "/v1/peers", &v); err != nil {
		return "", fmt.Errorf("%s: %w", endpoint, err)
	}
	at := map[string]bool{}
	for _, p := range v.Peers {
		if p.NodeID == name {
			return name, nil
		}
		if host, _, err := net.SplitHostPort(p.Address); err == nil && p.Member && strings.EqualFold(host, strings.Trim(name, "[]")) {
			at[p.Address] = true
		}
	}
	switch addresses := sortedKeys(at); len(addresses) {
	case 0:
		return name, nil
	case 1:
		return addresses[0], nil
	default:
		return "", coded(exitUsage, "%s is the host of several masters: name one of %s", clean(name), strings.Join(addresses, ", "))
	}
}

// nodeIDDigits is the length of a node id, in hexadecimal digits.
const nodeIDDigits = 16

func isNodeID(s string) bool {
	_, err := strconv.ParseUint(s, 16, 64)
	return err == nil && len(s) == nodeIDDigits && strings.ToLower(s) == s
}

// checkAnnounced refuses to add what neither the leader nor an endpoint knows: a voter that does not exist costs the
// cluster its tolerance. A leader does not hear of a master whose list is a longer one; such a master answers for itself.
func (a *app) checkAnnounced(ctx context.Context, endpoint, id, address string) error {
	if !isNodeID(id) {
		return coded(exitRefused, "%q is no node id, which has %d hexadecimal digits: the new master logs its own (starting: node_id=...), and raftctl peers list shows it; --force adds it all the same",
			id, nodeIDDigits)
	}
	var v webui.PeersAnswer
	if err := a.client.get(ctx, endpoint, "/v1/peers", &v); err != nil {
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	for _, x := range a.client.survey(ctx).answered() {
		if x.value.NodeID == id && x.value.Address == address {
			return nil
		}
	}
	known := ""
	for _, p := range v.Peers {
		switch {
		case p.NodeID == id && p.Address == address:
			return nil
		case p.NodeID == id:
			known = fmt.Sprintf("; node %s is at %s", id, p.Address)
		case p.Address == address && p.NodeID != "" && known == "":
			known = fmt.Sprintf("; at %s is node %s", address, p.NodeID)
		}
	}
	return coded(exitRefused, "%s", clean(fmt.Sprintf("the leader has heard of no node %s at %s%s", id, address, known))+
		"\nnext: start that master, and give its web UI among the --endpoints, where it answers for itself; --force adds it all the same")
}
