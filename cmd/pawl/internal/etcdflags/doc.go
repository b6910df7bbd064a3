// Package etcdflags holds the flags that say how an etcd cluster that others run is
// reached. "pawl serve" and "pawl log dump" share them.
//
// It promises to refuse, before the cluster is asked anything, what cannot be meant,
// and what would send a password in the clear. A password comes from a file or a
// variable, never from a flag; the file is read again whenever it is needed.
//
// It does not connect: packages server and etcdstore do.
package etcdflags
