package broker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// op is one change of a configuration; value "<nil>" is none.
type op struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value string
}

func alterOne(t *testing.T, c *wire.Conn, kind kmsg.ConfigResourceType, name string, dry bool, ops ...op) (int16, string) {
	t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.ValidateOnly = dry
	res := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kind, ResourceName: name}
	for i := range ops {
		config := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: ops[i].name, Op: ops[i].op}
		if ops[i].value != "<nil>" {
			config.Value = &ops[i].value
		}
		res.Configs = append(res.Configs, config)
	}
	r.Resources = append(r.Resources, res)
	got := ask[*kmsg.IncrementalAlterConfigsResponse](t, c, r).Resources[0]
	return got.ErrorCode, deref(got.ErrorMessage)
}

// TestIncrementalAlterConfigsAnswers: codes and words are Kafka 4.4's.
func TestIncrementalAlterConfigsAnswers(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "t", 1)
	const (
		topic   = kmsg.ConfigResourceTypeTopic
		node    = kmsg.ConfigResourceTypeBroker
		logger  = kmsg.ConfigResourceTypeBrokerLogger
		metrics = kmsg.ConfigResourceTypeClientMetrics
		group   = kmsg.ConfigResourceTypeGroupConfig
		set     = kmsg.IncrementalAlterConfigOpSet
		unset   = kmsg.IncrementalAlterConfigOpDelete
		plus    = kmsg.IncrementalAlterConfigOpAppend
		minus   = kmsg.IncrementalAlterConfigOpSubtract
	)
	for _, tc := range []struct {
		kind    kmsg.ConfigResourceType
		name    string
		ops     []op
		code    int16
		message string
	}{
		{topic, "t", nil, 0, "<nil>"},
		{topic, "t", []op{{"retention.ms", set, "7000"}}, 0, "<nil>"},
		{topic, "t", []op{{"retention.ms", set, " 7000 "}}, 0, "<nil>"},
		{topic, "t", []op{{"retention.ms", set, "x"}}, 40, "Invalid value x for configuration retention.ms: Not a number of type LONG"},
		{topic, "t", []op{{"segment.bytes", set, "99999999999"}}, 40, "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"},
		{topic, "t", []op{{"retention.ms", set, "-2"}}, 40, "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{topic, "t", []op{{"compression.gzip.level", set, "0"}}, 40, "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{topic, "t", []op{{"cleanup.policy", set, "foo"}}, 40, "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"},
		{topic, "t", []op{{"cleanup.policy", set, ""}}, 0, "<nil>"},
		{topic, "t", []op{{"preallocate", set, "yes"}}, 40, "Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{topic, "t", []op{{"remote.storage.enable", set, "true"}}, 40, "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."},
		{topic, "t", []op{{"leader.replication.throttled.replicas", set, "0:1,1:1"}}, 0, "<nil>"},
		{topic, "t", []op{{"leader.replication.throttled.replicas", set, "*"}}, 0, "<nil>"},
		{topic, "t", []op{{"retention.ms", set, "<nil>"}, {"flush.ms", set, "<nil>"}}, 42, "Null value not supported for : retention.ms,flush.ms"},
		{topic, "t", []op{{"retention.ms", plus, "1"}}, 40, "Can't APPEND to key retention.ms because its type is not LIST."},
		{topic, "t", []op{{"retention.ms", minus, "1"}}, 40, "Can't SUBTRACT from key retention.ms because its type is not LIST."},
		{topic, "t", []op{{"segment.ms", unset, "<nil>"}}, 0, "<nil>"},
		{topic, "t", []op{{"nope", unset, "<nil>"}}, 0, "<nil>"},
		{topic, "t", []op{{"nope", set, "1"}}, 40, "Unknown topic config name: nope"},
		{topic, "t", []op{{"retention.ms", set, "1"}, {"retention.ms", set, "2"}}, 42, "Error due to duplicate config keys"},
		{topic, "absent", []op{{"retention.ms", set, "1"}}, 3, "The topic 'absent' does not exist."},
		{topic, "", []op{{"retention.ms", set, "1"}}, 42, "Default topic resources are not allowed."},
		{topic, "a/b", []op{{"retention.ms", set, "1"}}, 17, "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{node, "", []op{{"log.retention.ms", set, "60000"}}, 0, "<nil>"},
		{node, "1", []op{{"log.cleanup.policy", plus, "compact"}}, 0, "<nil>"},
		{node, "1", []op{{"log.dirs", set, "/x"}}, 42, "Cannot update these configs dynamically: [log.dirs]"},
		{node, "", []op{{"num.partitions", set, "3"}}, 42, "Cannot update these configs dynamically: [num.partitions]"},
		{node, "1", []op{{"leader.replication.throttled.rate", set, "1000"}}, 0, "<nil>"},
		{node, "1", []op{{"leader.replication.throttled.rate", unset, "<nil>"}, {"nope", unset, "<nil>"}}, 0, "<nil>"},
		{node, "", []op{{"broker.session.timeout.ms", set, "2000"}, {"auto.leader.rebalance.enable", set, "false"}, {"controller.voter.replacement.ms", set, "60000"}}, 0, "<nil>"},
		{node, "", []op{{"broker.session.timeout.ms", set, "10"}}, 42, "Invalid value 10 for configuration broker.session.timeout.ms: Value must be at least 300"},
		{node, "1", []op{{"auto.leader.rebalance.enable", set, "false"}}, 42, "auto.leader.rebalance.enable counts for the whole cluster: set it for all brokers, --entity-default"},
		{node, "1", []op{{"num.partitions", unset, "<nil>"}}, 42, "Cannot update these configs dynamically: [num.partitions]"},
		{node, "1", []op{{"log.retention.ms", set, "x"}}, 42, "Invalid value x for configuration log.retention.ms: Not a number of type LONG"},
		{node, "2", []op{{"log.retention.ms", set, "1"}}, 42, "Unexpected broker id, expected 1, but received 2"},
		{node, "x", []op{{"log.retention.ms", set, "1"}}, 42, "Node id must be an integer, but it is: x"},
		{logger, "1", []op{{"no.such", set, "DEBUG"}}, 40, "Logger no.such does not exist!"},
		{logger, "1", []op{{"root", set, "NOISY"}}, 40, "Cannot set the log level of root to NOISY as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"},
		{logger, "2", []op{{"root", set, "DEBUG"}}, 42, "Unexpected node id. Expected 1, but received 2"},
		{metrics, "c", []op{{"nope", set, "1"}}, 42, "Unknown client metrics configuration: nope"},
		{group, "g", nil, 0, "<nil>"},
		{group, "g", []op{{"nope", set, "1"}}, 40, "Unknown group config name: nope"},
		{7, "x", nil, 42, "Unknown resource type 7"},
		{0, "x", nil, 42, "Unknown resource type 0"},
	} {
		for _, dry := range []bool{true, false} {
			code, message := alterOne(t, c, tc.kind, tc.name, dry, tc.ops...)
			if code != tc.code || message != tc.message {
				t.Errorf("%v %q %+v, dry %v: %d %q", tc.kind, tc.name, tc.ops, dry, code, message)
			}
		}
	}
	// What was only validated changed nothing.
	alterOne(t, c, topic, "t", true, op{"retention.ms", set, "1"})
	all, _ := described(t, c, topic, "t")
	if got := deref(all["retention.ms"].Value); strings.TrimSpace(got) != "7000" {
		t.Errorf("retention.ms %s", got)
	}
	// One of a broker's own is what its topics follow.
	if got := deref(all["cleanup.policy"].Value); got != "" {
		t.Errorf("cleanup.policy of the topic %q", got)
	}
	if all, _ := described(t, c, node, "1"); deref(all["log.cleanup.policy"].Value) != "delete,compact" {
		t.Errorf("log.cleanup.policy %s", deref(all["log.cleanup.policy"].Value))
	}
}

func TestAlterConfigsAnswers(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "t", 1, "retention.ms", "5")
	value := "1"
	for _, tc := range []struct {
		kind    kmsg.ConfigResourceType
		name    string
		configs []kmsg.AlterConfigsRequestResourceConfig
		code    int16
		message string
	}{
		{2, "t", []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.ms"}}, 42, "Null value not supported for : segment.ms"},
		{2, "t", []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: &value}, {Name: "segment.ms", Value: &value}}, 42, "Error due to duplicate config keys"},
		{2, "absent", nil, 3, "The topic 'absent' does not exist."},
		{2, "t", []kmsg.AlterConfigsRequestResourceConfig{{Name: "nope", Value: &value}}, 40, "Unknown topic config name: nope"},
		{8, "1", nil, 42, "Unknown resource type 8"},
		{7, "x", nil, 42, "Unknown resource type 7"},
		{32, "g", nil, 0, "<nil>"},
		{2, "t", []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: &value}}, 0, "<nil>"},
	} {
		r := kmsg.NewPtrAlterConfigsRequest()
		r.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: tc.kind, ResourceName: tc.name, Configs: tc.configs}}
		got := ask[*kmsg.AlterConfigsResponse](t, c, r).Resources[0]
		if got.ErrorCode != tc.code || deref(got.ErrorMessage) != tc.message {
			t.Errorf("%v %s %+v: %d %q", tc.kind, tc.name, tc.configs, got.ErrorCode, deref(got.ErrorMessage))
		}
	}
	all, _ := described(t, c, kmsg.ConfigResourceTypeTopic, "t")
	if deref(all["segment.ms"].Value) != "1" || deref(all["retention.ms"].Value) != "604800000" {
		t.Errorf("replaced: segment.ms %s, retention.ms %s", deref(all["segment.ms"].Value), deref(all["retention.ms"].Value))
	}
	twice := kmsg.NewPtrAlterConfigsRequest()
	twice.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: 2, ResourceName: "t"}, {ResourceType: 2, ResourceName: "t"}}
	for _, got := range ask[*kmsg.AlterConfigsResponse](t, c, twice).Resources {
		if got.ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("a topic twice: %+v", got)
		}
	}
}

