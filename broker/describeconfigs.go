package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
)

// DescribeConfigs, versions 1–4: all configurations of a topic or a broker with
// value, source, synonyms (KIP-226), type and documentation (KIP-569).

func (b *Broker) describeConfigs(r *kmsg.DescribeConfigsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
	m.Default()
	m.Version = r.Version
	im := b.controller.Image()
	for i := range r.Resources {
		ask := &r.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = ask.ResourceType, ask.ResourceName
		var all []kmsg.DescribeConfigsResponseResourceConfig
		var err error
		switch ask.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			all, err = b.describeTopicConfigs(im, ask.ResourceName)
		case kmsg.ConfigResourceTypeBroker:
			all, err = b.describeBrokerConfigs(im, ask.ResourceName)
		default:
			err = fmt.Errorf("%w: resource type %d", kerr.InvalidRequest, ask.ResourceType)
		}
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		for _, c := range all {
			if ask.ConfigNames != nil && !slices.Contains(ask.ConfigNames, c.Name) {
				continue
			}
			if !r.IncludeSynonyms {
				c.ConfigSynonyms = nil
			}
			if !r.IncludeDocumentation {
				c.Documentation = nil
			}
			out.Configs = append(out.Configs, c)
		}
		m.Resources = append(m.Resources, out)
	}
	return m
}

func (b *Broker) describeTopicConfigs(im *controller.Image, name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	t, ok := im.TopicByName(name)
	if !ok {
		return nil, fmt.Errorf("%w: topic %q", kerr.UnknownTopicOrPartition, name)
	}
	l := b.layers(t, im)
	all := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(topicSettings)+1)
	for i := range topicSettings {
		s := &topicSettings[i]
		v, source := l.find(s)
		c := describeSetting(s.name, v, source, s.kind, s.doc)
		c.ConfigSynonyms = l.synonyms(s)
		all = append(all, c)
	}
	for name, v := range t.Configs {
		if _, known := findSetting(name); !known {
			c := describeSetting(name, v, kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigTypeList, "Offsets that a load job still needs: PARTITION:OFFSET with commas between.")
			c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{{Name: name, Value: &v, Source: c.Source}}
			all = append(all, c)
		}
	}
	sortConfigs(all)
	return all, nil
}

func sortConfigs(all []kmsg.DescribeConfigsResponseResourceConfig) {
	slices.SortFunc(all, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(a.Name, b.Name) })
}

// synonyms are all values of a configuration, the one that counts first.
func (l layers) synonyms(s *setting) []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	var out []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
	add := func(name, value string, source kmsg.ConfigSource) {
		out = append(out, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: name, Value: &value, Source: source})
	}
	broker := s.broker
	if broker == "" {
		broker = s.name
	}
	if v, ok := l.topic[s.name]; ok {
		add(s.name, v, kmsg.ConfigSourceDynamicTopicConfig)
	}
	if v, ok := l.dynamic[s.broker]; ok {
		add(broker, v, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	}
	if v, ok := l.static[s.name]; ok {
		add(broker, v, kmsg.ConfigSourceStaticBrokerConfig)
	}
	add(broker, l.ofTable(s), kmsg.ConfigSourceDefaultConfig)
	return out
}

func describeSetting(name, value string, source kmsg.ConfigSource, kind kmsg.ConfigType, doc string) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.Source, c.ConfigType, c.Documentation = name, &value, source, kind, &doc
	c.IsDefault = source == kmsg.ConfigSourceDefaultConfig
	return c
}

// describeBrokerConfigs lists what a broker runs with: what it was started
// with, fixed, and the defaults of topics that may be set for all brokers.
func (b *Broker) describeBrokerConfigs(im *controller.Image, name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	own := map[string]string{}
	if name != "" {
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil || int32(id) != int32(b.nodeID) {
			return nil, fmt.Errorf("%w: this is broker %d, not %q", kerr.InvalidRequest, b.nodeID, name)
		}
		own = im.BrokerConfigs(b.nodeID)
	}
	var all []kmsg.DescribeConfigsResponseResourceConfig
	if name != "" {
		for _, fixed := range b.fixedSettings() {
			c := describeSetting(fixed.name, fixed.value, kmsg.ConfigSourceStaticBrokerConfig, fixed.kind, fixed.doc)
			c.ReadOnly = true
			c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{{Name: fixed.name, Value: c.Value, Source: c.Source}}
			all = append(all, c)
		}
	}
	l := layers{dynamic: im.BrokerConfig, static: b.config.Defaults}
	for i := range topicSettings {
		s := &topicSettings[i]
		if s.broker == "" {
			continue
		}
		v, source := l.find(s)
		if set, ok := own[s.broker]; ok {
			v, source = set, kmsg.ConfigSourceDynamicBrokerConfig
		}
		if name == "" && source != kmsg.ConfigSourceDynamicDefaultBrokerConfig {
			continue
		}
		c := describeSetting(s.broker, v, source, s.kind, s.doc)
		c.ConfigSynonyms = l.synonyms(s)
		all = append(all, c)
	}
	sortConfigs(all)
	return all, nil
}

type fixedSetting struct {
	name, value string
	kind        kmsg.ConfigType
	doc         string
}

// fixedSettings are the broker's own settings, which a start decides.
func (b *Broker) fixedSettings() []fixedSetting {
	or := func(name, value string) string {
		if v, ok := b.config.Defaults[name]; ok {
			return v
		}
		return value
	}
	return []fixedSetting{
		{"advertised.listeners", clientListener + "://" + b.Advertised(), kmsg.ConfigTypeString, "Where clients connect to."},
		{"auto.create.topics.enable", or("auto.create.topics.enable", "true"), kmsg.ConfigTypeBoolean, "Whether a topic is made when it is first used."},
		{"broker.id", strconv.Itoa(int(b.nodeID)), kmsg.ConfigTypeInt, "The node's id."},
		{"default.replication.factor", or("default.replication.factor", "-1"), kmsg.ConfigTypeInt, "Replicas of a topic that doesn't say; -1 is three, or as many as there are brokers."},
		{"listeners", clientListener + "://" + b.bound, kmsg.ConfigTypeString, "Where the broker listens."},
		{"log.dirs", b.config.Dir, kmsg.ConfigTypeString, "The data directory."},
		{"node.id", strconv.Itoa(int(b.nodeID)), kmsg.ConfigTypeInt, "The node's id."},
		{"num.partitions", or("num.partitions", "1"), kmsg.ConfigTypeInt, "Partitions of a topic that doesn't say."},
		{"offsets.topic.num.partitions", strconv.Itoa(offsetsPartitions), kmsg.ConfigTypeInt, "Partitions of " + offsetsTopic + "."},
		{"socket.request.max.bytes", strconv.Itoa(produceBytes), kmsg.ConfigTypeInt, "Longest request."},
	}
}
