package consumer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// Hold asks brokers to keep records a job has yet to load past their retention:
// the topic config retention.hold.JOB, which Sawlog's brokers know and others
// refuse.
func Hold(ctx context.Context, c Cluster, job string, topics []Topic, at map[offsets.TopicPartition]offsets.Offset) error {
	values := map[string]*string{}
	for _, t := range topics {
		var list []string
		for _, p := range t.Partitions {
			if offset, ok := at[offsets.TopicPartition{Topic: t.Name, Partition: p.Index}]; ok {
				list = append(list, fmt.Sprintf("%d:%d", p.Index, offset))
			}
		}
		values[t.Name] = new(strings.Join(list, ","))
	}
	return retry(ctx, patience(c), func(ctx context.Context) error { return setHolds(ctx, c, job, values) })
}

// Release takes back what Hold asked for.
func Release(ctx context.Context, c Cluster, job string, topics []string) error {
	values := map[string]*string{}
	for _, name := range topics {
		values[name] = nil
	}
	return retry(ctx, patience(c), func(ctx context.Context) error { return setHolds(ctx, c, job, values) })
}

// setHolds sets the config of each topic, or deletes it where the value is nil.
func setHolds(ctx context.Context, c Cluster, job string, values map[string]*string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, topic := range slices.Sorted(maps.Keys(values)) {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		conf := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		conf.Name, conf.Op, conf.Value = "retention.hold."+job, kmsg.IncrementalAlterConfigOpSet, values[topic]
		if conf.Value == nil {
			conf.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		r.Configs = append(r.Configs, conf)
		req.Resources = append(req.Resources, r)
	}
	got, err := c.Request(ctx, req)
	if err != nil {
		return err
	}
	resp, ok := got.(*kmsg.IncrementalAlterConfigsResponse)
	if !ok {
		return fmt.Errorf("alter configs answered by %T", got)
	}
	for _, r := range resp.Resources {
		if err := codeError(r.ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w", r.ResourceName, err)
		}
	}
	return nil
}
