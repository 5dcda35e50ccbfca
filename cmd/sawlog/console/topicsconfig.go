package console

import (
	"cmp"
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/consumer/admin"
)

// configured is one config of a topic or a broker.
type configured struct {
	Name, Value, Origin string
	Doc                 string
	Changed             bool // somebody's choice, not a default
	Hidden              bool // a secret: the value is not told
	Own                 bool // set on the topic itself
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
	told, err := admin.Configs(ctx, c, kind, resources, only)
	out := map[string][]configured{}
	for name, list := range told {
		for i := range list {
			out[name] = append(out[name], configOf(&list[i]))
		}
	}
	return out, err
}

func configOf(c *admin.Config) configured {
	return configured{
		Name: c.Name, Value: c.Value, Doc: c.Doc, Hidden: c.Secret,
		Origin: cmp.Or(origins[c.Source], c.Source.String()), Changed: c.Source != kmsg.ConfigSourceDefaultConfig,
		Own: c.Source == kmsg.ConfigSourceDynamicTopicConfig,
	}
}

// leastOf is how many copies must be in sync, by the configs of a topic; 0 = it is
// not among them.
func leastOf(configs []configured) int {
	for _, c := range configs {
		if n, err := strconv.Atoi(c.Value); err == nil && c.Name == admin.MinISR {
			return n
		}
	}
	return 0
}
