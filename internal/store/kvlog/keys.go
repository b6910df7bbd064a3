package kvlog

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	numberWidth = 20
	indexWidth  = 10
)

// Keys names the keys of one cell under a prefix. Exported for tests that do
// harm and for tools that look.
type Keys struct{ Prefix string }

// Range is where all of them lie: [from, to).
func (k Keys) Range() (from, to string) {
	if k.Prefix == "" {
		return "\x00", "\xff"
	}
	return k.Prefix, k.ChunksEnd(k.Prefix)
}

// Tenure holds who is active.
func (k Keys) Tenure() string { return k.Prefix + "tenure" }

// Beat is rewritten by the active server.
func (k Keys) Beat() string { return k.Prefix + "beat" }

// Snapshot points at the present snapshot.
func (k Keys) Snapshot() string { return k.Prefix + "snapshot" }

// Log is the key of batch n.
func (k Keys) Log(n uint64) string { return fmt.Sprintf("%slog/%0*d", k.Prefix, numberWidth, n) }

// LogEnd lies behind every Log key.
func (k Keys) LogEnd() string { return k.Prefix + "log/:" }

// logNumber reads the number of a log key; false for a key that is not ours.
func (k Keys) logNumber(key string) (uint64, bool) {
	digits, ok := strings.CutPrefix(key, k.Prefix+"log/")
	if !ok || len(digits) != numberWidth {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// Chunks is the folder of the snapshot after batch m taken in epoch e; its keys
// lie in [Chunks, ChunksEnd).
func (k Keys) Chunks(m, e uint64) string {
	return fmt.Sprintf("%ssnap/%0*d-%0*d/", k.Prefix, numberWidth, m, numberWidth, e)
}

// ChunksEnd lies behind every chunk in folder.
func (k Keys) ChunksEnd(folder string) string { return strings.TrimSuffix(folder, "/") + "0" }

// Chunk is the key of chunk i in folder.
func (k Keys) Chunk(folder string, i int) string {
	return fmt.Sprintf("%s%0*d", folder, indexWidth, i)
}

// folderOf reads the folder of a chunk's key; false for a key that is not ours.
func (k Keys) folderOf(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, k.Prefix+"snap/")
	if !ok || len(rest) != 2*numberWidth+2+indexWidth {
		return "", false
	}
	m, err1 := strconv.ParseUint(rest[:numberWidth], 10, 64)
	e, err2 := strconv.ParseUint(rest[numberWidth+1:2*numberWidth+1], 10, 64)
	folder := k.Chunks(m, e)
	return folder, err1 == nil && err2 == nil && strings.HasPrefix(key, folder)
}

// FolderIn reads which folder the value of the Snapshot key points at.
func (k Keys) FolderIn(pointer []byte) (string, error) {
	v, err := decodePointer(Pair{Value: pointer, Rev: 1})
	return k.Chunks(v.Batch, v.Epoch), err
}
