// Package log keeps one data directory: the logs of all replicas in it, their
// recovery, retention and checkpoint, within an open-file budget and without a
// goroutine or timer per log.
//
//	Disk       the directory: lock, recovery at start, epochs, checkpoint, retention
//	Log        one replica's log: append, read, truncate, delete, look up
//	segment    one file of batches with two sparse indexes
//	cleaner    compaction: one goroutine for all logs, see clean.go
//	producers  what makes a retry a duplicate (pure)
//	epochs     which leader wrote from where on (pure)
//
// What an acknowledgement means: bytes are in the page cache when Append
// returns, and on the disk when the topic says flush.messages=1 or flush.ms=0;
// otherwise within flush.ms (a sync may take half of it), or after a minute. An
// I/O error or a failed sync ends all writing (Disk.Failed) and is never
// retried. A full disk, met when space is reserved, answers ErrNoSpace, and reads
// go on.
//
// Compaction keeps of a log with cleanup.policy=compact the youngest record of
// each key, at its offset: offsets are ascending but have holes, a batch may
// have no records, and a read inside a hole answers with what follows it.
//
// Segments are rolled by the broker's clock, not by record timestamps, so that a
// replay of old data does not end in thousands of segments; retention goes by
// record timestamps.
//
// # Files of the directory
//
// All integers are big-endian, all CRCs are CRC-32C.
//
//	meta.properties   text, lines key=value: format=2 cluster.id node.id directory.id, where they
//	                  are so joined=true entered=true, crc=<8 hex digits, of all lines above>
//	lock              locked while a process runs; its process id in text
//	ballast           reserved disk space without content, let go when the disk is full
//	running           text: state=running|stopped|failed boot.id broker.epoch
//	recovery-points   text, see below
//	epochs            journal, see below
//	cleaned           text, see below
//	<topic>-<partition>/                 a log
//	<topic>-<partition>.<ms>-stray/      put aside at that time, deleted after StrayDelay
//	<topic>-<partition>.<ms>-delete/     being deleted
//
// running is how the next start knows what to trust: stopped is a clean stop;
// running with the boot id of this kernel is a killed process whose page cache
// lived on; anything else may have lost what was not synced.
//
// recovery-points: below "recovery" everything of a log is synced. "idle" tells
// that no producer is remembered there. Written with vfs.Replace; one that
// cannot be read makes recovery read every log whole.
//
//	recovery-points 1
//	journal <generation> <size>     of epochs, from before the points were taken
//	<topic id> <partition> <start> <recovery> producers|idle      a line per log
//	crc <8 hex digits, of all lines above>
//
// cleaned: below "dirty" a log is compacted. Written with vfs.Replace, after the
// segments; one that is lost or cannot be read makes compaction begin anew.
//
//	cleaned 1
//	<topic id> <partition> <dirty>      a line per log that was ever compacted
//	crc <8 hex digits, of all lines above>
//
// epochs: one journal for all logs, so that an election of thousands of
// partitions is one write and one sync. Written anew when mostly dead.
//
//	┌──────────────────────────┬────────────┬────────────────┐
//	│ "SAWEPOCH"               │ version u32│ generation u32 │ version 1; then records of 40 bytes:
//	├─────────┬────────┬───────┼────────────┼────────────────┴───────────┬────────────┐
//	│ crc u32 │ kind u8│ 0 u24 │ topic id 16│ partition i32 │ epoch i32  │ offset i64 │
//	└─────────┴────────┴───────┴────────────┴────────────────────────────┴────────────┘
//	crc of all that follows it in the record
//	kind 1  epoch begins at offset
//	kind 2  the log was cut to end at offset; a recovery point in a checkpoint
//	        taken before that record is no longer true
//	kind 3  the log starts at offset
//
// # Files of a log
//
// The layouts are Kafka's own, so that its dump tool reads them too. The name
// of a file is the 20-digit base offset of its segment.
//
//	partition.metadata   text: "version: 0", "topic_id: <id>", "crc: <8 hex digits, of both lines>"
//	N.log                batches, as package record draws them, one after the other
//	N.index              8 bytes an entry:  relative last offset of a batch i32 │ its position i32
//	N.timeindex         12 bytes an entry:  greatest timestamp so far i64 │ relative offset i32
//	N.snapshot           producers as of offset N, see below
//	N.log.P.cut          what recovery cut off at byte P; nothing reads it
//	N.*.cleaned          a segment that compaction is making
//	N.log.M.swap         one that is whole and takes the place of those in [N, M)
//
// A batch that compaction has written anew keeps base offset, last offset delta,
// producer fields, codec and flags. With bit 6 of the attributes its base
// timestamp is the time from which its tombstones, or the marker it is, may go.
// A header without records (count 0, 61 bytes) is what stays of a producer's
// last batch, and of the last batch of a segment. cleanswap.go draws how
// segments take the place of others.
//
// An index entry points at the first batch after IndexInterval bytes; a time
// index entry says that up to and including that offset no timestamp is
// greater, and the last one of a closed segment that this is its greatest.
//
// Snapshot:
//
//	┌─────────────┬─────────┬───────────┐
//	│ version i16 │ crc u32 │ count i32 │ = 1; crc from count on; then entries of 46 bytes:
//	├─────────────┴──┬──────┴────┬──────┴───┬─────────────┬──────────────────┬───────────────┐
//	│ producer id i64│ epoch i16 │ last     │ last offset │ last offset less │ timestamp i64 │
//	│                │           │ seq i32  │ i64         │ base offset i32  │ ms            │
//	├────────────────┴───────────┴─┬────────┴─────────────┴──────────────────┴───────────────┘
//	│ coordinator epoch i32        │ first offset of the open transaction i64, −1 = none │
//	└──────────────────────────────┴─────────────────────────────────────────────────────┘
//	then for each producer id, ascending: broker's time of its last batch i64, ms
//
// Kafka writes one entry a producer, its last batch. Here up to five follow,
// oldest first: whoever keeps the last entry of an id, as Kafka does, ends with
// the same state, and a retry of any of the five is known after a restart.
// Kafka reads no further than the entries; without what follows them a producer
// counts as seen when the snapshot is read. There is one snapshot at the base of
// each segment, and one at the end of a stopped log.
//
// # Recovery
//
// recover.go says how a log is read after an unclean stop.
package log
