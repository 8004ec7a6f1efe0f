package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"raftmaster/transport/webui"
)

const (
	// hashPause is how long "hash" waits before it asks again; hashKeep bounds what it remembers of each master.
	hashPause = 100 * time.Millisecond
	hashKeep  = 1000
)

// hashResult is the JSON of "hash".
type hashResult struct {
	// Same: every member that was asked has answered, and all digests are equal.
	Same bool `json:"same"`
	// Index is the log entry after which the states were compared; 0 when there was no common one.
	Index   uint64           `json:"state_index"`
	Masters []masterHash     `json:"masters"`
	Errors  []endpointResult `json:"errors"`
}

type masterHash struct {
	Node     string `json:"node"`
	NodeID   string `json:"node_id"`
	Endpoint string `json:"endpoint"`
	// Index and Digest are those that were compared, or without a common index the last ones seen.
	Index  uint64 `json:"state_index"`
	Digest string `json:"state_digest"`
}

// hashes is what one master has shown so far.
type hashes struct {
	last webui.Status
	seen map[uint64]string
	err  error
}

func (h *hashes) add(st webui.Status) {
	if h.seen == nil || len(h.seen) >= hashKeep {
		h.seen = make(map[uint64]string)
	}
	h.last, h.err = st, nil
	h.seen[st.StateIndex] = st.StateDigest
}

// hash asks every master until all have shown the state after one and the same log entry, and compares.
func (a *app) hash(ctx context.Context) error {
	s := a.client.survey(ctx)
	if s.best() == nil {
		return nobodyError(s)
	}
	a.client.endpoints = withMembers(a.client.endpoints, s)
	byEndpoint := make([]hashes, len(a.client.endpoints))
	deadline := time.Now().Add(a.timeout)
	for {
		for i, x := range a.client.survey(ctx).answers {
			if x.err != nil {
				byEndpoint[i].err = x.err
				continue
			}
			byEndpoint[i].add(x.value)
		}
		index, ok := commonIndex(byEndpoint)
		if ok || !time.Now().Before(deadline) {
			return a.hashVerdict(byEndpoint, index, ok)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(hashPause):
		}
	}
}

// withMembers adds the members that no endpoint was given for.
func withMembers(endpoints []string, s survey) []string {
	out := slices.Clone(endpoints)
	answered := make(map[string]bool)
	for _, x := range s.answered() {
		answered[x.value.NodeID] = true
	}
	for _, p := range s.best().value.Quorum.Peers {
		if p.Member && p.WebURL != "" && !answered[p.NodeID] && !slices.Contains(out, p.WebURL) {
			out = append(out, p.WebURL)
		}
	}
	return out
}

// commonIndex is the highest index at which every master that answers has shown its state.
func commonIndex(all []hashes) (uint64, bool) {
	best, found, first := uint64(0), false, true
	for _, h := range all {
		if h.err != nil {
			continue
		}
		if !first {
			break
		}
		first = false
		for index := range h.seen {
			if (!found || index > best) && shownByAll(all, index) {
				best, found = index, true
			}
		}
	}
	return best, found
}

func shownByAll(all []hashes, index uint64) bool {
	for _, h := range all {
		if _, ok := h.seen[index]; !ok && h.err == nil {
			return false
		}
	}
	return true
}

// hashVerdict prints what was found and gives the exit code: 4 when states differ or somebody did not answer.
func (a *app) hashVerdict(all []hashes, index uint64, common bool) error {
	res := hashResult{Same: common, Index: index, Masters: []masterHash{}, Errors: []endpointResult{}}
	digests, clusters := map[string]bool{}, map[string]bool{}
	for i, h := range all {
		endpoint := a.client.endpoints[i]
		if h.err != nil {
			res.Errors = append(res.Errors, endpointResult{Endpoint: endpoint, Error: shortError(h.err)})
			res.Same = false
			continue
		}
		m := masterHash{Node: h.last.Address, NodeID: h.last.NodeID, Endpoint: endpoint, Index: h.last.StateIndex, Digest: h.last.StateDigest}
		if common {
			m.Index, m.Digest = index, h.seen[index]
		}
		digests[m.Digest], clusters[h.last.ClusterID] = true, true
		res.Masters = append(res.Masters, m)
	}
	if common && len(digests) > 1 || len(clusters) > 1 {
		res.Same = false
	}
	if err := a.print.value(res, func(w io.Writer) { hashTable(w, res) }); err != nil {
		return err
	}
	switch {
	case len(res.Masters) == 0:
		return coded(exitError, "no master answered any more")
	case len(clusters) > 1:
		return coded(exitUnhealthy, "these masters are not of one cluster (%s)", orNone(sortedKeys(clusters)))
	case !common:
		return coded(exitTimeout, "the masters did not show a common index within %v: ask again, with a longer --timeout or at a calmer time", a.timeout)
	case len(digests) > 1:
		return coded(exitUnhealthy, "the states differ after log entry %d: keep all data directories for analysis", index)
	case len(res.Errors) > 0:
		return coded(exitUnhealthy, "%d of %d masters did not answer; the states of the others are equal", len(res.Errors), len(all))
	}
	return nil
}

func hashTable(w io.Writer, res hashResult) {
	row(w, "MASTER", "INDEX", "DIGEST", "ENDPOINT")
	for _, m := range res.Masters {
		row(w, m.Node, m.Index, m.Digest, m.Endpoint)
	}
	for _, e := range res.Errors {
		row(w, "?", "-", "-", e.Endpoint)
	}
	for i, e := range res.Errors {
		if i == 0 {
			fmt.Fprintln(w)
		}
		row(w, "No answer", e.Endpoint+": "+e.Error)
	}
	if res.Same {
		fmt.Fprintf(w, "\n%d masters, equal states\n", len(res.Masters))
	}
}
