package step

const (
	// growthMin spares a small table a snapshot for every little log.
	growthMin = 4 << 20
	// growthBatches is when many small batches alone are worth one.
	growthBatches = 10_000
)

// Growth is how long the log has become since the snapshot before it.
type Growth struct {
	Batches int
	// Bytes of those batches, and of the snapshot.
	Bytes, Snapshot int64
}

// Add counts a batch of so many bytes.
func (g *Growth) Add(bytes int) {
	g.Batches++
	g.Bytes += int64(bytes)
}

// Due says when another snapshot is worth its cost: a take-over reads the
// snapshot and the log behind it, so the log may grow to the snapshot's size.
func (g *Growth) Due() bool {
	return g.Bytes >= max(growthMin, g.Snapshot) || g.Batches >= growthBatches && g.Bytes >= g.Snapshot/8
}

// DueSoon says when a snapshot is worth its cost to a store that runs out of room.
func (g *Growth) DueSoon() bool { return g.Bytes >= growthMin/4 }
