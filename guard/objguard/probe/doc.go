// Package probe tries whether an object store keeps its word: whether a conditional
// write is refused when the condition does not hold, and whether it still is when many
// writers race. Many stores that speak S3 do not.
//
//	report, err := probe.Run(ctx, []objguard.Bucket{b}, "some/prefix", probe.Options{})
//	if err != nil || !report.Safe() { … }
//
// # What it promises
//
// A store that breaks a property in front of it is told, with the property's name.
// objguard is safe only on a store that has all properties that it needs. The probe
// writes and deletes only below a random name under the prefix, and deletes what it wrote.
//
// # What it does not promise
//
// A race that did not show is not proof that there is none. What comes after a failover, in
// another region or on a versioned bucket shows only there: run the probe again then.
package probe
