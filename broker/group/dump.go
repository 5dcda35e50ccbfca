package group

import (
	"encoding/binary"
	"fmt"
	"log/slog"

	"sawlog/broker/record"
)

// DumpRecord says what a record of __consumer_offsets is: names and values.
func DumpRecord(r *record.Record) ([]slog.Attr, error) {
	c, ok, err := decodeRecord(r)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("key of kind %d: %w", int16(binary.BigEndian.Uint16(r.Key)), errRecord)
	}
	line := []slog.Attr{slog.String("group", c.Group)}
	if c.Topic != "" {
		line = append(line, slog.String("topic", c.Topic), slog.Int64("partition", int64(c.Partition)))
	}
	switch {
	case r.Value == nil:
		return append(line, slog.Bool("tombstone", true)), nil
	case c.Commit != nil:
		return append(line, slog.Int64("committed", int64(c.Commit.Offset)), slog.Int64("leaderEpoch", int64(c.Commit.LeaderEpoch)),
			slog.String("metadata", c.Commit.Metadata), slog.Int64("time", c.Commit.Time), slog.Int64("expires", c.Commit.Expires),
			slog.String("topicId", c.Commit.TopicID.String())), nil
	}
	s, err := decodeSnapshot(c.Meta)
	if err != nil {
		return nil, err
	}
	return append(line, slog.String("protocolType", s.ProtocolType), slog.Int64("generation", int64(s.Generation)),
		slog.String("protocol", s.Protocol), slog.String("leader", s.Leader), slog.Int64("since", s.Since), slog.Any("members", s.Members)), nil
}
