package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/consumer/admin"
)

func (a *app) clusters() *cobra.Command {
	c := &cobra.Command{
		Use: "cluster", Short: "Show a cluster, move its partitions and their leaders",
		Example: "  sawlog cluster status\n  sawlog cluster drain 3 --dry-run",
	}
	c.AddCommand(a.clusterStatus(), a.clusterBrokers(), a.clusterDrain(), a.clusterMove(), a.clusterElect(), a.clusterForget(), a.clusterUpgrade(), a.clusterKey())
	return c
}

// fleet is a cluster at one moment, as its brokers tell it.
type fleet struct {
	*admin.Fleet
	partitions []*admin.Partition // by topic and number
}

// fleet connects to a cluster and looks at it.
func (a *app) fleet(ctx context.Context) (*kafka, *fleet, error) {
	k, err := a.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	f, err := k.fleet(ctx)
	if err != nil {
		k.Close()
		return nil, nil, err
	}
	return k, f, nil
}

// fleet asks for the cluster, its brokers and where its partitions are: the active
// controller, who knows a change first, and any broker where that one can't be
// reached.
func (k *kafka) fleet(ctx context.Context) (*fleet, error) {
	told, err := admin.Describe(ctx, k)
	if err != nil {
		return nil, err
	}
	asked := []consumer.Requestor{k}
	if told.Controller >= 0 {
		asked = []consumer.Requestor{k.Broker(told.Controller), k}
	}
	for _, at := range asked {
		if told.Topics, err = admin.Topics(ctx, at); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	f := &fleet{told, admin.PartitionsOf(told.Topics)}
	if err := admin.Moves(ctx, k, f.partitions); err != nil {
		return nil, err
	}
	f.Carry()
	return f, nil
}

// up tells whether a broker is in service.
func (f *fleet) up(id int32) bool {
	b := f.Broker(id)
	return b != nil && !b.Fenced
}

// mustKnow is an error for a broker the cluster does not know.
func (f *fleet) mustKnow(id int32) error {
	if f.Broker(id) != nil {
		return nil
	}
	return output.Errorf(output.NotFound, "no broker %d in the cluster", id).WithHint("sawlog cluster brokers")
}

// minISR asks how many copies some topics want in sync before a record with
// acks=all is taken.
func (k *kafka) minISR(ctx context.Context, topics []string) (map[string]int, error) {
	found := map[string]int{}
	configs, err := admin.Configs(ctx, k, kmsg.ConfigResourceTypeTopic, topics, []string{admin.MinISR})
	if err != nil && !errors.Is(err, consumer.ErrUnknownTopic) { // deleted meanwhile
		return nil, err
	}
	for topic, list := range configs {
		found[topic] = admin.LeastInSync(list)
	}
	return found, nil
}
