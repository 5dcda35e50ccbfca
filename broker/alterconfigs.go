package broker

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
)

// AlterConfigs, versions 0–2, replaces all configurations of a resource;
// IncrementalAlterConfigs, versions 0–1 (KIP-339), changes single ones by SET,
// DELETE, APPEND and SUBTRACT, the last two on lists. Each resource is changed
// wholly or not at all. Broker resources take the broker-wide defaults of topic
// configurations, for one broker or, named "", for all (KIP-226). Loggers,
// client metrics and groups have none that could be changed.

func (b *Broker) alterConfigs(r *kmsg.AlterConfigsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.AlterConfigsResponse)
	count := map[resource]int{}
	for i := range r.Resources {
		count[resource{r.Resources[i].ResourceType, r.Resources[i].ResourceName}]++
	}
	for i := range r.Resources {
		of := resource{r.Resources[i].ResourceType, r.Resources[i].ResourceName}
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = of.kind, of.name
		asks := make([]configAsk, 0, len(r.Resources[i].Configs))
		for _, c := range r.Resources[i].Configs {
			asks = append(asks, configAsk{name: c.Name, value: c.Value})
		}
		ops, err := configOps(asks)
		switch {
		case count[of] > 1:
			err = errResourceTwice()
		case of.kind == kmsg.ConfigResourceTypeBrokerLogger:
			err = errUnknownResource(of.kind)
		case err == nil:
			err = b.changeConfigs(of, controller.ConfigChange{Ops: ops, Replace: true, ValidateOnly: r.ValidateOnly})
		}
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		m.Resources = append(m.Resources, out)
	}
	return m
}

func (b *Broker) incrementalAlterConfigs(r *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	count := map[resource]int{}
	for i := range r.Resources {
		count[resource{r.Resources[i].ResourceType, r.Resources[i].ResourceName}]++
	}
	for i := range r.Resources {
		of := resource{r.Resources[i].ResourceType, r.Resources[i].ResourceName}
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = of.kind, of.name
		asks := make([]configAsk, 0, len(r.Resources[i].Configs))
		for _, c := range r.Resources[i].Configs {
			asks = append(asks, configAsk{c.Name, c.Op, c.Value})
		}
		ops, err := configOps(asks)
		switch {
		case count[of] > 1:
			err = errResourceTwice()
		case err == nil:
			err = b.changeConfigs(of, controller.ConfigChange{Ops: b.fromDefaults(of, ops), ValidateOnly: r.ValidateOnly})
		}
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		m.Resources = append(m.Resources, out)
	}
	return m
}

// resource is what configurations belong to.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

func errResourceTwice() error {
	return refuse(kerr.InvalidRequest, "Each resource must appear at most once.")
}

func errUnknownResource(kind kmsg.ConfigResourceType) error {
	return refuse(kerr.InvalidRequest, "Unknown resource type %d", int8(kind))
}

// configAsk is one change of a request; the operation of the whole-sale
// AlterConfigs is SET.
type configAsk struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

