package main

import (
	"context"
	"strings"
	"time"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/loader"
	"sawlog/offsets"
)

// parseWindow reads START..END of --window.
func parseWindow(text string) (from, to time.Time, err error) {
	start, end, ok := strings.Cut(text, "..")
	if !ok {
		return from, to, output.Errorf(output.Usage, "--window %q: want START..END, such as 2026-11-29T00..2026-11-30T00", text)
	}
	now := time.Now()
	if from, err = offsets.ParseTime(strings.TrimPrefix(start, "@"), now); err == nil {
		to, err = offsets.ParseTime(strings.TrimPrefix(end, "@"), now)
	}
	if err != nil {
		return from, to, output.Errorf(output.Usage, "--window %s", err)
	}
	if to.Before(from) {
		return from, to, output.Errorf(output.Usage, "--window %q: the end lies before the start", text)
	}
	return from, to, nil
}

// boundOf are the offsets a tick would take: the first with a timestamp at or
// after it; a partition without one is not bounded.
func boundOf(ctx context.Context, cluster consumer.Cluster, spec *loader.Spec, tick time.Time) (map[offsets.TopicPartition]offsets.Offset, error) {
	topics, _, err := consumer.Describe(ctx, cluster, spec.Topics, spec.Pattern)
	if err != nil {
		return nil, err
	}
	var all []offsets.TopicPartition
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			all = append(all, offsets.TopicPartition{Topic: topic.Name, Partition: p.Index})
		}
	}
	return consumer.OffsetForTime(ctx, cluster, all, tick.UnixMilli())
}

func (a *app) brokersOr(named []string) []string {
	if len(named) > 0 {
		return named
	}
	return a.brokers
}
