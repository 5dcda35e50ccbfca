package broker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
)

// AlterConfigs, versions 0–2, replaces all configurations of a resource;
// IncrementalAlterConfigs, versions 0–1 (KIP-339), changes single ones by SET,
// DELETE, APPEND and SUBTRACT, the last two on lists. Each resource is changed
// wholly or not at all. Broker resources take the broker-wide defaults of topic
// configurations.

func (b *Broker) alterConfigs(r *kmsg.AlterConfigsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.AlterConfigsResponse)
	m.Default()
	m.Version = r.Version
	for i := range r.Resources {
		ask := &r.Resources[i]
		change := controller.ConfigChange{Replace: true, ValidateOnly: r.ValidateOnly}
		for _, c := range ask.Configs {
			if c.Value != nil { // null asks for the default, which is what is left
				change.Ops = append(change.Ops, controller.ConfigOp{Kind: controller.Set, Key: c.Name, Value: *c.Value})
			}
		}
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = ask.ResourceType, ask.ResourceName
		out.ErrorCode, out.ErrorMessage = codeAndText(b.changeConfigs(ask.ResourceType, ask.ResourceName, change))
		m.Resources = append(m.Resources, out)
	}
	return m
}

func (b *Broker) incrementalAlterConfigs(r *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	m.Default()
	m.Version = r.Version
	for i := range r.Resources {
		ask := &r.Resources[i]
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = ask.ResourceType, ask.ResourceName
		ops, err := configOps(ask.Configs)
		if err == nil {
			ops = b.fromDefaults(ask.ResourceType, ask.ResourceName, ops)
		}
		if err == nil {
			err = b.changeConfigs(ask.ResourceType, ask.ResourceName, controller.ConfigChange{Ops: ops, ValidateOnly: r.ValidateOnly})
		}
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		m.Resources = append(m.Resources, out)
	}
	return m
}

func configOps(configs []kmsg.IncrementalAlterConfigsRequestResourceConfig) ([]controller.ConfigOp, error) {
	ops := make([]controller.ConfigOp, 0, len(configs))
	for i, c := range configs {
		if slices.ContainsFunc(configs[:i], func(o kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return o.Name == c.Name }) {
			return nil, fmt.Errorf("%w: %s is changed more than once", kerr.InvalidRequest, c.Name)
		}
		if c.Value == nil && c.Op != kmsg.IncrementalAlterConfigOpDelete {
			return nil, fmt.Errorf("%w: null value for %s", kerr.InvalidRequest, c.Name)
		}
		op := controller.ConfigOp{Key: c.Name}
		if c.Value != nil {
			op.Value = *c.Value
		}
		switch c.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			op.Kind = controller.Set
		case kmsg.IncrementalAlterConfigOpDelete:
			op.Kind, op.Value = controller.Delete, ""
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			op.Kind = controller.Append
			if c.Op == kmsg.IncrementalAlterConfigOpSubtract {
				op.Kind = controller.Subtract
			}
			if !isList(c.Name) {
				return nil, fmt.Errorf("%w: %s is no list", kerr.InvalidConfig, c.Name)
			}
		default:
			return nil, fmt.Errorf("%w: unknown operation %d", kerr.InvalidRequest, c.Op)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// fromDefaults turns an APPEND to or a SUBTRACT from a list that the topic
// doesn't set itself into a SET: Kafka begins with the default, which the
// controller doesn't know.
func (b *Broker) fromDefaults(kind kmsg.ConfigResourceType, name string, ops []controller.ConfigOp) []controller.ConfigOp {
	im := b.controller.Image()
	t, ok := im.TopicByName(name)
	if kind != kmsg.ConfigResourceTypeTopic || !ok {
		return ops
	}
	for i, op := range ops {
		s, known := findSetting(op.Key)
		_, set := t.Configs[op.Key]
		if !known || set || op.Kind != controller.Append && op.Kind != controller.Subtract {
			continue
		}
		v, _ := b.layers(t, im).find(s)
		list := splitList(v)
		for _, part := range splitList(op.Value) {
			list = slices.DeleteFunc(list, func(have string) bool { return have == part })
			if op.Kind == controller.Append {
				list = append(list, part)
			}
		}
		ops[i] = controller.ConfigOp{Kind: controller.Set, Key: op.Key, Value: strings.Join(list, ",")}
	}
	return ops
}

func isList(name string) bool {
	s, ok := findSetting(name)
	if !ok {
		s, ok = findBrokerSetting(name)
	}
	return ok && s.kind == kmsg.ConfigTypeList || !ok && strings.HasPrefix(name, holdPrefix)
}

func (b *Broker) changeConfigs(kind kmsg.ConfigResourceType, name string, change controller.ConfigChange) error {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		change.Resource = controller.Resource{Kind: controller.TopicResource, Name: name}
	case kmsg.ConfigResourceTypeBroker:
		change.Resource = controller.Resource{Kind: controller.BrokerResource, Name: name}
	default:
		return fmt.Errorf("%w: resource type %d has no configurations here", kerr.InvalidRequest, kind)
	}
	ctx, cancel := b.adminContext(0)
	defer cancel()
	return b.controller.AlterConfigs(ctx, change)
}

// checkConfigs judges the configurations a resource would have, for the
// controller.
func checkConfigs(r controller.Resource, configs map[string]string) error {
	if r.Kind == controller.TopicResource {
		return checkTopicConfigs(configs)
	}
	for name, value := range configs {
		s, ok := findBrokerSetting(name)
		if !ok {
			return fmt.Errorf("%s is no configuration that can be changed while a broker runs", name)
		}
		if err := s.check(value); err != nil {
			return fmt.Errorf("invalid value %q for configuration %s: %w", value, name, err)
		}
	}
	return nil
}

// findBrokerSetting finds a topic's configuration by the name of its
// broker-wide default.
func findBrokerSetting(name string) (*setting, bool) {
	for i := range topicSettings {
		if topicSettings[i].broker == name && name != "" {
			return &topicSettings[i], true
		}
	}
	return nil, false
}