func TestDescribeConfigsAnswers(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, func(c *broker.Config) { c.Rack = "r1" }))
	createTopic(t, c, "t", 1)
	for _, tc := range []struct {
		kind    kmsg.ConfigResourceType
		name    string
		code    int16
		message string
	}{
		{2, "t", 0, ""},
		{2, "absent", 3, ""},
		{2, "", 17, "Topic name is invalid: the empty string is not allowed"},
		{4, "", 0, ""},
		{4, "1", 0, ""},
		{4, "2", 42, "Unexpected broker id, expected 1 or empty string, but received 2"},
		{4, "x", 42, "Broker id must be an integer, but it is: x"},
		{8, "1", 0, ""},
		{8, "2", 42, "Unexpected broker id, expected 1 but received 2"},
		{8, "", 42, "Broker id must not be empty"},
		{16, "c", 0, ""},
		{16, "", 42, "Client metrics subscription name must not be empty"},
		{32, "g", 0, ""},
		{32, "", 42, "Group name must not be empty"},
	} {
		r := kmsg.NewPtrDescribeConfigsRequest()
		r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: tc.kind, ResourceName: tc.name}}
		got := ask[*kmsg.DescribeConfigsResponse](t, c, r).Resources[0]
		if got.ErrorCode != tc.code || deref(got.ErrorMessage) != tc.message {
			t.Errorf("%v %q: %d %q", tc.kind, tc.name, got.ErrorCode, deref(got.ErrorMessage))
		}
	}
	all, _ := described(t, c, kmsg.ConfigResourceTypeBroker, "1")
	for name, want := range map[string]string{
		"broker.rack": "r1", "node.id": "1", "group.initial.rebalance.delay.ms": "0", "offsets.retention.minutes": "20160", "process.roles": "broker,controller",
	} {
		if got := all[name]; deref(got.Value) != want || !got.ReadOnly || len(got.ConfigSynonyms) == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// Names that are asked for, and only those that are there.
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: 2, ResourceName: "t", ConfigNames: []string{"retention.ms", "nope"}}}
	got := ask[*kmsg.DescribeConfigsResponse](t, c, r).Resources[0].Configs
	if len(got) != 1 || got[0].Name != "retention.ms" || got[0].Documentation != nil || len(got[0].ConfigSynonyms) != 0 {
		t.Errorf("asked for one: %+v", got)
	}
	if !slices.IsSortedFunc(got, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("out of order")
	}
}

