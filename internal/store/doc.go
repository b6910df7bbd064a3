// Package store is the seam between a cell and the place where its log lives.
//
// A store keeps one cell: a tenure, a log of numbered batches, a snapshot.
// It promises:
//
//   - a tenure changes only by compare-and-swap, and its epoch only goes up;
//   - nothing of an ended tenure lands, and whatever lands late or twice does
//     no harm (I4);
//   - a batch that was acknowledged, and every batch before it in its tenure,
//     is there for ever, unless the store itself loses what it acknowledged.
//
// It does not promise to answer in time, and an error other than ErrFenced
// says nothing about whether a write took effect.
//
// Package storetest is the contract as tests; memstore is the store for tests,
// for pawltest and for the simulator.
package store
