package broker

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"sawlog/broker/controller"
	"sawlog/broker/replica"
	"sawlog/offsets"
)

// Throttles of replication (KIP-73): what a broker sends to, and takes in as,
// replicas that aren't in sync is held to rates where topics list the replicas.
// Kafka's kafka-reassign-partitions sets and unsets both.

// The settings: rates of brokers, replicas of topics.
const (
	leaderRateKey       = "leader.replication.throttled.rate"
	followerRateKey     = "follower.replication.throttled.rate"
	leaderReplicasKey   = "leader.replication.throttled.replicas"
	followerReplicasKey = "follower.replication.throttled.replicas"
)

// throttles are those of a broker.
type throttles struct{ leading, following replica.Throttle }

// throttled are the replicas that a topic lists.
type throttled struct {
	all  bool
	some map[int32][]offsets.BrokerID // by partition
}

// parseThrottled reads "PARTITION:BROKER,…" or "*", which was checked.
func parseThrottled(v string) (t throttled) {
	if v == "*" {
		return throttled{all: true}
	}
	for _, item := range splitList(v) {
		partition, broker, _ := strings.Cut(item, ":")
		p, err1 := strconv.ParseInt(partition, 10, 32)
		id, err2 := strconv.ParseInt(broker, 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		if t.some == nil {
			t.some = map[int32][]offsets.BrokerID{}
		}
		t.some[int32(p)] = append(t.some[int32(p)], offsets.BrokerID(id))
	}
	return t
}

// lists tells whether the replica of a partition on a broker is listed.
func (t throttled) lists(partition int32, id offsets.BrokerID) bool {
	if t.all {
		return true
	}
	return slices.Contains(t.some[partition], id)
}

// throttle holds up the replicas here that a topic lists, and no others.
func (b *Broker) throttle(t *topic) {
	for i, p := range t.partitions {
		if p == nil {
			continue
		}
		var leading, following *replica.Throttle
		if t.config.slowLeading.lists(int32(i), b.nodeID) {
			leading = &b.throttles.leading
		}
		if t.config.slowFollowing.lists(int32(i), b.nodeID) {
			following = &b.throttles.following
		}
		p.Throttle(leading, following)
	}
}

// setRates takes over the rates in force.
func (b *Broker) setRates(im *controller.Image) {
	own, all := im.BrokerConfigs(b.nodeID), im.BrokerConfig
	b.throttles.leading.SetRate(dynamicNumber(own, all, leaderRateKey, math.MaxInt64))
	b.throttles.following.SetRate(dynamicNumber(own, all, followerRateKey, math.MaxInt64))
	b.batch.setRate(b.brokerLayers(im).batchRate())
}

// dynamicNumber is a setting of brokers that can be changed while they run: as it
// is set for this one, else for all.
func dynamicNumber(own, all map[string]string, key string, otherwise int64) int64 {
	v, ok := own[key]
	if !ok {
		v, ok = all[key]
	}
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	if !ok || err != nil {
		return otherwise
	}
	return n
}
