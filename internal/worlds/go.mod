module github.com/pawlproject/pawl/internal/worlds

go 1.26.0

require (
	github.com/cockroachdb/datadriven v1.0.3
	github.com/pawlproject/pawl v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.85.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/pmezard/go-difflib v1.0.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
