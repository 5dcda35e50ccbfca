package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListConfigResources, versions 0–1 (KIP-1142): what DescribeConfigs can be asked
// about: topics and brokers. Version 0 asks for client metrics subscriptions
// (KIP-1000), which never exist here, as no group has configurations of its own.

func (b *Broker) listConfigResources(r *kmsg.ListConfigResourcesRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	known := []kmsg.ConfigResourceType{
		kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
		kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
	}
	asked := map[kmsg.ConfigResourceType]bool{}
	for _, kind := range r.ResourceTypes {
		if !slices.Contains(known, kmsg.ConfigResourceType(kind)) {
			m.ErrorCode = kerr.UnsupportedVersion.Code
			return m
		}
		asked[kmsg.ConfigResourceType(kind)] = true
	}
	if r.Version == 0 {
		return m
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		out := kmsg.NewListConfigResourcesResponseConfigResource()
		out.Type, out.Name = int8(kind), name
		m.ConfigResources = append(m.ConfigResources, out)
	}
	im := b.controller.Image()
	for _, kind := range known {
		if len(asked) > 0 && !asked[kind] {
			continue
		}
		switch kind {
		case kmsg.ConfigResourceTypeTopic:
			for _, t := range im.Topics() {
				add(kind, t.Name)
			}
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			for i := range im.Brokers {
				add(kind, strconv.Itoa(int(im.Brokers[i].ID)))
			}
		}
	}
	return m
}
