package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"compat/line"
)

// base is the time of the first record, so that answers are the same every day
// and none is past retention.
var base = time.Now().Add(-2 * time.Hour).Truncate(time.Second)

func (s suite) producers() error {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		if err := s.sync(codec); err != nil {
			return fmt.Errorf("%s: %w", codec, err)
		}
	}
	if err := s.async(); err != nil {
		return err
	}
	return s.tooLarge()
}

// sync sends 100 records to one topic per codec, by an idempotent producer
// for every second one.
func (s suite) sync(codec string) error {
	c := settings(s.version)
	c.Producer.Compression = codecs[codec]
	if codec != "none" && codec != "snappy" {
		c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
	}
	topic := s.prefix + codec
	p, err := sarama.NewSyncProducer(s.addrs, c)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	var last int64
	for i := range 20 {
		if _, last, err = p.SendMessage(message(topic, numbered(i))); err != nil {
			return err
		}
	}
	var all []*sarama.ProducerMessage
	for i := range 80 {
		all = append(all, message(topic, numbered(20+i)))
	}
	if err := p.SendMessages(all); err != nil {
		return err
	}
	consumer, err := sarama.NewConsumer(s.addrs, settings(s.version))
	if err != nil {
		return err
	}
	defer func() { _ = consumer.Close() }()
	got, err := read(consumer, topic, sarama.OffsetOldest, 100)
	if err != nil {
		return err
	}
	line.Step("sync "+codec, []any{last, all[79].Offset, inOrder(got)})
	return nil
}

// numbered is a record of a number: a second apart, its header says it too.
func numbered(i int) line.Record {
	n := []byte(strconv.Itoa(i))
	return line.Record{
		Key: n, Value: append([]byte("value "), n...), Time: base.Add(time.Duration(i) * time.Second).UnixMilli(),
		Headers: []line.Header{{Name: "n", Value: n}},
	}
}

// inOrder counts records up to the first that is not the numbered one.
func inOrder(got []line.Record) int {
	for i, r := range got {
		want := numbered(i)
		if string(r.Key) != string(want.Key) || string(r.Value) != string(want.Value) || r.Time != want.Time ||
			len(r.Headers) != 1 || string(r.Headers[0].Value) != string(want.Key) {
			return i
		}
	}
	return len(got)
}

// async sends 10,000 records from an idempotent asynchronous producer.
func (s suite) async() error {
	const count = 10000
	c := settings(s.version)
	c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
	c.Producer.Compression = sarama.CompressionLZ4
	c.Producer.Flush.Frequency = 5 * time.Millisecond
	p, err := sarama.NewAsyncProducer(s.addrs, c)
	if err != nil {
		return err
	}
	topic := s.prefix + "async"
	go func() {
		for i := range count {
			p.Input() <- message(topic, numbered(i))
		}
		p.AsyncClose()
	}()
	acked, next := 0, int64(0)
	for m := range p.Successes() {
		if m.Offset != next {
			return fmt.Errorf("record %d got offset %d", next, m.Offset)
		}
		acked, next = acked+1, next+1
	}
	for err := range p.Errors() {
		return err
	}
	consumer, err := sarama.NewConsumer(s.addrs, settings(s.version))
	if err != nil {
		return err
	}
	defer func() { _ = consumer.Close() }()
	got, err := read(consumer, topic, sarama.OffsetOldest, count)
	if err != nil {
		return err
	}
	line.Step("async idempotent", []any{acked, inOrder(got)})
	return nil
}

// tooLarge sends what the topic does not take.
func (s suite) tooLarge() error {
	err := s.admin(func(a sarama.ClusterAdmin) error {
		return a.CreateTopic(s.prefix+"small", &sarama.TopicDetail{
			NumPartitions: 1, ReplicationFactor: 1,
			ConfigEntries: map[string]*string{"max.message.bytes": text("2000")},
		}, false)
	})
	if err != nil {
		return err
	}
	p, err := sarama.NewSyncProducer(s.addrs, settings(s.version))
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	_, _, err = p.SendMessage(message(s.prefix+"small", line.Record{Value: make([]byte, 3000)}))
	line.Step("too large", kind(err))
	return nil
}