// TestDefaultsByBrokerNames: a start takes topics' defaults by Kafka's
// broker-wide names too, and refuses what it can't make sense of.
func TestDefaultsByBrokerNames(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, func(c *broker.Config) {
		c.Defaults = map[string]string{"log.retention.ms": "11", "log.segment.bytes": "22222222", "segment.bytes": "33333333", "group.max.size": "5"}
	}))
	createTopic(t, c, "t", 1)
	all, _ := described(t, c, kmsg.ConfigResourceTypeTopic, "t")
	for name, want := range map[string]string{"retention.ms": "11", "segment.bytes": "33333333"} {
		if got := all[name]; deref(got.Value) != want || got.Source != kmsg.ConfigSourceStaticBrokerConfig {
			t.Errorf("%s is %s from %v", name, deref(got.Value), got.Source)
		}
	}
	for name, value := range map[string]string{"group.max.size": "0", "log.retention.ms": "x", "auto.create.topics.enable": "perhaps"} {
		b, err := broker.Open(t.Context(), broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Defaults: map[string]string{name: value}})
		if err == nil {
			t.Errorf("%s=%s was taken", name, value)
			brokertest.Stop(t, b)
		}
	}
}

// TestBrokerConfigsActOnTopics: what is set for a broker, or for all, acts at
// once on the topics that don't set it themselves.
func TestBrokerConfigsActOnTopics(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "t", 1)
	createTopic(t, c, "own", 1, "max.message.bytes", "1000000")
	batch := batchOf(t, record.None, now(), strings.Repeat("x", 500))
	const (
		node  = kmsg.ConfigResourceTypeBroker
		set   = kmsg.IncrementalAlterConfigOpSet
		unset = kmsg.IncrementalAlterConfigOpDelete
	)
	tooLarge := kerr.MessageTooLarge.Code
	for i, step := range []struct {
		resource string
		op       op
		want     int16
	}{
		{"", op{"message.max.bytes", set, "100"}, tooLarge},
		{"1", op{"message.max.bytes", set, "1000"}, 0},
		{"1", op{"message.max.bytes", unset, "<nil>"}, tooLarge},
		{"", op{"message.max.bytes", unset, "<nil>"}, 0},
	} {
		if code, message := alterOne(t, c, node, step.resource, false, step.op); code != 0 {
			t.Fatalf("step %d: %d %s", i, code, message)
		}
		if got := put(t, c, "t", batch); got.ErrorCode != step.want {
			t.Errorf("step %d: code %d, want %d", i, got.ErrorCode, step.want)
		}
		if got := put(t, c, "own", batch); got.ErrorCode != 0 {
			t.Errorf("step %d, a topic with its own: code %d", i, got.ErrorCode)
		}
	}
}
