package cell

const (
	// growthMin spares a small table a snapshot for every little log.
	growthMin = 4 << 20
	// growthBatches is when many small batches alone are worth one.
	growthBatches = 10_000
)

// growth is how long the log has become since the snapshot before it.
type growth struct {
	batches int
	// bytes of those batches, and of the snapshot.
	bytes, snapshot int64
}

func (g *growth) add(bytes int) {
	g.batches++
	g.bytes += int64(bytes)
}

// due says when another snapshot is worth its cost: a take-over reads the
// snapshot and the log behind it, so the log may grow to the snapshot's size.
func (g *growth) due() bool {
	return g.bytes >= max(growthMin, g.snapshot) || g.batches >= growthBatches && g.bytes >= g.snapshot/8
}
