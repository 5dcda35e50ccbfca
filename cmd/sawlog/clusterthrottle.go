package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
	"sawlog/jobs"
)

// Throttles of moves (KIP-73), as Kafka's kafka-reassign-partitions sets them: a
// rate on each broker that sends or takes copies in, and on each topic the lists
// of the replicas that it holds for.

var (
	throttleRates = []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
	throttleLists = []string{"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)

// throttleOf is the brokers that take part in moves, and for each topic the two
// lists of replicas: of those that have the records, and of those that get them.
func throttleOf(moves []move) (brokers []int32, lists map[string][2]string) {
	type pair struct{ from, to []string }
	of := map[string]*pair{}
	for _, m := range moves {
		if of[m.Topic] == nil {
			of[m.Topic] = &pair{}
		}
		p := of[m.Topic]
		for _, id := range slices.Concat(m.From, m.To) {
			if !slices.Contains(brokers, id) {
				brokers = append(brokers, id)
			}
			replica := fmt.Sprintf("%d:%d", m.Partition, id)
			switch had := slices.Contains(m.From, id); {
			case had && !slices.Contains(p.from, replica):
				p.from = append(p.from, replica)
			case !had:
				p.to = append(p.to, replica)
			}
		}
	}
	slices.Sort(brokers)
	lists = map[string][2]string{}
	for topic, p := range of {
		lists[topic] = [2]string{strings.Join(p.from, ","), strings.Join(p.to, ",")}
	}
	return brokers, lists
}

// throttle holds the copying of moves to a rate of bytes a second; 0 takes the
// throttle away.
func (k *kafka) throttle(ctx context.Context, moves []move, rate int64) error {
	brokers, lists := throttleOf(moves)
	var changes []admin.Change
	change := func(kind kmsg.ConfigResourceType, name string, keys []string, values [2]string) {
		c := admin.Change{Kind: kind, Name: name}
		for i, key := range keys {
			if rate > 0 {
				c.Set = append(c.Set, [2]string{key, values[i]})
			} else {
				c.Unset = append(c.Unset, key)
			}
		}
		changes = append(changes, c)
	}
	text := strconv.FormatInt(rate, 10)
	for _, id := range brokers {
		change(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), throttleRates, [2]string{text, text})
	}
	for _, topic := range slices.Sorted(maps.Keys(lists)) {
		change(kmsg.ConfigResourceTypeTopic, topic, throttleLists, lists[topic])
	}
	return deed(admin.AlterConfigs(ctx, k, changes, false), "the same command with --throttle 0 takes the throttle away")
}

// throttleRate reads --throttle: bytes a second, 0 = none.
func throttleRate(text string) (int64, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	n, err := jobs.ParseSize(text)
	if err != nil || n <= 0 {
		return 0, output.Errorf(output.Usage, "--throttle %q: want bytes a second, such as 10MiB, or 0", text)
	}
	return n, nil
}
