package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// doubtFor is how long a broker is not believed that says of a topic or of offsets
// which were there that they are not: one that was cut off from the others may
// take itself for the leader still, or lack what came since.
const doubtFor = 10 * time.Second

func doubtful(err error) bool {
	var short *ShortError
	return errors.Is(err, ErrUnknownTopic) || errors.As(err, &short)
}

// believed tells whether a broker is right that has said so for this long, from its
// first answer of the kind. Of topics all brokers know: where all say the same it is
// so at once, and where most do, of which some may be late to hear of a topic that
// was just made, after newsPatience.
func (f *fetcher) believed(ctx context.Context, err error, said time.Duration) bool {
	if said >= min(doubtFor, f.opts.Patience) {
		return true
	}
	if !errors.Is(err, ErrUnknownTopic) {
		return false
	}
	lack, of := f.lacking(ctx)
	return of > 0 && lack == of || 2*lack > of && said >= newsPatience
}

// lacking counts the brokers of the cluster that say of the topic that it, or the
// partition, is not there, or under another id.
func (f *fetcher) lacking(ctx context.Context) (lack, of int) {
	ctx, done := context.WithTimeout(ctx, newsPatience)
	defer done()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := Ask[*kmsg.MetadataResponse](ctx, f.c, req)
	if err != nil {
		return 0, 0
	}
	answers := make(chan bool)
	for _, b := range resp.Brokers {
		go func() { answers <- f.lacks(ctx, f.c.Broker(b.NodeID)) }()
	}
	for range resp.Brokers {
		if <-answers {
			lack++
		}
	}
	return lack, len(resp.Brokers)
}

// lacks tells whether a broker answers, and that the topic is another one.
func (f *fetcher) lacks(ctx context.Context, broker Requestor) bool {
	topics, _, err := metadata(ctx, broker, []string{f.tp.Topic}, nil)
	if err == nil {
		_, err = f.placed(&topics[0])
	}
	return errors.Is(err, ErrUnknownTopic)
}

// placed is the partition in a topic, if it is the one that was planned.
func (f *fetcher) placed(t *Topic) (*Partition, error) {
	if !f.id.IsZero() && !t.ID.IsZero() && t.ID != f.id {
		return nil, fmt.Errorf("%w: %s was made again: its id is %s, planned was %s", ErrUnknownTopic, f.tp.Topic, t.ID, f.id)
	}
	for i := range t.Partitions {
		if t.Partitions[i].Index == f.tp.Partition {
			return &t.Partitions[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrUnknownTopic, f.tp)
}
