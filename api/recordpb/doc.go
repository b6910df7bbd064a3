// Package recordpb is what a cell logs: decided events in batches, and
// snapshots, generated from record.proto.
//
// It promises that what was logged stays readable: fields are never renumbered
// and never reused. A reader stops at a kind of event that it does not know.
package recordpb
