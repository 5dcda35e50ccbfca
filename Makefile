# `make run` and `make test` are all a newcomer needs; the rest is for
# developers.
SHELL := /bin/bash
.DEFAULT_GOAL := build
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)

TOOL_gofumpt     = mvdan.cc/gofumpt@v0.12.0
TOOL_staticcheck = honnef.co/go/tools/cmd/staticcheck@v0.8.2
TOOL_errcheck    = github.com/kisielk/errcheck@v1.30.0
TOOL_deadcode    = golang.org/x/tools/cmd/deadcode@v0.52.0

# The suites of foreign clients and of whole clusters run by themselves: they
# need what they test with, and the time.
OURS = $$(go list $(1) | grep -vE '/broker/(compat|chaos|model/mutants)')

# Packages with goroutines worth racing; the race detector needs a C compiler.
RACED := ./offsets/... ./broker/... ./consumer/... ./jobs/... ./loader/sink/... ./cmd/sawlog/api/...
CC_FOUND := $(shell command -v gcc || command -v cc || command -v clang)

FUZZTIME ?= 20s
RUNS ?= 5
FIRST ?= 1
ROUNDS ?= 30
LOAD ?= 30m
CUTS ?= 20
SEEDS ?= 50
SOAK ?= 400
SOAK_HDFS ?= 100
FIRST_SEED ?= 0
MODEL ?= 2000
LIVES ?= 2000
READER_SEEDS ?= 8

# No cgo anywhere but for the race detector; builds and tests share one cache.
export CGO_ENABLED = 0

.PHONY: build run test race check fmt vet lint crash fuzz compat hdfs yarn soak long chaos failover mutants readers bench bench-peers bench-loader bench-isolation picture deb clean console examples FORCE

# What each test that failed said, or the last hundred lines of it: it says so
# before its end, and others between.
FAILED = awk '/^=== (RUN|CONT|NAME|PAUSE) /{test = $$3; next} /^(ok|FAIL|\?)[ \t]/{split("", said); split("", n); next} \
	/^ *--- FAIL: /{print; for (i = n[$$3] > 100 ? n[$$3]-99 : 1; i <= n[$$3]; i++) print said[$$3, i]; next} \
	{said[test, ++n[test]] = $$0}'

# tested runs the tests of packages, says what failed and what was skipped. Tests that
# may run beside each other mostly wait; nobody debugs what is linked for them (-w).
define tested
@go test -ldflags=-w -count=1 -timeout 40m -parallel 4 -v $(1) > bin/$@.log 2>&1; status=$$?; \
	if [ $$status != 0 ]; then $(FAILED) bin/$@.log | head -800; \
	  grep -E -A40 '^panic|^# |\[build failed\]|DATA RACE' bin/$@.log | head -200; fi; \
	if grep -q -- '--- SKIP' bin/$@.log; then \
	  echo; echo "SKIPPED on this machine:"; grep -B1 -E -- '--- SKIP' bin/$@.log | grep -vE '^--$$|^=== '; echo; \
	  if [ "$$SAWLOG_TEST_REQUIRE" = all ]; then echo "SAWLOG_TEST_REQUIRE=all: a skip is a failure"; status=1; fi; fi; \
	grep -E '$(2)^(ok|FAIL|---? FAIL|\?)' bin/$@.log; exit $$status
endef

build: bin/sawlog

bin/sawlog: FORCE
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/sawlog

run: bin/sawlog
	@exec bin/sawlog demo

# Tests run the program that was built before them.
test compat hdfs yarn examples soak long chaos failover: export SAWLOG_BINARY ?= $(CURDIR)/bin/sawlog

# All tests but for make yarn, and what is RACED under the race detector. What this
# machine lacks is skipped, and named before the results; under
# SAWLOG_TEST_REQUIRE=all a skip is a failure.
test: bin/sawlog $(if $(RACED),race)
	$(call tested,-skip TestProofYARN $(call OURS,./...))

race:
ifeq ($(CC_FOUND),)
	@echo "SKIPPED on this machine: the race detector (no C compiler)"
	@[ "$$SAWLOG_TEST_REQUIRE" != all ]
else
	CGO_ENABLED=1 go test -ldflags=-w -count=1 -timeout 20m -race -short $(call OURS,$(RACED))
endif

check: fmt vet lint

