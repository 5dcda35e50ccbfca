package offsets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// ErrDamaged tells that a store's file is not whole.
var ErrDamaged = errors.New("damaged")

// DumpStore prints the rows of a store's file, a list of names and values each.
// The file is checked first, and must not be in use.
func DumpStore(path string, fn func(line []slog.Attr) error) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	if _, err := checkFile(path); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, berrors.ErrTimeout) {
		return fmt.Errorf("%s: it is in use: stop the server, or look at a copy of the file", path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = db.Close() }() // only read from
	return db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			if string(name) == string(metaBucket) {
				return b.ForEach(func(k, v []byte) error { return fn([]slog.Attr{slog.Any(string(k), v)}) })
			}
			partition := int32(binary.BigEndian.Uint32(name)) // checked
			return b.ForEach(func(k, v []byte) error {
				line, err := dumpRow(partition, k, v)
				if err != nil {
					return fmt.Errorf("%s: partition %d: %w", path, partition, err)
				}
				return fn(line)
			})
		})
	})
}

func dumpRow(partition int32, k, v []byte) ([]slog.Attr, error) {
	if err := checkRow(k, v); err != nil {
		return nil, err
	}
	line := []slog.Attr{slog.Int64("partition", int64(partition))}
	switch k[0] {
	case rowApplied:
		p, err := decodePosition(v)
		return append(line, slog.Int64("applied", int64(p.Offset)), slog.Int64("epoch", int64(p.Epoch))), err
	case rowGroup:
		group, _, _ := cutText(k[1:])
		return append(line, slog.String("group", group), slog.Int("metadataBytes", len(v))), nil
	}
	group, tp, _ := parseOffsetKey(k)
	c, err := decodeCommitted(v)
	return append(line, slog.String("group", group), slog.String("topic", tp.Topic), slog.Int64("topicPartition", int64(tp.Partition)),
		slog.Int64("committed", int64(c.Offset)), slog.Int64("leaderEpoch", int64(c.LeaderEpoch)), slog.String("metadata", c.Metadata),
		slog.Int64("time", c.Time), slog.Int64("expires", c.Expires)), err
}
