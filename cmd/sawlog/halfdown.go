package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
)

// lookTime bounds how long a broker is waited for when it is only asked whether
// it is there.
const lookTime = 2 * time.Second

// halfDown tells what is wrong with a cluster of which some broker answers, after
// a request to it has failed; nil when none does.
func (k *kafka) halfDown(failed error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*lookTime)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, seed := range k.SeedBrokers() {
		resp, err := seed.Request(ctx, req)
		if err != nil {
			continue
		}
		brokers := resp.(*kmsg.MetadataResponse).Brokers
		down := k.silent(ctx, brokers)
		switch {
		case !k.controlled(ctx, seed):
			return &output.Error{
				Code: output.Unavailable, Msg: fmt.Sprintf("the cluster has no active controller: of %d brokers %s", len(brokers), silentText(down)), Err: failed,
				Hint: "start them: more than half of the nodes that vote on the metadata must be up and reach each other",
			}
		case len(down) > 0:
			return &output.Error{
				Code: output.Unavailable, Msg: fmt.Sprintf("of %d brokers %s", len(brokers), silentText(down)), Err: failed,
				Hint: "sawlog cluster status",
			}
		}
		return nil
	}
	return nil
}

func silentText(down []string) string {
	switch len(down) {
	case 0:
		return "all answer"
	case 1:
		return down[0] + " doesn't answer"
	}
	return strings.Join(down, ", ") + " don't answer"
}

// silent are the brokers that don't answer.
func (k *kafka) silent(ctx context.Context, brokers []kmsg.MetadataResponseBroker) []string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var mu sync.Mutex
	var down []string
	var asking sync.WaitGroup
	for _, b := range brokers {
		asking.Go(func() {
			if _, err := k.Client.Broker(int(b.NodeID)).Request(ctx, kmsg.NewPtrApiVersionsRequest()); err != nil {
				mu.Lock()
				defer mu.Unlock()
				down = append(down, fmt.Sprintf("%d (%s:%d)", b.NodeID, b.Host, b.Port))
			}
		})
	}
	asking.Wait()
	slices.Sort(down)
	return down
}

// controlled tells whether a broker knows an active controller; one that can't
// say is believed to.
func (k *kafka) controlled(ctx context.Context, b *kgo.Broker) bool {
	quorum, err := admin.DescribeQuorum(ctx, b)
	return err != nil || quorum != nil
}
