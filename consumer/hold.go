package consumer

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// Hold asks brokers to keep records a job has yet to load past their retention:
// the topic config retention.hold.JOB, which Sawlog's brokers know and others
// refuse.
func Hold(ctx context.Context, c Cluster, job string, topics []Topic, at map[offsets.TopicPartition]offsets.Offset) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, t := range topics {
		var list []string
		for _, p := range t.Partitions {
			if offset, ok := at[offsets.TopicPartition{Topic: t.Name, Partition: p.Index}]; ok {
				list = append(list, fmt.Sprintf("%d:%d", p.Index, offset))
			}
		}
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, t.Name
		conf := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		conf.Name, conf.Op, conf.Value = "retention.hold."+job, kmsg.IncrementalAlterConfigOpSet, new(strings.Join(list, ","))
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
