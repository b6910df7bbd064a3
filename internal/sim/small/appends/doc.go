// Package appends tries everything that can happen to the batches of a log, down
// to how each request and each answer travels, on a store that may be set back.
//
//	tenure ──► request ──► store ──► answer ──► tenure
//	              │          │          └─► lost: the same batch is sent again
//	              └─► given up: under way for good, and may land at any time, or twice
//
// It is the proof of what an append compares (kvlog, tenure.tail): the last
// durable batch, and those that were on their way when that one was first sent.
// The worlds of package small append in one step, and never set a store back.
//
// It drives the real store protocol, kvlog over memstore.Disk. A writer is a few
// lines: it seals batches without events, numbers them, and sends each again
// until it is answered.
//
// It promises, within a world's Bounds and in every order:
//
//   - Nothing of a tenure lands unless that tenure is in the store, and nothing
//     lands over another batch (I4).
//   - An acknowledged batch is lost only when the store is set back; with it what
//     was on its way then and lands behind it. A batch is acknowledged when its
//     append and those of all before it in its tenure have been answered; it is
//     there when it and all before it lie in the log.
//   - The loss is noticed: a later append of its tenure does not land, and a
//     later Confirm does not succeed. So no two batches of one number are both
//     acknowledged, except where the store was set back between them.
//   - A standby that takes over from what it has followed has what the log has, and
//     is told where it has not (I9). The second happens only after a set-back.
//   - No replay reports a damaged log, since nothing here damages one. No server
//     reports a roll-back where there was none.
//
// It does not promise anything about snapshots, since no world here has one. Nor does
// it about time: a claim is one step without a wait, and every server runs as the only
// one, so that no tenure ends in silence (package kvlog explains both).
package appends
