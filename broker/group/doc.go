// Package group is the group coordinator: classic consumer groups and their
// committed offsets.
//
// What a group decides is in state*.go, which is pure: events in, effects out.
// Around it stands the shell: one shard for each partition of __consumer_offsets,
// with a lock, timers, parked requests, and a queue of records to write. A shard
// answers only while this broker leads its partition and has applied all of it.
//
//	request → shard (lock) → Group → effects ─┬─ answer, or park
//	                                          ├─ timer
//	                                          └─ record → queue → Append (acks=all)
//	                                                        → applied → answer
//
// One applier goroutine reads what is committed of every hosted partition, led
// or not, into offsets.Store, so that a new leader has the state already. An
// append is answered when it is committed and applied: a commit that was
// acknowledged is seen by every later fetch.
//
// # Records of __consumer_offsets
//
// Kafka's schemas, so that its tools read them. All integers are big-endian,
// strings have an i16 length, -1 for null; the flexible value 4 has Kafka's
// compact strings and tagged fields.
//
//	key    ┌────────────┬───────┬───────┬───────────────┐
//	       │ i16 ver 1  │ group │ topic │ i32 partition │          a committed offset
//	       └────────────┴───────┴───────┴───────────────┘          (0 is read as well)
//	value  ┌────────────┬────────────┬──────────────────┬──────────┬──────────┬───────────────┐
//	       │ i16 ver 4  │ i64 offset │ i32 leader epoch │ metadata │ i64 time │ tag 0: topic  │
//	       └────────────┴────────────┴──────────────────┴──────────┴──────────┴───────────────┘
//	         3 without a topic id; 1, with i64 expiry instead of an epoch, when
//	         an old client sets a retention time; 0 and 2 are read.
//
//	key    ┌────────────┬───────┐
//	       │ i16 ver 2  │ group │                                  a group
//	       └────────────┴───────┘
//	value  ┌───────────┬───────────────┬────────────────┬──────────┬────────┬───────────┬─────────┐
//	       │ i16 ver 3 │ protocol type │ i32 generation │ protocol │ leader │ i64 since │ members │
//	       └───────────┴───────────────┴────────────────┴──────────┴────────┴───────────┴─────────┘
//	member ┌────┬──────────┬───────────┬─────────────┬───────────────┬─────────────┬──────────────┬────────────┐
//	       │ id │ instance │ client id │ client host │ i32 rebalance │ i32 session │ subscription │ assignment │
//	       └────┴──────────┴───────────┴─────────────┴───────────────┴─────────────┴──────────────┴────────────┘
//
// A null value deletes. Other key versions belong to group types this
// coordinator does not serve and are passed over.
package group
