// Package postgres runs guardtest, the contract of every guard, on pgguard, along with
// what is particular to PostgreSQL: standbys, poolers, synchronous commit, and tokens of
// ZooKeeper and etcd. Its servers come from internal/testpostgres.
package postgres
