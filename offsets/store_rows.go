// # The file of the offsets store
//
// A bbolt file, all integers big-endian. Bucket "sawlog" holds the row
// "format" → {u8 1}. One bucket per partition of __consumer_offsets, its name
// the partition as u32, holds three kinds of rows:
//
//	key    ┌────┐
//	       │ 00 │                                             how far the log was applied
//	       └────┘
//	value  ┌───────────┬────────────┬───────────┐
//	       │ u8 ver 1  │ i64 offset │ i32 epoch │
//	       └───────────┴────────────┴───────────┘
//
//	key    ┌────┬─────────┬───────┐
//	       │ 01 │ u16 len │ group │                           metadata of a group
//	       └────┴─────────┴───────┘
//	value  the value of Kafka's group metadata record, byte for byte
//
//	key    ┌────┬─────────┬───────┬─────────┬───────┬───────────────┐
//	       │ 02 │ u16 len │ group │ u16 len │ topic │ u32 partition │   a committed offset
//	       └────┴─────────┴───────┴─────────┴───────┴───────────────┘
//	value  ┌──────────┬────────────┬──────────────────┬──────────┬─────────────┬──────────────┬───────────────────┐
//	       │ u8 ver 1 │ i64 offset │ i32 leader epoch │ i64 time │ i64 expires │ 16B topic id │ metadata, the rest│
//	       └──────────┴────────────┴──────────────────┴──────────┴─────────────┴──────────────┴───────────────────┘
//
// The lengths make the keys of one group a contiguous run. The row 00 and the
// rows of the records below its offset are written in one synced transaction.
package offsets

import (
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

const (
	rowApplied = 0x00
	rowGroup   = 0x01
	rowOffset  = 0x02

	storeFormat = 1
	rowVersion  = 1

	committedFixed = 1 + 8 + 4 + 8 + 8 + 16
)

var (
	metaBucket = []byte("sawlog")
	formatRow  = []byte("format")
	appliedRow = []byte{rowApplied}

	errRow = errors.New("row makes no sense")
)

// fits tells whether the change's key is one bbolt can hold.
func fits(c Change) bool { return 1+2+len(c.Group)+2+len(c.Topic)+4 <= bolt.MaxKeySize }

func bucketName(partition int32) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(partition))
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func cutText(b []byte) (string, []byte, bool) {
	if len(b) < 2 {
		return "", nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return "", nil, false
	}
	return string(b[2 : 2+n]), b[2+n:], true
}

func groupKey(kind byte, group string) []byte { return appendText([]byte{kind}, group) }

func offsetKey(group string, tp TopicPartition) []byte {
	return binary.BigEndian.AppendUint32(appendText(groupKey(rowOffset, group), tp.Topic), uint32(tp.Partition))
}

func parseOffsetKey(k []byte) (group string, tp TopicPartition, ok bool) {
	group, rest, ok := cutText(k[1:])
	if !ok {
		return "", tp, false
	}
	tp.Topic, rest, ok = cutText(rest)
	if !ok || len(rest) != 4 {
		return "", tp, false
	}
	tp.Partition = int32(binary.BigEndian.Uint32(rest))
	return group, tp, true
}

func encodeCommitted(c *Committed) []byte {
	b := make([]byte, 0, committedFixed+len(c.Metadata))
	b = append(b, rowVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(c.LeaderEpoch))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Time))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Expires))
	b = append(b, c.TopicID[:]...)
	return append(b, c.Metadata...)
}

func decodeCommitted(b []byte) (Committed, error) {
	if len(b) < committedFixed || b[0] != rowVersion {
		return Committed{}, fmt.Errorf("committed offset of %d bytes: %w", len(b), errRow)
	}
	return Committed{
		Offset:      Offset(binary.BigEndian.Uint64(b[1:])),
		LeaderEpoch: Epoch(binary.BigEndian.Uint32(b[9:])),
		Time:        int64(binary.BigEndian.Uint64(b[13:])),
		Expires:     int64(binary.BigEndian.Uint64(b[21:])),
		TopicID:     TopicID(b[29:45]),
		Metadata:    string(b[committedFixed:]),
	}, nil
}

func encodePosition(p Position) []byte {
	b := binary.BigEndian.AppendUint64([]byte{rowVersion}, uint64(p.Offset))
	return binary.BigEndian.AppendUint32(b, uint32(p.Epoch))
}

func decodePosition(b []byte) (Position, error) {
	if len(b) != 13 || b[0] != rowVersion {
		return Position{}, fmt.Errorf("applied position of %d bytes: %w", len(b), errRow)
	}
	return Position{Offset(binary.BigEndian.Uint64(b[1:])), Epoch(binary.BigEndian.Uint32(b[9:]))}, nil
}

// markFormat writes the format into a new file.
func markFormat(tx *bolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists(metaBucket)
	if err != nil || b.Get(formatRow) != nil {
		return err
	}
	return b.Put(formatRow, []byte{storeFormat})
}

// checkRow tells whether a row is one of those drawn above.
func checkRow(k, v []byte) error {
	if len(k) == 0 {
		return errRow
	}
	switch k[0] {
	case rowApplied:
		_, err := decodePosition(v)
		return err
	case rowGroup:
		if _, rest, ok := cutText(k[1:]); !ok || len(rest) > 0 {
			return errRow
		}
		return nil
	case rowOffset:
		if _, _, ok := parseOffsetKey(k); !ok {
			return errRow
		}
		_, err := decodeCommitted(v)
		return err
	default:
		return errRow
	}
}
