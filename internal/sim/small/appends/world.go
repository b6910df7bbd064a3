package appends

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pawlproject/pawl/internal/sim/small"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

var keys kvlog.Keys

// elsewhere is where strangers write.
const elsewhere = "elsewhere"

// World is one state, and how to go on from it.
type World struct {
	// left is what may still happen.
	bounds, left Bounds

	disk *memstore.Disk
	// view is the disk as anybody can read it, log what lies in its log, up to head
	// without a hole.
	view view
	log  map[uint64]*batch
	head uint64
	// saved are the states that the disk was in, as long as it may be set back.
	saved []saved

	tenures []*tenure
	calls   []*call
	strays  []*stray
	// standby follows the log; the next tenure is its.
	standby standby
	// wasSetBack: the store has been. resumed, moved: a tenure went on from what the
	// standby had read, and could not.
	wasSetBack, resumed, moved bool
	failure                    *small.Violation
}

// view tells what a disk holds, revisions included.
type view [sha256.Size]byte

type saved struct {
	view  view
	rev   int64
	head  uint64
	state memstore.State
}

// begin makes the world in which everything else happens: tenure A has founded
// the cell.
func begin(b Bounds) *World {
	w := &World{bounds: b, left: b, disk: memstore.NewDisk()}
	w.changed()
	w.claim(false)
	return w
}

// close ends what is going on.
func (w *World) close() {
	for _, c := range w.calls {
		c.stop()
	}
}

func (w *World) fail(invariant, format string, args ...any) {
	if w.failure == nil {
		w.failure = &small.Violation{Invariant: invariant, What: fmt.Sprintf(format, args...)}
	}
}

// txn carries a transaction out.
func (w *World) txn(t kvlog.Txn) kvlog.Result {
	res, err := w.disk.Txn(context.Background(), t)
	if err != nil {
		panic(err)
	}
	return res
}

// land has a request reach the store.
func (w *World) land(r request) kvlog.Result {
	res := w.txn(r.txn)
	if res.OK {
		w.landed(r)
	}
	return res
}

// would reports whether a transaction would do anything at present.
func (w *World) would(t kvlog.Txn) bool { return w.txn(kvlog.Txn{If: t.If}).OK }

// changed reads the disk anew.
func (w *World) changed() {
	page, err := w.disk.Range(context.Background(), kvlog.Query{To: "\xff", Limit: 1000})
	if err != nil {
		panic(err)
	}
	out := binary.AppendUvarint(nil, uint64(page.Rev))
	w.log, w.head = map[uint64]*batch{}, 0
	for _, p := range page.Pairs {
		if p.Key == elsewhere {
			continue
		}
		out = appendBytes(binary.AppendUvarint(appendBytes(out, []byte(p.Key)), uint64(p.Rev)), p.Value)
		if n, ok := numberOf(p.Key); ok {
			w.log[n] = w.batchOf(n, p.Value)
		}
	}
	for w.log[w.head+1] != nil {
		w.head++
	}
	w.view = sha256.Sum256(out)
	known := slices.ContainsFunc(w.saved, func(s saved) bool { return s.view == w.view })
	if w.left.SetBacks > 0 && !known {
		w.saved = append(w.saved, saved{w.view, page.Rev, w.head, w.disk.Save()})
	}
}

// setBack sets the store back. raised: others wrote to it as much as had been
// written since, so that its revision gives nothing away.
func (w *World) setBack(i int, raised bool) {
	w.left.SetBacks--
	from := w.txn(kvlog.Txn{}).Rev
	w.disk.Restore(w.saved[i].state)
	for raised && w.txn(kvlog.Txn{}).Rev < from {
		w.strange()
	}
	w.wasSetBack = true
	if w.changed(); w.left.SetBacks == 0 {
		w.saved = nil
	}
	w.forget()
}

// strange is a write of somebody else.
func (w *World) strange() {
	w.txn(kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpPut, Key: elsewhere}}})
}

func appendBytes(out, b []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(b))), b...)
}
