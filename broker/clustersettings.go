package broker

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterSettings count for the cluster as a whole: whoever is its active
// controller goes by them. They are set for all brokers, while these run; a
// value for one broker or at its start would change with who controls. Kafka
// has the first two as settings of each controller's start, and its brokers'
// sessions last longer: there nothing else tells that a process has ended.
var clusterSettings = [...]setting{
	{"auto.leader.rebalance.enable", kmsg.ConfigTypeBoolean, "true", "auto.leader.rebalance.enable", isBool, "Whether leaders move back to the first replicas of their partitions once the brokers have been steady."},
	{"broker.session.timeout.ms", kmsg.ConfigTypeInt, "600", "broker.session.timeout.ms", intIn(300, math.MaxInt32), "How long a broker may be silent before it is taken out of service; one whose process has ended is at once."},
	{"controller.voter.replacement.ms", kmsg.ConfigTypeLong, "600000", "controller.voter.replacement.ms", intIn(1000, math.MaxInt64), "How long a broker that votes on the metadata may be out of service before another one votes in its place."},
}

// findClusterSetting finds a setting of the whole cluster.
func findClusterSetting(name string) (*setting, bool) {
	for i := range clusterSettings {
		if clusterSettings[i].name == name {
			return &clusterSettings[i], true
		}
	}
	return nil, false
}

// errOfCluster refuses a setting of the whole cluster for one broker.
func errOfCluster(name string) error {
	return refuse(kerr.InvalidRequest, "%s counts for the whole cluster: set it for all brokers, --entity-default", name)
}
