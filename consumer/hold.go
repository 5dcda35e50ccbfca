package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// holdPrefix starts the topic configs by which jobs keep records; what follows is
// the job.
const holdPrefix = "retention.hold."

// holdBounds are the configs that bound all holds of a topic, and are of no job.
var holdBounds = []string{holdPrefix + "max.bytes", holdPrefix + "max.ms"}

// HoldingJob is the job by which a topic config was set, "" of any other config.
func HoldingJob(config string) string {
	job, ok := strings.CutPrefix(config, holdPrefix)
	if !ok || slices.Contains(holdBounds, config) {
		return ""
	}
	return job
}

// Held is from where on a job keeps the records of a partition.
type Held struct {
	Job       string
	Partition int32
	From      offsets.Offset
}

// HeldBy reads a topic config that Hold has set; nil of any other.
func HeldBy(config, value string) (list []Held) {
	job := HoldingJob(config)
	if job == "" {
		return nil
	}
	for part := range strings.SplitSeq(value, ",") {
		partition, offset, _ := strings.Cut(part, ":")
		p, errP := strconv.ParseInt(partition, 10, 32)
		from, errO := strconv.ParseInt(offset, 10, 64)
		if errP == nil && errO == nil { // else it is the age
			list = append(list, Held{job, int32(p), offsets.Offset(from)})
		}
	}
	return list
}

// ErrNoHold says that the cluster knows no retention.hold.
var ErrNoHold = errors.New("the cluster knows no retention.hold")

// Hold asks brokers to keep records a job has yet to load past their retention,
// up to an age: the topic config retention.hold.JOB, which Sawlog's brokers know
// and others refuse (ErrNoHold). A topic's retention.hold.max.ms counts as well.
func Hold(ctx context.Context, c Cluster, job string, topics []Topic, at map[offsets.TopicPartition]offsets.Offset, maxAge time.Duration) error {
	values := map[string]*string{}
	for _, t := range topics {
		var list []string
		for _, p := range t.Partitions {
			if offset, ok := at[offsets.TopicPartition{Topic: t.Name, Partition: p.Index}]; ok {
				list = append(list, fmt.Sprintf("%d:%d", p.Index, offset))
			}
		}
		list = append(list, fmt.Sprintf("max.ms:%d", maxAge.Milliseconds()))
		values[t.Name] = new(strings.Join(list, ","))
	}
	return retry(ctx, Patience(c), func(ctx context.Context) error { return setHolds(ctx, c, job, values) })
}

// Release takes back what Hold asked for.
func Release(ctx context.Context, c Cluster, job string, topics []string) error {
	values := map[string]*string{}
	for _, name := range topics {
		values[name] = nil
	}
	return retry(ctx, Patience(c), func(ctx context.Context) error { return setHolds(ctx, c, job, values) })
}

// setHolds sets the config of each topic, or deletes it where the value is nil.
func setHolds(ctx context.Context, c Cluster, job string, values map[string]*string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, topic := range slices.Sorted(maps.Keys(values)) {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		conf := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		conf.Name, conf.Op, conf.Value = holdPrefix+job, kmsg.IncrementalAlterConfigOpSet, values[topic]
		if conf.Value == nil {
			conf.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		r.Configs = append(r.Configs, conf)
		req.Resources = append(req.Resources, r)
	}
	resp, err := Ask[*kmsg.IncrementalAlterConfigsResponse](ctx, c, req)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := CodeError(r.ErrorCode); err != nil {
			if r.ErrorCode == kerr.InvalidConfig.Code {
				err = fmt.Errorf("%w: %w", ErrNoHold, err)
			}
			return fmt.Errorf("topic %s: %w", r.ResourceName, err)
		}
	}
	return nil
}
