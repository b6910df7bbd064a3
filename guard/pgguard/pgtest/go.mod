module github.com/pawlproject/pawl/guard/pgguard/pgtest

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/jackc/pgx/v5 v5.13.0
	github.com/pawlproject/pawl v0.0.0
	github.com/pawlproject/pawl/guard v0.0.0
	github.com/pawlproject/pawl/guard/pgguard v0.0.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
