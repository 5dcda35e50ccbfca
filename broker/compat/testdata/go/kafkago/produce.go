package main

import (
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"compat/line"
)

// writers sends records by Writer, waiting and not, in every codec.
func (s suite) writers() error {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := "kafkago-" + codec
		if err := s.topic(topic, 1); err != nil {
			return err
		}
		if err := write(s.ctx, s.addr, topic, codec, 0, numberedFrom(0, 100)); err != nil {
			return fmt.Errorf("%s: %w", codec, err)
		}
		r := reader(s.addr, topic)
		got, err := take(s.ctx, r, 100)
		if err != nil {
			return err
		}
		stats := r.Stats()
		line.Step("writer: "+codec, []any{inOrder(got), stats.Errors})
		if err := r.Close(); err != nil {
			return err
		}
	}
	if err := s.async(); err != nil {
		return err
	}
	return s.tooLarge()
}

func (s suite) async() error {
	const count = 10000
	if err := s.topic("kafkago-async", 1); err != nil {
		return err
	}
	acked, failed := 0, error(nil)
	w := &kafka.Writer{
		Addr: kafka.TCP(s.addr), Transport: s.cl.Transport, Topic: "kafkago-async", Async: true, RequiredAcks: kafka.RequireOne,
		BatchTimeout: 10 * time.Millisecond, Compression: kafka.Snappy,
		Completion: func(all []kafka.Message, err error) {
			if acked += len(all); err != nil {
				failed = err
			}
		},
	}
	var all []kafka.Message
	for _, r := range numberedFrom(0, count) {
		all = append(all, message(r))
	}
	if err := w.WriteMessages(s.ctx, all...); err != nil {
		return err
	}
	if err := w.Close(); err != nil { // waits for what is under way
		return err
	}
	r := reader(s.addr, "kafkago-async")
	defer func() { _ = r.Close() }()
	got, err := take(s.ctx, r, count)
	if err != nil {
		return err
	}
	line.Step("writer: async", []any{acked, kind(failed), inOrder(got)})
	return nil
}

func (s suite) tooLarge() error {
	if err := s.topic("kafkago-small", 1, kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "2000"}); err != nil {
		return err
	}
	err := write(s.ctx, s.addr, "kafkago-small", "none", 0, []line.Record{{Value: make([]byte, 3000)}})
	if all, ok := err.(kafka.WriteErrors); ok {
		err = all[0]
	}
	line.Step("writer: too large", kind(err))
	return nil
}
