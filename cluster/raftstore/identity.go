package raftstore

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Versions of identity.json. Format 2 says that entries of the log may be in the journal, which releases before it do not
// know: they refuse it. A clean stop brings format 1 back.
const (
	identityFormat        = 1
	identityFormatJournal = 2
)

// DataFormats are the formats of data directories that this release reads.
func DataFormats() []int { return []int{identityFormat, identityFormatJournal} }

// Server is a member of the first configuration.
type Server struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// Identity is who a node is: kept apart from raft's files and from the node's address, which may change.
type Identity struct {
	Format int    `json:"format"`
	NodeID string `json:"node_id"`
	// ClusterID is "" until the node belongs to a cluster.
	ClusterID string `json:"cluster_id"`
	// Bootstrap is set on the node that formed the cluster: it repeats the bootstrap if it crashed half-way.
	Bootstrap []Server `json:"bootstrap,omitempty"`
	// Journal: entries of the log may be in the journal only.
	Journal bool `json:"journal,omitempty"`
}

// NewID makes a random identifier of 16 hex digits.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// loadIdentity reads identity.json; a missing one is made anew, unless raft files are there already.
func loadIdentity(dir string) (Identity, error) {
	path := filepath.Join(dir, identityFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{logFile, stableFile} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return Identity{}, damaged(path, "missing, although "+name+" is there", backupHint)
			}
		}
		id := Identity{Format: identityFormat, NodeID: NewID()}
		return id, saveIdentity(dir, id)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("%w: read %s: %w", ErrStorage, path, err)
	}
	var id Identity
	if err := json.Unmarshal(raw, &id); err != nil {
		return Identity{}, damaged(path, "no valid JSON: "+err.Error(), backupHint)
	}
	if id.Format == 0 {
		return Identity{}, damaged(path, "no format", backupHint)
	}
	if id.Format != identityFormat && id.Format != identityFormatJournal {
		return Identity{}, fmt.Errorf("%w: %s: format %d, this release reads formats %d and %d", ErrForeign, path, id.Format, identityFormat, identityFormatJournal)
	}
	if id.Journal != (id.Format == identityFormatJournal) {
		return Identity{}, damaged(path, fmt.Sprintf("format %d with journal: %t", id.Format, id.Journal), backupHint)
	}
	if id.NodeID == "" {
		return Identity{}, damaged(path, "no node_id", backupHint)
	}
	return id, nil
}

// saveIdentity replaces identity.json atomically and durably.
func saveIdentity(dir string, id Identity) error {
	id.Format = identityFormat
	if id.Journal {
		id.Format = identityFormatJournal
	}
	raw, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	path := filepath.Join(dir, identityFile)
	if err := writeFileDurably(path, append(raw, '\n')); err != nil {
		return fmt.Errorf("%w: write %s: %w", ErrStorage, path, err)
	}
	return nil
}

func writeFileDurably(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Identity is the node's identity as of now.
func (s *Store) Identity() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.identity
	id.Bootstrap = slices.Clone(id.Bootstrap)
	return id
}

// JoinCluster stamps the cluster's id on the directory, once; bootstrap is non-nil on the node that forms the cluster.
// Joining the same cluster again is no error.
func (s *Store) JoinCluster(clusterID string, bootstrap []Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity.ClusterID == clusterID {
		return nil
	}
	if s.identity.ClusterID != "" {
		return fmt.Errorf("%w: %s belongs to cluster %s, not to cluster %s", ErrOtherCluster, s.dir, s.identity.ClusterID, clusterID)
	}
	id := s.identity
	id.ClusterID, id.Bootstrap = clusterID, slices.Clone(bootstrap)
	if err := saveIdentity(s.dir, id); err != nil {
		return err
	}
	s.identity = id
	return nil
}

// markJournal notes durably whether entries may be in the journal.
func (s *Store) markJournal(used bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity.Journal == used {
		return nil
	}
	id := s.identity
	id.Journal = used
	if err := saveIdentity(s.dir, id); err != nil {
		return err
	}
	s.identity = id
	return nil
}
