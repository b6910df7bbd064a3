// Package objects tests guard/objguard, its buckets and its probe on real servers:
// versitygw, of which the newest version keeps the conditions of S3 and an older one does
// not, gofakes3 in this process, and fake-gcs-server.
//
// It promises that a schedule of lost, late and repeated requests that breaks the guard
// on one of them is told with its seed.
package objects