func configOps(asks []configAsk) ([]controller.ConfigOp, error) {
	ops := make([]controller.ConfigOp, 0, len(asks))
	var nulls []string
	seen := make(map[string]bool, len(asks))
	for _, c := range asks {
		if seen[c.name] {
			return nil, refuse(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[c.name] = true
		if c.value == nil && c.op != kmsg.IncrementalAlterConfigOpDelete {
			nulls = append(nulls, c.name)
			continue
		}
		op := controller.ConfigOp{Key: c.name}
		if c.value != nil {
			op.Value = *c.value
		}
		if len(op.Value) > controller.MaxConfigValue {
			return nil, refuse(kerr.InvalidConfig, "The value of %s has %d bytes, at most %d can be kept.", c.name, len(op.Value), controller.MaxConfigValue)
		}
		switch c.op {
		case kmsg.IncrementalAlterConfigOpSet:
			op.Kind = controller.Set
		case kmsg.IncrementalAlterConfigOpDelete:
			op.Kind, op.Value = controller.Delete, ""
		case kmsg.IncrementalAlterConfigOpAppend:
			op.Kind = controller.Append
		case kmsg.IncrementalAlterConfigOpSubtract:
			op.Kind = controller.Subtract
		default:
			return nil, refuse(kerr.InvalidRequest, "Unknown operation %d on %s", c.op, c.name)
		}
		ops = append(ops, op)
	}
	if len(nulls) > 0 {
		return nil, refuse(kerr.InvalidRequest, "Null value not supported for : %s", strings.Join(nulls, ","))
	}
	return ops, nil
}

// checkLists refuses to add to, or take from, what isn't a list.
func checkLists(ops []controller.ConfigOp) error {
	for _, op := range ops {
		verb := "APPEND to"
		switch op.Kind {
		case controller.Append:
		case controller.Subtract:
			verb = "SUBTRACT from"
		default:
			continue
		}
		if !isList(op.Key) {
			return refuse(kerr.InvalidConfig, "Can't %s key %s because its type is not LIST.", verb, op.Key)
		}
	}
	return nil
}

// fromDefaults turns an APPEND to or a SUBTRACT from a list that the resource
// doesn't set itself into a SET: Kafka begins with what is in force, which the
// controller doesn't know.
func (b *Broker) fromDefaults(of resource, ops []controller.ConfigOp) []controller.ConfigOp {
	im := b.controller.Image()
	l, set := b.brokerLayers(im), im.BrokerConfig
	switch of.kind {
	case kmsg.ConfigResourceTypeTopic:
		t, ok := im.TopicByName(of.name)
		if !ok {
			return ops
		}
		l, set = b.layers(t, im), t.Configs
	case kmsg.ConfigResourceTypeBroker:
		if of.name != "" {
			set = im.BrokerConfigs(b.nodeID)
		}
	}
	for i, op := range ops {
		s, known := findSetting(op.Key)
		if of.kind == kmsg.ConfigResourceTypeBroker {
			s, known = findBrokerSetting(op.Key)
		}
		if _, given := set[op.Key]; !known || given || s.kind != kmsg.ConfigTypeList || op.Kind != controller.Append && op.Kind != controller.Subtract {
			continue
		}
		v, _ := l.find(s)
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

func (b *Broker) changeConfigs(of resource, change controller.ConfigChange) error {
	var err error
	switch of.kind {
	case kmsg.ConfigResourceTypeTopic:
		change.Resource = controller.Resource{Kind: controller.TopicResource, Name: of.name}
		if of.name == "" {
			err = refuse(kerr.InvalidRequest, "Default topic resources are not allowed.")
		} else {
			err = controller.CheckTopicName(of.name)
		}
	case kmsg.ConfigResourceTypeBroker:
		change.Resource = controller.Resource{Kind: controller.BrokerResource, Name: of.name}
		err = b.checkBrokerChange(of.name, change.Ops)
	default:
		return b.changeNothing(of, change.Ops)
	}
	if err == nil {
		err = checkLists(change.Ops)
	}
	if err != nil {
		return err
	}
	ctx, cancel := b.adminContext(0)
	defer cancel()
	return b.controller.AlterConfigs(ctx, change)
}

// checkBrokerChange judges a change of brokers' configurations with the codes
// Kafka's broker has for them; the controller's are those of topics.
func (b *Broker) checkBrokerChange(name string, ops []controller.ConfigOp) error {
	if name != "" {
		switch id, err := strconv.ParseInt(name, 10, 32); {
		case err != nil:
			return refuse(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", name)
		case int32(id) != int32(b.nodeID):
			return refuse(kerr.InvalidRequest, "Unexpected broker id, expected %d, but received %s", b.nodeID, name)
		}
	}
	var fixed []string
	for _, op := range ops {
		s, ok := findBrokerSetting(op.Key)
		switch {
		case !ok && op.Kind == controller.Delete && !b.isStartSetting(op.Key):
			// What nobody knows isn't set either.
		case !ok:
			fixed = append(fixed, op.Key)
		case op.Kind == controller.Set:
			if _, whole := findClusterSetting(op.Key); whole && name != "" {
				return errOfCluster(op.Key)
			}
			if err := s.judge(op.Key, op.Value); err != nil {
				return refuse(kerr.InvalidRequest, "%s", err)
			}
		}
	}
	if len(fixed) > 0 {
		return refuse(kerr.InvalidRequest, "Cannot update these configs dynamically: [%s]", strings.Join(fixed, ", "))
	}
	return nil
}

// isStartSetting tells whether a start decides a setting.
func (b *Broker) isStartSetting(name string) bool {
	_, ok := findStartSetting(name)
	return ok || slices.ContainsFunc(b.fixedSettings(), func(f fixedSetting) bool { return f.name == name })
}

// logLevels are those a logger can be set to.
const logLevels = "DEBUG, ERROR, FATAL, INFO, TRACE, WARN"

// changeNothing answers for the resources that have no configurations: to
// change none of them is no error.
func (b *Broker) changeNothing(of resource, ops []controller.ConfigOp) error {
	switch of.kind {
	case kmsg.ConfigResourceTypeBrokerLogger:
		switch id, err := strconv.ParseInt(of.name, 10, 32); {
		case err != nil:
			return refuse(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", of.name)
		case int32(id) != int32(b.nodeID):
			return refuse(kerr.InvalidRequest, "Unexpected node id. Expected %d, but received %s", b.nodeID, of.name)
		}
	case kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
	default:
		return errUnknownResource(of.kind)
	}
	if len(ops) == 0 {
		return nil
	}
	name, level := ops[0].Key, ops[0].Value
	switch {
	case of.kind == kmsg.ConfigResourceTypeClientMetrics:
		return refuse(kerr.InvalidRequest, "Unknown client metrics configuration: %s", name)
	case of.kind == kmsg.ConfigResourceTypeGroupConfig:
		return refuse(kerr.InvalidConfig, "Unknown group config name: %s", name)
	case ops[0].Kind == controller.Set && !slices.Contains(strings.Split(logLevels, ", "), level):
		return refuse(kerr.InvalidConfig, "Cannot set the log level of %s to %s as it is not a supported log level. Valid log levels are %s", name, level, logLevels)
	}
	return refuse(kerr.InvalidConfig, "Logger %s does not exist!", name)
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
			return refuse(kerr.InvalidConfig, "%s can't be changed while a broker runs", name)
		}
		if _, whole := findClusterSetting(name); whole && r.Name != "" {
			return errOfCluster(name)
		}
		if err := s.judge(name, value); err != nil {
			return err
		}
	}
	return nil
}

// findBrokerSetting finds what can be changed while a broker runs: a topic's
// configuration by the name of its broker-wide default, a throttle, what a class of
// readers may be sent, or what counts for the whole cluster.
func findBrokerSetting(name string) (*setting, bool) {
	for i := range topicSettings {
		if topicSettings[i].broker == name && name != "" {
			return &topicSettings[i], true
		}
	}
	for i := range throttleSettings {
		if throttleSettings[i].name == name {
			return &throttleSettings[i], true
		}
	}
	if s, ok := findClassSetting(name); ok {
		return s, true
	}
	return findClusterSetting(name)
}
