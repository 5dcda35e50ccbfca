// Command sarama runs IBM's sarama against a broker: sarama suite ADDR VERSION,
// where VERSION is default or max.
package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"compat/line"
)

func main() { line.Main(client{}) }

type client struct{}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

// settings are those of all clients here, before a step changes them.
func settings(version sarama.KafkaVersion) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = version
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.MaxWaitTime = 50 * time.Millisecond // closing waits for a fetch under way
	return c
}

func (client) Write(addr, topic, codec string, records []line.Record) error {
	c := settings(sarama.MaxVersion)
	c.Producer.Compression = codecs[codec]
	c.Producer.Flush.Messages, c.Producer.Flush.Frequency = len(records), time.Second
	return write([]string{addr}, c, topic, records)
}

// write sends the records in one call.
func write(addrs []string, c *sarama.Config, topic string, records []line.Record) error {
	p, err := sarama.NewSyncProducer(addrs, c)
	if err != nil {
		return err
	}
	var all []*sarama.ProducerMessage
	for _, r := range records {
		all = append(all, message(topic, r))
	}
	if err := p.SendMessages(all); err != nil {
		_ = p.Close()
		return err
	}
	return p.Close()
}

func message(topic string, r line.Record) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Topic: topic, Timestamp: time.UnixMilli(r.Time)}
	if r.Key != nil {
		m.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		m.Value = sarama.ByteEncoder(r.Value)
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
	}
	return m
}

func (client) Read(addr, topic string, count int) ([]line.Record, error) {
	c, err := sarama.NewConsumer([]string{addr}, settings(sarama.MaxVersion))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return read(c, topic, sarama.OffsetOldest, count)
}

// read takes count records from an offset of partition 0.
func read(c sarama.Consumer, topic string, offset int64, count int) ([]line.Record, error) {
	p, err := c.ConsumePartition(topic, 0, offset)
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Close() }()
	var all []line.Record
	for limit := time.After(20 * time.Second); len(all) < count; {
		select {
		case m := <-p.Messages():
			r := line.Record{Key: m.Key, Value: m.Value, Time: m.Timestamp.UnixMilli()}
			for _, h := range m.Headers {
				r.Headers = append(r.Headers, line.Header{Name: string(h.Key), Value: h.Value})
			}
			all = append(all, r)
		case <-limit:
			return nil, fmt.Errorf("%d of %d records came", len(all), count)
		}
	}
	return all, nil
}

func (client) Suite(addr string, args []string) error {
	s := suite{addrs: []string{addr}, version: sarama.DefaultVersion, prefix: "sarama-" + args[0] + "-"}
	if args[0] == "max" {
		s.version = sarama.MaxVersion
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"topics", s.topics},
		{"configs", s.configs},
		{"producers", s.producers},
		{"consumer", s.consumer},
		{"group", s.group},
		{"cluster", s.cluster},
	} {
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// suite is one run of the scenario.
type suite struct {
	addrs   []string
	version sarama.KafkaVersion
	prefix  string // of topics and groups
}

// admin gives do an admin client.
func (s suite) admin(do func(sarama.ClusterAdmin) error) error {
	a, err := sarama.NewClusterAdmin(s.addrs, settings(s.version))
	if err != nil {
		return err
	}
	if err := do(a); err != nil {
		_ = a.Close()
		return err
	}
	return a.Close()
}

func text(s string) *string { return &s }

// kind is the name of the error code an error carries, null when there is none.
// What a broker says beside the code is its own affair.
func kind(err error) any {
	if err == nil {
		return nil
	}
	best := ""
	for code := sarama.KError(-1); code < 150; code++ {
		if name := code.Error(); code != 0 && len(name) > len(best) && strings.Contains(err.Error(), name) {
			best = name
		}
	}
	if best == "" {
		best = err.Error()
	}
	return strings.TrimPrefix(best, "kafka server: ")
}

// code is a code as an error, nil for that of success.
func code(e sarama.KError) error {
	if e == sarama.ErrNoError {
		return nil
	}
	return e
}
