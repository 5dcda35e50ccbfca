package main

import (
	"time"

	"github.com/IBM/sarama"

	"compat/line"
)

// consumer looks for offsets by time, reads from the middle and deletes records.
func (s suite) consumer() error {
	topic := s.prefix + "time"
	var records []line.Record
	for i := range 60 {
		records = append(records, numbered(i))
	}
	c := settings(s.version)
	c.Producer.Compression = sarama.CompressionGZIP
	c.Producer.Flush.Messages, c.Producer.Flush.Frequency = 20, time.Second
	for i := 0; i < 60; i += 20 {
		if err := write(s.addrs, c, topic, records[i:i+20]); err != nil {
			return err
		}
	}
	cl, err := sarama.NewClient(s.addrs, settings(s.version))
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }()
	found := map[string]int64{}
	for name, at := range map[string]int64{
		"oldest": sarama.OffsetOldest, "newest": sarama.OffsetNewest,
		"before": base.Add(-time.Hour).UnixMilli(), "exact": base.Add(33 * time.Second).UnixMilli(),
		"between": base.Add(33*time.Second + time.Millisecond).UnixMilli(), "last": base.Add(59 * time.Second).UnixMilli(),
		"after": base.Add(time.Hour).UnixMilli(),
	} {
		if found[name], err = cl.GetOffset(topic, 0, at); err != nil {
			return err
		}
	}
	line.Step("offsets by time", found)
	consumer, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		return err
	}
	got, err := read(consumer, topic, found["exact"], 3)
	if err != nil {
		return err
	}
	line.Step("read from the middle", []string{string(got[0].Key), string(got[1].Key), string(got[2].Key)})
	err = s.admin(func(a sarama.ClusterAdmin) error {
		line.Step("records deleted", kind(a.DeleteRecords(topic, map[int32]int64{0: 30})))
		line.Step("records deleted past the end", kind(a.DeleteRecords(topic, map[int32]int64{0: 61})))
		at, err := a.ListOffsets(map[string]map[int32]int64{topic: {0: sarama.OffsetOldest}}, nil)
		if err != nil {
			return err
		}
		line.Step("oldest after it", at[topic][0].Offset)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = consumer.ConsumePartition(topic, 0, 10)
	line.Step("read what is deleted", kind(err))
	got, err = read(consumer, topic, sarama.OffsetOldest, 1)
	if err != nil {
		return err
	}
	line.Step("first record after it", string(got[0].Key))
	return consumer.Close()
}
