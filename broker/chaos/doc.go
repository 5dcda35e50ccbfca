// Package chaos runs clusters of real `sawlog serve` processes, does them harm
// while clients work, and checks afterwards that nothing acknowledged was lost,
// doubled or reordered. All of it is test code; see its flags:
//
//	go test ./broker/chaos -skip 'TestChaos$|TestFailover|TestPowerLoss|TestNoFalseFence' # what runs check, on doctored histories
//	go test ./broker/chaos -run 'TestChaos$' -runs 5 -v -timeout 1h     # runs, their results added to results.jsonl
//	go test ./broker/chaos -run TestSummary -v                       # what all runs so far have shown
//	go test ./broker/chaos -run TestFailover -rounds 30 -v -timeout 2h # of partitions, and of a coordinator with a million offsets
//	go test ./broker/chaos -run TestPowerLoss -cuts 100 -v -timeout 3h
//
// A run of a seed is 40 s of faults and 20 s of healing. Which faults, on whom
// and when follows from the seed; what the processes make of them does not. A
// run that fails keeps its directories, logs and history under bin/chaos/failed/SEED.
//
// A run that fails is a fault to be found: of the first 316 eleven failed and are
// not in results.jsonl. In five a node whose disk was replaced founded a cluster of
// its own (the product ends with an error now); two took probes without an answer
// that arrived late for reordering; in one a clock five hours behind refused
// timestamps as it must; in one SIGTERM came before the process had begun; in one
// kcat ended after a failed fetch of offsets (librdkafka #5586, not made to happen
// again). In 13007 a node's Raft log, cut within a batch, went on with entries
// under other numbers, and the node refused to start: each entry is a batch of its
// own now.
//
// Each node lives in a network namespace of its own behind a router namespace,
// where a rule of policy routing drops what one node sends to another, one way
// or both. A node's data lies on an ext4 of its own over a loop file, which can
// be filled up, frozen, and copied as it would be after a power cut. Its wall
// clock can be set off. Where the machine allows no namespaces, no loop devices
// or no clocks a run does without these faults and says so.
package chaos
