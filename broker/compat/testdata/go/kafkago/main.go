// Command kafkago runs segmentio's kafka-go against a broker: its Conn, Reader,
// Writer and Client.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"compat/line"
)

func main() { line.Main(client{}) }

type client struct{}

var codecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

// patience is how long a step may take.
const patience = 30 * time.Second

// toPartition sends every message to one partition.
func toPartition(p int) kafka.Balancer {
	return kafka.BalancerFunc(func(kafka.Message, ...int) int { return p })
}

func (client) Write(addr, topic, codec string, records []line.Record) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return write(ctx, addr, topic, codec, 0, records)
}

func write(ctx context.Context, addr, topic, codec string, partition int, records []line.Record) error {
	w := &kafka.Writer{
		Addr: kafka.TCP(addr), Topic: topic, Compression: codecs[codec], Balancer: toPartition(partition),
		RequiredAcks: kafka.RequireAll, BatchSize: len(records), BatchTimeout: 10 * time.Millisecond, AllowAutoTopicCreation: true,
	}
	var all []kafka.Message
	for _, r := range records {
		all = append(all, message(r))
	}
	if err := w.WriteMessages(ctx, all...); err != nil {
		return err
	}
	return w.Close()
}

func message(r line.Record) kafka.Message {
	m := kafka.Message{Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Time)}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, kafka.Header{Key: h.Name, Value: h.Value})
	}
	return m
}

func record(m kafka.Message) line.Record {
	r := line.Record{Key: m.Key, Value: m.Value, Time: m.Time.UnixMilli()}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, line.Header{Name: h.Key, Value: h.Value})
	}
	return r
}

func (client) Read(addr, topic string, count int) ([]line.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := reader(addr, topic)
	defer func() { _ = r.Close() }()
	return take(ctx, r, count)
}

// reader reads partition 0 of a topic from its start.
func reader(addr, topic string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{Brokers: []string{addr}, Topic: topic, MaxBytes: 10 << 20, MaxWait: 100 * time.Millisecond})
}

func take(ctx context.Context, r *kafka.Reader, count int) ([]line.Record, error) {
	var all []line.Record
	for range count {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return nil, fmt.Errorf("after %d of %d records: %w", len(all), count, err)
		}
		all = append(all, record(m))
	}
	return all, nil
}

func (client) Suite(addr string, _ []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s := suite{ctx: ctx, addr: addr, cl: &kafka.Client{Addr: kafka.TCP(addr), Timeout: patience, Transport: &kafka.Transport{MetadataTTL: 100 * time.Millisecond}}}
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"conn", s.conn},
		{"writers", s.writers},
		{"reader", s.reader},
		{"group", s.group},
		{"admin", s.admin},
	} {
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// suite is one run of the scenario.
type suite struct {
	ctx  context.Context
	addr string
	cl   *kafka.Client
}

// kind is the title of the error code an error carries, null when there is none.
func kind(err error) any {
	var code kafka.Error
	if errors.As(err, &code) {
		return code.Title()
	}
	return line.Text(err)
}

// topic makes a topic and waits until it is seen.
func (s suite) topic(name string, partitions int, configs ...kafka.ConfigEntry) error {
	res, err := s.cl.CreateTopics(s.ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: name, NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs},
	}})
	if err == nil {
		err = res.Errors[name]
	}
	if err != nil {
		return fmt.Errorf("topic %s: %w", name, err)
	}
	return settle(func() (bool, error) {
		m, err := s.cl.Metadata(s.ctx, &kafka.MetadataRequest{Topics: []string{name}})
		return err == nil && len(m.Topics) == 1 && len(m.Topics[0].Partitions) == partitions, err
	})
}

// settle asks until the answer is there: brokers may take a moment to see what
// their controller has done. The last answer counts after 10 s.
func settle(ask func() (bool, error)) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		done, err := ask()
		if done || err != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// base is the time of the first record: it is past no retention.
var base = time.Now().Add(-2 * time.Hour).Truncate(time.Second)

// numbered is a record of a number: a second apart, its header says it too.
func numbered(i int) line.Record {
	n := []byte(strconv.Itoa(i))
	return line.Record{
		Key: n, Value: append([]byte("value "), n...), Time: base.Add(time.Duration(i) * time.Second).UnixMilli(),
		Headers: []line.Header{{Name: "n", Value: n}},
	}
}

func numberedFrom(first, count int) []line.Record {
	var all []line.Record
	for i := range count {
		all = append(all, numbered(first+i))
	}
	return all
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

// dial opens a Conn to partition 0 of a topic.
func (s suite) dial(topic string) (*kafka.Conn, error) {
	c, err := kafka.DialLeader(s.ctx, "tcp", s.addr, topic, 0)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(patience))
}

// same says whether a broker is the one at the address.
func (s suite) same(b kafka.Broker) bool {
	return net.JoinHostPort(b.Host, strconv.Itoa(b.Port)) == s.addr
}
