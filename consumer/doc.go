// Package consumer answers one question: which committed records stand in
// [start, end) of a partition, of any Kafka cluster? It finds leaders itself,
// fetches without group or session, and accounts for every offset of the range
// it was asked for: data, control, aborted, compacted or gone.
package consumer
