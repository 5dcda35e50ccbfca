package log

import (
	"encoding/binary"
	"fmt"
	"log/slog"
)

// txnEntry is the length of an entry of a .txnindex, Kafka's list of the aborted
// transactions whose marker is in a segment: version i16 = 0, producer id i64,
// first offset i64, last offset i64 (the marker's), last stable offset i64.
const (
	txnEntry   = 2 + 4*8
	txnSuffix  = ".txnindex"
	txnVersion = 0
)

func dumpTxnIndex(name string, b []byte, fn func([]slog.Attr) error) error {
	be := binary.BigEndian
	for i := 0; i+txnEntry <= len(b); i += txnEntry {
		e := b[i : i+txnEntry]
		if v := be.Uint16(e); v != txnVersion {
			return &CorruptError{Path: name, Pos: int64(i), Err: fmt.Errorf("entry of version %d", v)}
		}
		err := fn([]slog.Attr{
			slog.Int64("producerId", int64(be.Uint64(e[2:]))), slog.Int64("firstOffset", int64(be.Uint64(e[10:]))),
			slog.Int64("lastOffset", int64(be.Uint64(e[18:]))), slog.Int64("lastStableOffset", int64(be.Uint64(e[26:]))),
		})
		if err != nil {
			return err
		}
	}
	if rest := len(b) % txnEntry; rest != 0 {
		return &CorruptError{Path: name, Pos: int64(len(b) - rest), Err: fmt.Errorf("%d bytes after the last entry", rest)}
	}
	return nil
}
