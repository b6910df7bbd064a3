package etcdstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// seenFile is what the file "seen" holds: a state that etcd is known to have
// reached. It may lag, so it proves a loss and never the absence of one.
type seenFile struct {
	Cluster  string `json:"cluster"`
	Revision int64  `json:"revision"`
}

func (f *folder) writeSeen(s kvlog.Seen) error {
	raw, err := json.Marshal(seenFile{Cluster: fmt.Sprintf("%016x", s.Cluster), Revision: s.Rev})
	if err != nil {
		return err
	}
	return f.replace("seen", append(raw, '\n'))
}

// checkSeen compares what etcd shows with what it had reached.
func (f *folder) checkSeen(now kvlog.Seen) error {
	raw, err := os.ReadFile(f.path("seen"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if errors.Is(err, syscall.EISDIR) {
		return fmt.Errorf("%w: %s is not a file; to go on with what the store shows, remove it", store.ErrDamaged, f.path("seen"))
	}
	if err != nil {
		return fmt.Errorf("read what the store had reached: %w", err)
	}
	var was seenFile
	if err := json.Unmarshal(raw, &was); err != nil {
		return fmt.Errorf("%w: %s does not hold what the store had reached (%w); to go on with what the store shows, remove it", store.ErrDamaged, f.path("seen"), err)
	}
	if cluster := fmt.Sprintf("%016x", now.Cluster); was.Cluster != cluster || now.Rev < was.Revision {
		return fmt.Errorf("%w: the etcd of the data folder %s is of cluster %s at revision %d, and was of cluster %s at revision %d; to go on with what is there, remove %s",
			store.ErrRolledBack, f.dir, cluster, now.Rev, was.Cluster, was.Revision, f.path("seen"))
	}
	return nil
}
