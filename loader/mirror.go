package loader

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"sawlog/consumer"
	"sawlog/offsets"
)

// MirrorPrefix starts the names of the groups in which jobs mirror how far they are.
const MirrorPrefix = "sawlog."

// mirrorPatience outlasts a coordinator that vanished without a word: Kafka gives
// it a session of 9 s by default, elects another, and that one reads its part of
// the offsets topic before it answers.
const mirrorPatience = 30 * time.Second

// mirror sets the group offsets other tools look at, and what the brokers are
// to keep for the job. Nothing reads them back, so a failure is only logged.
func (r *run) mirror(ctx context.Context) {
	if r.plan.Kind == Compact { // which reads no log
		return
	}
	r.hold(ctx) // first: it needs no coordinator, and guards what is yet to be loaded
	bounded, cancel := context.WithTimeout(ctx, mirrorPatience)
	defer cancel()
	topics, at := r.nexts(false)
	if len(at) == 0 {
		return
	}
	told, err := consumer.Commit(bounded, r.d.Cluster, MirrorPrefix+r.plan.Job, topics, at)
	if err = cmp.Or(err, consumer.Refused(told)); err != nil {
		r.d.Logger.Warn("group offsets not mirrored", "group", MirrorPrefix+r.plan.Job, "err", err)
	}
}

// holdNew holds the partitions that no record knows yet before the plan is
// carried out, lest retention pass their start meanwhile.
func (r *run) holdNew(ctx context.Context) {
	fold := r.ledger.Fold()
	if slices.ContainsFunc(r.plan.Inputs, func(in PlanInput) bool { return fold.Partitions[in.Key(r.plan.Cluster)] == nil }) {
		r.hold(ctx)
	}
}

// hold asks the source to keep what the job has yet to load past its retention.
func (r *run) hold(ctx context.Context) {
	if r.ask.Hold <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mirrorPatience)
	defer cancel()
	topics, at := r.nexts(true)
	switch err := consumer.Hold(ctx, r.d.Cluster, r.plan.Job, topics, at, r.ask.Hold); {
	case errors.Is(err, consumer.ErrNoHold):
		r.d.Logger.Info("the source keeps nothing for jobs: its retention may delete what is not loaded in time", "job", r.plan.Job, "err", err)
	case err != nil:
		r.d.Logger.Warn("the source was not asked to keep what is yet to be loaded", "job", r.plan.Job, "err", err)
	}
}

// nexts are the topics of the plan and the offset each of their partitions goes
// on at, by the ledger; planned adds those only the plan knows.
func (r *run) nexts(planned bool) ([]consumer.Topic, map[offsets.TopicPartition]offsets.Offset) {
	at := map[offsets.TopicPartition]offsets.Offset{}
	var topics []consumer.Topic
	fold := r.ledger.Fold()
	for _, t := range r.plan.Topics {
		topic := consumer.Topic{Name: t.Name, ID: t.ID}
		add := func(partition int32, next offsets.Offset) {
			topic.Partitions = append(topic.Partitions, consumer.Partition{Index: partition})
			at[offsets.TopicPartition{Topic: t.Name, Partition: partition}] = next
		}
		for key, p := range fold.Partitions {
			if key.Cluster == r.plan.Cluster && key.TopicID == t.ID {
				add(key.Partition, p.Next())
			}
		}
		for i := range r.plan.Inputs {
			if in := &r.plan.Inputs[i]; planned && in.TopicID == t.ID && fold.Partitions[in.Key(r.plan.Cluster)] == nil {
				add(in.Partition, in.Start)
			}
		}
		slices.SortFunc(topic.Partitions, func(a, b consumer.Partition) int { return int(a.Index - b.Index) })
		topics = append(topics, topic)
	}
	return topics, at
}
