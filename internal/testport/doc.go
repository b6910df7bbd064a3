// Package testport finds ports for servers of tests and measurements that are started
// again on the same port.
//
// It promises that no address is given twice in one process, and that the system gives
// none of them out by itself while its server is down. It does not keep other programs
// from an address: nobody listens on it until its server does.
package testport
