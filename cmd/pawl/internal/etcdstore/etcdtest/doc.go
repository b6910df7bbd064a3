// Package etcdtest runs real etcd clusters for tests: one or more
// members of any version that pawl works with, each a process on loopback
// ports of its own, with faults: killed, stopped, cut off, full, set back.
//
// A cluster ends with the test that started it, and with the process of the test
// however that ends. Nothing here is part of the product.
package etcdtest