fmt: bin/gofumpt
	@out=$$(bin/gofumpt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted:"; echo "$$out"; exit 1; }
	go fix -diff ./...

vet:
	go vet ./...

lint: bin/staticcheck bin/errcheck bin/deadcode
	bin/staticcheck ./...
	bin/errcheck -ignoretests ./...
	@out=$$(bin/deadcode -test ./...); [ -z "$$out" ] || { echo "dead code:"; echo "$$out"; exit 1; }
	go test -count=1 ./cmd
	go test -count=1 -run TestMutantsFit ./broker/model/mutants

# Every claim of durability: crash-clones at each step, kill -9, torn tails.
# SAWLOG_CRASH_RUNS=800 kills and damages more often (make long). What a crash leaves on HDFS
# is in make hdfs.
crash:
	go test -count=1 -timeout 20m -run 'Crash|Kill|Torn|Recover' -skip HDFS $(call OURS,./broker/... ./offsets/... ./loader/... ./jobs/...)

# Fuzzing ends with "context deadline exceeded" when its time is up while an input
# is being tried; that is no finding. A finding is written to testdata and named.
fuzz:
	@dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; cache=$$(go env GOCACHE)/fuzz/sawlog; \
	packages=$$(grep -rl --include='*_test.go' --exclude-dir=bin '^func Fuzz' . | xargs -r -n 1 dirname | sort -u); \
	[ -n "$$packages" ] || { echo "found nothing to fuzz"; exit 1; }; \
	for pkg in $$packages; do \
	  go test -c -fuzz . -o $$dir/test ./$$pkg || exit 1; \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$pkg/*_test.go | awk '{print $$2}'); do \
	    echo "fuzz $$pkg $$target"; \
	    if (cd $$pkg && $$dir/test -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) -test.fuzzcachedir $$cache/$$pkg) >$$dir/out 2>&1; then tail -n 1 $$dir/out; \
	    elif grep -q 'context deadline exceeded' $$dir/out && ! grep -qE 'Failing input|panic' $$dir/out; then \
	      echo "no finding; time was up in the middle of an input"; \
	    else cat $$dir/out; exit 1; fi; \
	  done; done

# The clients, tools and the broker of others against a server of ours: Java,
# Go, librdkafka, Node.js and Python, each at the versions its manifest pins.
# SAWLOG_COMPAT_RECORDS=500000 is the long way; SKIP names tests to leave out.
compat: bin/sawlog
	$(call tested,-p 2 $(if $(SKIP),-skip '$(SKIP)') ./broker/compat/...,_test.go:[0-9]+: .*(passed|compared|steps as expected|excluded)|)

# What DuckDB, pyarrow and parquet-java read of our files, of random schemas too.
# READER_SEEDS=50 is the long way.
readers:
	$(call tested,-p 1 ./formats/readers -args -seeds $(READER_SEEDS))

# HDFS itself, in one JVM, and what may happen to it: the sink, the crash table,
# loads from end to end.
hdfs: export SAWLOG_CRASH_RUNS = 100
hdfs: bin/sawlog
	$(call tested,-p 1 ./loader/sink/hdfs/...)
	$(call tested,-p 1 -run HDFS ./loader ./cmd/sawlog)

# Loads by tasks on a YARN cluster of two nodes in one JVM, with containers of
# their own, and what may happen to it.
yarn: bin/sawlog
	$(call tested,-p 1 -run TestProofYARN ./cmd/sawlog)

# Each example of each verb's help, carried out on a cluster of four nodes.
examples: bin/sawlog
	go test -count=1 -timeout 30m -v -run TestEveryExampleWorks ./cmd/sawlog

# What takes long to show: processes killed anywhere, again and again. SOAK says
# how many runs of each kind, SOAK_HDFS how many with HDFS in it.
soak: bin/sawlog
	SAWLOG_SOAK_RUNS=$(SOAK) go test -count=1 -timeout 24h -v -p 1 -run Soak -skip HDFS ./loader/... ./cmd/sawlog
	SAWLOG_SOAK_RUNS=$(SOAK_HDFS) go test -count=1 -timeout 24h -v -p 1 -run 'Soak.*HDFS' ./loader ./cmd/sawlog

# Long forms of tests that make test has short: MODEL seeds of the ledger's model
# from FIRST_SEED on, LIVES of a schedule, each week with a change of the clocks, pages
# over 300 runs a data set and 90 days, 10,000,000 records in one task and in one run, 20 GiB in
# 20,000 segments, histories of crashes and compactions, traces of the replication
# model, a GiB of hostile bytes, deaths by the hundred.
long: bin/sawlog
	SAWLOG_TEST_FIRST_SEED=$(FIRST_SEED) SAWLOG_TEST_SEEDS=$(MODEL) go test -count=1 -timeout 24h -run 'TestModel$$' ./loader
	SAWLOG_SOAK_RUNS=$(SOAK) SAWLOG_LIVES=$(LIVES) go test -count=1 -timeout 4h -v -run 'TestAnnouncedIsDone|TestTicksAnyhow' ./jobs
	SAWLOG_TEST_RUNS=300 SAWLOG_LONG_HISTORY=1 go test -count=1 -timeout 2h -v -run 'TestPagesAreFast|TestOutputsAreCheap' ./cmd/sawlog/console
	SAWLOG_MEMORY_RECORDS=10000000 go test -count=1 -timeout 2h -v -run 'MemoryIsFlat$$' ./loader/engine/local ./cmd/sawlog
	SAWLOG_SCALE=1 go test -count=1 -timeout 2h -v -run TestScale ./broker/log
	go test -count=1 -timeout 4h -v -run 'Crash|Clean|Compact' ./broker/log -seeds 5000 -cleanseeds 2000
	go test -count=1 -timeout 4h -v ./broker/model -traces 1000000
	SAWLOG_HOSTILE_MIB=1024 go test -count=1 -timeout 1h -v -run TestProofHostileBytes ./cmd/sawlog
	$(MAKE) crash SAWLOG_CRASH_RUNS=800

# Clusters of real processes under kill, stop, cut-off networks and sick disks
# while clients work; results add up in broker/chaos/results.jsonl, or in OUT.
# Network namespaces and loop devices need root; without them a run does without
# the faults they bring, and says so. What the runs check is checked first.
chaos: bin/sawlog
	go test -count=1 -timeout 10m -skip '$(CHAOS_RUNS)' ./broker/chaos
	go test -count=1 -timeout 24h -v -run 'TestChaos$$' ./broker/chaos -runs $(RUNS) -first $(FIRST) $(if $(OUT),-out $(OUT))

# Tests of broker/chaos that start clusters.
CHAOS_RUNS := TestChaos$$|TestFailover|TestPowerLoss|TestNoFalseFence

# How long 10,000 partitions take to find new leaders, and groups with a million
# offsets another coordinator, that half an hour of full load moves none, and what
# power cuts take. A limit that is missed is a failure.
failover: bin/sawlog
	go test -count=1 -timeout 4h -v -run TestFailover ./broker/chaos -rounds $(ROUNDS)
	go test -count=1 -timeout 1h -v -run TestNoFalseFence ./broker/chaos -for $(LOAD)
	go test -count=1 -timeout 4h -v -run TestPowerLoss ./broker/chaos -cuts $(CUTS)

# Faults put into the replication rules on purpose: the model must find each.
mutants:
	go test -count=1 -timeout 2h -v -run TestMutants$$ ./broker/model/mutants -seeds $(SEEDS)

# Paired runs against Apache Kafka on this machine, one broker and three; takes
# about 40 minutes.
bench-peers: bin/sawlog
	go test -count=1 -timeout 3h -v -run TestPeers ./broker/compat/bench -rounds 6 -seconds 1200ms -out $(CURDIR)/bin/bench-peers.json
	go test -count=1 -timeout 3h -v -run TestClusterPeers ./broker/compat/bench -rounds 6 -warm 8s -parts cpu,latency -out $(CURDIR)/bin/bench-cluster-peers.json

# Loads of a million lines beside DuckDB's, in turn; takes about ten minutes. -against
# spark puts Spark beside them.
bench-loader: bin/sawlog
	go test -count=1 -timeout 1h -v -run 'TestLoader$$' ./broker/compat/bench -rounds 6 -against duckdb,duckdb-zst -sawlog $(CURDIR)/bin/sawlog -out $(CURDIR)/bin/bench-loader.json

# What loads of old log add to the time until a record is at who follows the end
# of a log, with their limit and without; needs root, for a memory cgroup, and
# takes about 9 minutes.
bench-isolation: bin/sawlog
	go test -count=1 -timeout 1h -v -run 'TestIsolation$$|TestClassCost$$' ./broker/compat/bench -rounds 6 -seconds 10s -sawlog $(CURDIR)/bin/sawlog

# What a person does in the console, done by a headless Chromium, and every page
# judged in light, dark, wide and narrow; pictures of all are in bin/screenshots.
console: bin/sawlog
	SAWLOG_TEST_LOOKS=all go test -count=1 -timeout 20m -v -run TestProofConsole ./cmd/sawlog

# The README's picture, of a real console; needs Chromium.
picture: bin/sawlog
	packaging/picture.sh bin/sawlog docs/hours.png

# The Debian package, the same bytes for the same commit: DEB_ARCH=arm64 for
# another machine.
DEB_ARCH ?= amd64
deb: bin/sawlog
	GOARCH=$(DEB_ARCH) go build -trimpath -ldflags '$(LDFLAGS)' -o bin/release/$(DEB_ARCH)/sawlog ./cmd/sawlog
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) go run ./packaging/deb -binary bin/release/$(DEB_ARCH)/sawlog -host bin/sawlog -version $(VERSION) -arch $(DEB_ARCH)

bench:
	go test -run '^$$' -bench . -benchmem -count=5 ./...

bin/%: Makefile
	@mkdir -p bin
	GOBIN=$(CURDIR)/bin go install $(TOOL_$*)
	@touch $@

clean:
	rm -rf bin
