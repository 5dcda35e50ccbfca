package broker

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
)

// DescribeConfigs, versions 1–4: all configurations of a topic or a broker with
// value, source, synonyms (KIP-226), type and documentation (KIP-569). "" is all
// brokers: what was set for them. A broker's loggers, client metrics
// subscriptions (KIP-714) and groups (KIP-848) can be asked about and have none.

type describedConfig = kmsg.DescribeConfigsResponseResourceConfig

func (b *Broker) describeConfigs(r *kmsg.DescribeConfigsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
	im := b.controller.Image()
	var room budget
	for i := range r.Resources {
		ask := &r.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorMessage = ask.ResourceType, ask.ResourceName, new("")
		var all []describedConfig
		err := errAnswerTooLarge()
		if room.take(0) {
			all, err = b.describeResource(im, ask.ResourceType, ask.ResourceName)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = codeAndText(err)
		}
		for _, c := range all {
			if len(ask.ConfigNames) > 0 && !slices.Contains(ask.ConfigNames, c.Name) {
				continue
			}
			if !r.IncludeSynonyms {
				c.ConfigSynonyms = nil
			}
			if !r.IncludeDocumentation {
				c.Documentation = nil
			}
			room.take(sizeOfConfig(&c))
			out.Configs = append(out.Configs, c)
		}
		m.Resources = append(m.Resources, out)
	}
	return m
}

// sizeOfConfig is about what a configuration takes in an answer.
func sizeOfConfig(c *describedConfig) int {
	n := 32 + len(c.Name)
	for _, s := range []*string{c.Value, c.Documentation} {
		if s != nil {
			n += len(*s)
		}
	}
	for _, s := range c.ConfigSynonyms {
		n += 16 + len(s.Name)
		if s.Value != nil {
			n += len(*s.Value)
		}
	}
	return n
}

func (b *Broker) describeResource(im *controller.Image, kind kmsg.ConfigResourceType, name string) ([]describedConfig, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return b.describeTopicConfigs(im, name)
	case kmsg.ConfigResourceTypeBroker:
		return b.describeBrokerConfigs(im, name)
	case kmsg.ConfigResourceTypeBrokerLogger:
		switch id, err := strconv.ParseInt(name, 10, 32); {
		case name == "":
			return nil, refuse(kerr.InvalidRequest, "Broker id must not be empty")
		case err != nil:
			return nil, refuse(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
		case int32(id) != int32(b.nodeID):
			return nil, refuse(kerr.InvalidRequest, "Unexpected broker id, expected %d but received %s", b.nodeID, name)
		}
		return nil, nil
	case kmsg.ConfigResourceTypeClientMetrics:
		if name == "" {
			return nil, refuse(kerr.InvalidRequest, "Client metrics subscription name must not be empty")
		}
		return nil, nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, refuse(kerr.InvalidRequest, "Group name must not be empty")
		}
		return nil, nil
	}
	return nil, kerr.InvalidRequest
}

func (b *Broker) describeTopicConfigs(im *controller.Image, name string) ([]describedConfig, error) {
	if err := controller.CheckTopicName(name); err != nil {
		return nil, err
	}
	t, ok := im.TopicByName(name)
	if !ok {
		return nil, refuse(kerr.UnknownTopicOrPartition, "")
	}
	l := b.layers(t, im)
	all := make([]describedConfig, 0, len(topicSettings)+1)
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

func sortConfigs(all []describedConfig) {
	slices.SortFunc(all, func(a, b describedConfig) int { return strings.Compare(a.Name, b.Name) })
}

// synonyms are all values of a configuration, the one that counts first.
func (l layers) synonyms(s *setting) []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	var out []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
	add := func(name, value string, source kmsg.ConfigSource) {
		out = append(out, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: name, Value: &value, Source: source})
	}
	if v, ok := l.topic[s.name]; ok {
		add(s.name, v, kmsg.ConfigSourceDynamicTopicConfig)
	}
	if s.broker == "" {
		return out
	}
	ofTopic := len(out)
	if v, ok := l.own[s.broker]; ok {
		add(s.broker, v, kmsg.ConfigSourceDynamicBrokerConfig)
	}
	if v, ok := l.dynamic[s.broker]; ok {
		add(s.broker, v, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	}
	if v, ok := l.static[s.name]; ok {
		add(s.broker, v, kmsg.ConfigSourceStaticBrokerConfig)
	}
	switch name, value, ok := s.lastSynonym(); {
	case !ok:
		add(s.broker, l.ofTable(s), kmsg.ConfigSourceDefaultConfig)
	case len(out) > ofTopic:
		add(name, value, kmsg.ConfigSourceDefaultConfig)
	}
	return out
}

