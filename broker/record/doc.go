// Package record reads and writes Kafka's record batch, version 2, as bytes.
//
// A batch is what clients send, segments hold and fetches return, so nothing
// here copies one without need: Batch is a view on bytes, Validate walks the
// records in place, Iterator reuses its buffers.
//
//	 0 base offset i64 ───────────┐ not under the CRC: the broker stamps
//	 8 length i32 (of what follows, total − 12)
//	12 leader epoch i32 ──────────┘ offset and epoch in place
//	16 magic i8 = 2
//	17 crc u32                      CRC-32C of byte 21 to the end
//	21 attributes i16               0–2 codec (0 none 1 gzip 2 snappy 3 lz4 4 zstd)
//	                                3 log append time  4 transactional
//	                                5 control  6 delete horizon
//	23 last offset delta i32
//	27 base timestamp i64           ms; with bit 6 the delete horizon
//	35 max timestamp i64            ms; with bit 3 the time of every record
//	43 producer id i64              −1 = none
//	51 producer epoch i16
//	53 base sequence i32            −1 = none
//	57 count i32
//	61 records, from here on compressed as one stream
//
// A record, every number a zigzag varint:
//
//	length │ attributes i8 = 0 │ timestamp delta │ offset delta │
//	key length (−1 = null) key │ value length (−1 = null) value │
//	header count { key length key, value length (−1 = null) value }…
//
// The key of a control record is {version i16, type i16: 0 abort, 1 commit},
// its value {version i16, coordinator epoch i32}. All integers that are not
// varints are big-endian.
//
// Compressed streams: gzip is RFC 1952, several members allowed. Snappy is
// written in the frames of xerial's Java library and read as those or as one
// raw block. LZ4 is the frame format with independent blocks. Zstd is any
// number of frames. What decompresses to more than the cap is refused before
// the memory is spent.
package record
