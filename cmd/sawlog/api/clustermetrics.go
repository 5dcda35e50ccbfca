package api

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"sawlog/broker"
)

// clusterNumber is one number of a broker's place in its cluster, and its name.
type clusterNumber struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*broker.ClusterSnapshot) float64
}

func clusterGauge(name, help string, read func(*broker.ClusterSnapshot) int64) clusterNumber {
	return clusterNumber{desc(name, help), prometheus.GaugeValue, func(m *broker.ClusterSnapshot) float64 { return float64(read(m)) }}
}

func clusterFlag(name, help string, read func(*broker.ClusterSnapshot) bool) clusterNumber {
	return clusterNumber{desc(name, help), prometheus.GaugeValue, func(m *broker.ClusterSnapshot) float64 {
		if read(m) {
			return 1
		}
		return 0
	}}
}

func clusterCounter(name, help string, read func(*broker.ClusterSnapshot) float64) clusterNumber {
	return clusterNumber{desc(name, help), prometheus.CounterValue, read}
}

var clusterNumbers = []clusterNumber{
	clusterFlag("sawlog_active_controller", "1 on the broker that is the active controller.", func(m *broker.ClusterSnapshot) bool { return m.ActiveController }),
	clusterFlag("sawlog_broker_fenced", "1 while this broker is out of service.", func(m *broker.ClusterSnapshot) bool { return m.Fenced }),
	clusterGauge("sawlog_brokers_fenced", "Brokers of the cluster that are out of service.", func(m *broker.ClusterSnapshot) int64 { return m.FencedBrokers }),
	clusterGauge("sawlog_metadata_term", "Raft term of the metadata log.", func(m *broker.ClusterSnapshot) int64 { return m.Term }),
	clusterGauge("sawlog_metadata_committed_index", "Last entry of the metadata log known to be committed.", func(m *broker.ClusterSnapshot) int64 { return m.Committed }),
	clusterGauge("sawlog_metadata_applied_index", "Last entry of the metadata log this broker acts on.", func(m *broker.ClusterSnapshot) int64 { return m.Applied }),
	clusterGauge("sawlog_partitions_offline", "Partitions of the cluster that have no leader.", func(m *broker.ClusterSnapshot) int64 { return m.Offline }),
	clusterGauge("sawlog_partitions_led", "Partitions this broker leads.", func(m *broker.ClusterSnapshot) int64 { return m.Leads }),
	clusterGauge("sawlog_partitions_under_replicated", "Partitions led here of which a copy is not in sync.", func(m *broker.ClusterSnapshot) int64 { return m.UnderReplicated }),
	clusterGauge("sawlog_partitions_under_min_isr", "Partitions led here that take no records with acks=all.", func(m *broker.ClusterSnapshot) int64 { return m.UnderMinISR }),
	clusterGauge("sawlog_partitions_at_min_isr", "Partitions led here that would take none if one more copy fell behind.", func(m *broker.ClusterSnapshot) int64 { return m.AtMinISR }),
	clusterGauge("sawlog_partitions_reassigning", "Partitions led here that are being moved.", func(m *broker.ClusterSnapshot) int64 { return m.Reassigning }),
	clusterCounter("sawlog_isr_shrinks_total", "Times copies left the ISR of a partition led here.", func(m *broker.ClusterSnapshot) float64 { return float64(m.ISRShrinks) }),
	clusterCounter("sawlog_isr_expands_total", "Times copies joined the ISR of a partition led here.", func(m *broker.ClusterSnapshot) float64 { return float64(m.ISRExpands) }),
	clusterCounter("sawlog_leader_elections_total", "Elections this broker became a leader by.", func(m *broker.ClusterSnapshot) float64 { return float64(m.Elections) }),
	clusterCounter("sawlog_unclean_leader_elections_total", "Those of them that may have lost records.", func(m *broker.ClusterSnapshot) float64 { return float64(m.Unclean) }),
	clusterCounter("sawlog_takeovers_total", "Changes of the metadata by which this broker began to lead partitions.", func(m *broker.ClusterSnapshot) float64 { return float64(m.Takeovers) }),
	clusterCounter("sawlog_takeover_seconds_total", "Time this broker took to begin to lead, once told.", func(m *broker.ClusterSnapshot) float64 { return m.TakeoverTime.Seconds() }),
}

var followerLag = desc("sawlog_follower_lag_records", "Offsets a follower is behind on the partition led here on which it is furthest behind.", "broker")

// collectPlace tells of a broker's place in its cluster.
func collectPlace(ch chan<- prometheus.Metric, m broker.ClusterSnapshot) {
	for _, n := range clusterNumbers {
		ch <- prometheus.MustNewConstMetric(n.desc, n.kind, n.read(&m))
	}
	for id, behind := range m.Lag {
		ch <- prometheus.MustNewConstMetric(followerLag, prometheus.GaugeValue, float64(behind), strconv.Itoa(int(id)))
	}
}
