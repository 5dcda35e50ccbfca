package main

import (
	"time"

	"sawlog/cmd/sawlog/console"
	"sawlog/consumer"
)

// newLink prepares the connection by which API and console ask the server's own
// cluster, as any client would.
func newLink(addr string) *consumer.Link {
	return consumer.NewLink(consumer.Config{Brokers: []string{addr}, ClientID: "sawlog-server", Timeout: 10 * time.Second})
}

// sources is what the pages of topics, groups, outputs, the cluster and its
// settings read.
func (s *server) sources() console.Sources {
	return console.Sources{
		Kafka: s.link.Cluster, Node: int32(s.broker.ID()), TopicDefaults: s.broker.TopicDefaults, Settings: s.settings, Ledger: s.runner.ledger,
	}
}
