package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// configured is one config of a topic or a broker.
type configured struct {
	Name, Value, Origin string
	Doc                 string
	Changed             bool // somebody's choice, not a default
	Hidden              bool // a secret: the value is not told
}

// origins say where a value comes from, in words.
var origins = map[kmsg.ConfigSource]string{
	kmsg.ConfigSourceDynamicTopicConfig:         "set on the topic",
	kmsg.ConfigSourceDynamicBrokerConfig:        "set on the broker",
	kmsg.ConfigSourceDynamicDefaultBrokerConfig: "set for all brokers",
	kmsg.ConfigSourceStaticBrokerConfig:         "file, flag or variable of the server",
	kmsg.ConfigSourceDefaultConfig:              "default",
}

// configsOf asks for configs of topics, or of a broker, by the resource's name:
// the named ones, or all.
func configsOf(ctx context.Context, c consumer.Requestor, kind kmsg.ConfigResourceType, resources, only []string) (map[string][]configured, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeDocumentation = only == nil
	for _, name := range resources {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, only
		req.Resources = append(req.Resources, r)
	}
	resp, err := request[*kmsg.DescribeConfigsResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	out := map[string][]configured{}
	for _, r := range resp.Resources {
		if code := kerr.ErrorForCode(r.ErrorCode); code != nil {
			err = fmt.Errorf("configs of %s: %w", r.ResourceName, code)
			continue
		}
		for i := range r.Configs {
			out[r.ResourceName] = append(out[r.ResourceName], configOf(&r.Configs[i]))
		}
		slices.SortFunc(out[r.ResourceName], func(a, b configured) int { return strings.Compare(a.Name, b.Name) })
	}
	return out, err
}

func configOf(rc *kmsg.DescribeConfigsResponseResourceConfig) configured {
	c := configured{Name: rc.Name, Origin: cmp.Or(origins[rc.Source], rc.Source.String()), Hidden: rc.IsSensitive}
	c.Changed = rc.Source != kmsg.ConfigSourceDefaultConfig
	if rc.Value != nil {
		c.Value = *rc.Value
	}
	if rc.Documentation != nil {
		c.Doc = *rc.Documentation
	}
	return c
}

// minISRConfig says how many copies must be in sync for a record with acks=all.
const minISRConfig = "min.insync.replicas"

// leastInSync reads it among configs; 0 = it is not among them.
func leastInSync(configs []configured) int {
	for _, c := range configs {
		if n, err := strconv.Atoi(c.Value); err == nil && c.Name == minISRConfig {
			return n
		}
	}
	return 0
}
