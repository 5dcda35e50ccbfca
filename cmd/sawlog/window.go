package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
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

// tickPreview is what the run of a tick would load.
type tickPreview struct {
	Tick    time.Time `json:"tick"`
	Dataset string    `json:"dataset"`
	jobs.Window
}

// previewTicks says what the runs of ticks would load, one after the other.
func (a *app) previewTicks(ctx context.Context, targets []target, ticks []time.Time, acceptGap string) error {
	list := []tickPreview{}
	for _, t := range targets {
		d, closeDriver, err := openDriver(ctx, t.spec.Root, t.access, t.source, a.logger())
		if err != nil {
			return err
		}
		asks := make([]jobs.Ask, len(ticks))
		for i, tick := range ticks {
			asks[i] = jobs.Ask{Tick: tick, UpTo: tick, AcceptGap: acceptGap}
		}
		windows, err := tickWindows(ctx, d, t.spec, asks)
		closeDriver()
		if err != nil {
			return err
		}
		for i, w := range windows {
			list = append(list, tickPreview{ticks[i], t.spec.Dataset, w})
		}
	}
	slices.SortStableFunc(list, func(a, b tickPreview) int { return a.Tick.Compare(b.Tick) })
	return a.print.Print(list, func() *output.Rows {
		rows := &output.Rows{Head: []string{"TICK", "DATA SET", "OFFSETS", "ROWS", "FILES"}}
		for _, p := range list {
			rows.Add(timeText(p.Tick), p.Dataset, rangesText(&p.Window), fmt.Sprintf("≤ %d", p.Rows), fmt.Sprintf("~ %d", p.Files))
		}
		return rows
	})
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