func describeSetting(name, value string, source kmsg.ConfigSource, kind kmsg.ConfigType, doc string) describedConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.Source, c.ConfigType, c.Documentation = name, &value, source, kind, &doc
	return c
}

// describeBrokerConfigs lists what a broker runs with: what it was started
// with, read-only, and the defaults of topics, which may be set for one broker
// or for all of them.
func (b *Broker) describeBrokerConfigs(im *controller.Image, name string) ([]describedConfig, error) {
	if name == "" {
		return describeAllBrokers(im), nil
	}
	switch id, err := strconv.ParseInt(name, 10, 32); {
	case err != nil:
		return nil, refuse(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
	case int32(id) != int32(b.nodeID):
		return nil, refuse(kerr.InvalidRequest, "Unexpected broker id, expected %d or empty string, but received %s", b.nodeID, name)
	}
	all := b.describeStart()
	l := b.brokerLayers(im)
	for _, s := range slices.Concat(topicSettings[:], throttleSettings[:], classSettings[:], clusterSettings[:]) {
		if s.broker == "" {
			continue
		}
		v, source := l.find(&s)
		c := describeSetting(s.broker, v, source, s.kind, s.doc)
		c.ConfigSynonyms = l.synonyms(&s)
		all = append(all, c)
	}
	sortConfigs(all)
	return all, nil
}

// describeAllBrokers lists what was set for all brokers.
func describeAllBrokers(im *controller.Image) (all []describedConfig) {
	for name, v := range im.BrokerConfig {
		s, ok := findBrokerSetting(name)
		if !ok {
			continue // set by a later release
		}
		c := describeSetting(name, v, kmsg.ConfigSourceDynamicDefaultBrokerConfig, s.kind, s.doc)
		c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{{Name: name, Value: &v, Source: c.Source}}
		all = append(all, c)
	}
	sortConfigs(all)
	return all
}

// describeStart lists what the start of this broker decided.
func (b *Broker) describeStart() (all []describedConfig) {
	add := func(name, value string, source kmsg.ConfigSource, kind kmsg.ConfigType, doc string) *describedConfig {
		c := describeSetting(name, value, source, kind, doc)
		c.ReadOnly = true
		c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{{Name: name, Value: c.Value, Source: source}}
		all = append(all, c)
		return &all[len(all)-1]
	}
	for _, f := range b.fixedSettings() {
		add(f.name, f.value, f.source, f.kind, f.doc)
	}
	for i := range startSettings {
		s := &startSettings[i]
		if _, given := b.config.Defaults[s.name]; !given {
			add(s.name, s.value, kmsg.ConfigSourceDefaultConfig, s.kind, s.doc)
			continue
		}
		c := add(s.name, b.config.startValue(s.name), kmsg.ConfigSourceStaticBrokerConfig, s.kind, s.doc)
		c.ConfigSynonyms = append(c.ConfigSynonyms, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: s.name, Value: &s.value, Source: kmsg.ConfigSourceDefaultConfig})
	}
	return all
}

// TopicDefault is a configuration that topics have, with its value where a topic
// sets none.
type TopicDefault struct {
	Name, Value, Doc string
	Kind             kmsg.ConfigType
	Source           kmsg.ConfigSource // of the value
}

// TopicDefaults lists the configurations topics have, by name, with the defaults
// that this broker knows of.
func (b *Broker) TopicDefaults() []TopicDefault {
	l := b.brokerLayers(b.controller.Image())
	all := make([]TopicDefault, len(topicSettings))
	for i := range topicSettings {
		s := &topicSettings[i]
		value, source := l.find(s)
		all[i] = TopicDefault{s.name, value, s.doc, s.kind, source}
	}
	return all
}
