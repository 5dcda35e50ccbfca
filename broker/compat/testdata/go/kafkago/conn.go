package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"

	"compat/line"
)

// conn uses the oldest face of kafka-go, whose versions are fixed in its code.
func (s suite) conn() error {
	plain, err := kafka.DialContext(s.ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	controller, err := plain.Controller()
	if err != nil {
		return err
	}
	brokers, err := plain.Brokers()
	if err != nil {
		return err
	}
	line.Step("conn: brokers", []any{len(brokers), s.same(controller), s.same(brokers[0])})
	config := kafka.TopicConfig{Topic: "kafkago-conn", NumPartitions: 2, ReplicationFactor: 1}
	line.Step("conn: topic created", kind(plain.CreateTopics(config)))
	line.Step("conn: topic created again", kind(plain.CreateTopics(config)))
	line.Step("conn: topic of two replicas", kind(plain.CreateTopics(kafka.TopicConfig{Topic: "kafkago-conn2", NumPartitions: 1, ReplicationFactor: 2})))
	var parts []kafka.Partition
	err = settle(func() (bool, error) {
		parts, err = plain.ReadPartitions("kafkago-conn")
		return len(parts) == 2, nil
	})
	if err != nil {
		return err
	}
	var got []any
	for _, p := range parts {
		got = append(got, []any{p.ID, s.same(p.Leader), len(p.Replicas), len(p.Isr), kind(p.Error)})
	}
	line.Step("conn: partitions", got)
	if err := s.connRecords(); err != nil {
		return err
	}
	line.Step("conn: topic deleted", kind(plain.DeleteTopics("kafkago-conn")))
	line.Step("conn: topic deleted again", kind(plain.DeleteTopics("kafkago-conn")))
	return nil
}

// connRecords writes with every codec over one connection, and reads back.
func (s suite) connRecords() error {
	c, err := s.dial("kafkago-conn")
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	next := 0
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		var all []kafka.Message
		for _, r := range numberedFrom(next, 10) {
			all = append(all, message(r))
		}
		var codec kafka.CompressionCodec
		if name != "none" {
			codec = codecs[name].Codec()
		}
		_, partition, offset, _, err := c.WriteCompressedMessagesAt(codec, all...)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		line.Step("conn: wrote "+name, []any{partition, offset})
		next += 10
	}
	first, last, err := c.ReadOffsets()
	if err != nil {
		return err
	}
	line.Step("conn: offsets", []int64{first, last})
	for name, at := range map[string]time.Time{"exact": base.Add(23 * time.Second)} {
		offset, err := c.ReadOffset(at)
		line.Step("conn: offset by time, "+name, []any{offset, kind(err)})
	}
	if _, err := c.Seek(0, kafka.SeekStart); err != nil {
		return err
	}
	batch := c.ReadBatch(1, 10<<20)
	var read []line.Record
	for {
		m, err := batch.ReadMessage()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return err
			}
			break
		}
		read = append(read, record(m))
	}
	if err := batch.Close(); err != nil {
		return err
	}
	line.Step("conn: read", []any{len(read), inOrder(read)})
	_, err = c.Seek(100, kafka.SeekAbsolute)
	line.Step("conn: seek past the end", kind(err))
	return nil
}
