package controller

import (
	"fmt"

	"sawlog/offsets"
)

// ask is a wish for a change as a value, so that it can be sent to the active
// controller from any node.
type ask interface {
	// decide turns the image as it will be into records. It may be called again
	// for the same wish; only the last call counts.
	decide(im *Image, s settings) (decision, answer, error)
	// repeatable tells whether a wish whose answer was lost may be brought
	// again: that does no harm, and its answer is as good as the first.
	repeatable() bool
}

// answer is what an asker can't read from the image that holds his wish.
type answer struct {
	number   int64   // the first producer id, the node id
	refusals []error // of a wish for several things, one for each; nil = done
}

// refusal is what became of the i-th thing of a wish for several.
func (a answer) refusal(i int) error {
	if i < len(a.refusals) {
		return a.refusals[i]
	}
	return nil
}

// The wishes there are.
type (
	barrierAsk struct{}
	foundAsk   struct {
		ClusterID string
		Level     int16
	}
	raiseFormatAsk struct{ Level int16 }

	createTopicAsk struct {
		Topic NewTopic
		ID    offsets.TopicID // a fresh random one
	}
	deleteTopicAsk      struct{ ID offsets.TopicID }
	createPartitionsAsk struct {
		Topic      string
		Total      int32
		Assignment [][]offsets.BrokerID // of the new ones; nil = the controller places them
	}
	alterConfigsAsk  struct{ Change ConfigChange }
	registerAsk      struct{ Registration Registration }
	changeBrokersAsk struct{ Changes []BrokerChange }
	unregisterAsk    struct{ ID offsets.BrokerID }
	changeISRsAsk    struct{ Changes []ISRChange }
	electLeadersAsk  struct {
		Kind       ElectionKind
		Partitions []offsets.TopicPartition
	}
	reassignAsk    struct{ Reassignments []Reassignment }
	producerIDsAsk struct{ Broker offsets.BrokerID }
	nodeIDAsk      struct{}
)

func (barrierAsk) repeatable() bool          { return true }
func (foundAsk) repeatable() bool            { return true }
func (raiseFormatAsk) repeatable() bool      { return true }
func (createTopicAsk) repeatable() bool      { return true } // known again by its id
func (deleteTopicAsk) repeatable() bool      { return false }
func (createPartitionsAsk) repeatable() bool { return false }
func (alterConfigsAsk) repeatable() bool     { return true }
func (registerAsk) repeatable() bool         { return true } // known again by its incarnation
func (changeBrokersAsk) repeatable() bool    { return true }
func (unregisterAsk) repeatable() bool       { return false }
func (changeISRsAsk) repeatable() bool       { return false } // refused as stale, though it was taken
func (electLeadersAsk) repeatable() bool     { return true }
func (reassignAsk) repeatable() bool         { return true }
func (producerIDsAsk) repeatable() bool      { return true }
func (nodeIDAsk) repeatable() bool           { return true }

func (barrierAsk) decide(*Image, settings) (decision, answer, error) {
	return decision{}, answer{}, nil
}

func (a foundAsk) decide(im *Image, _ settings) (decision, answer, error) {
	d, err := im.found(a.ClusterID, a.Level)
	return d, answer{}, err
}

func (a raiseFormatAsk) decide(im *Image, s settings) (decision, answer, error) {
	d, err := im.raiseFormat(a.Level, s.levels)
	return d, answer{}, err
}

func (a createTopicAsk) decide(im *Image, s settings) (decision, answer, error) {
	if t, ok := im.byName.get(a.Topic.Name); ok && t.ID == a.ID {
		return decision{}, answer{}, nil // made already, and its answer lost
	}
	d, err := im.createTopic(s, a.Topic, a.ID)
	return d, answer{}, err
}

func (a deleteTopicAsk) decide(im *Image, _ settings) (decision, answer, error) {
	d, err := im.deleteTopic(a.ID)
	return d, answer{}, err
}

func (a createPartitionsAsk) decide(im *Image, _ settings) (decision, answer, error) {
	d, err := im.growTopic(a.Topic, a.Total, a.Assignment)
	return d, answer{}, err
}

func (a alterConfigsAsk) decide(im *Image, s settings) (decision, answer, error) {
	d, err := im.alterConfigs(s, a.Change)
	return d, answer{}, err
}

func (a registerAsk) decide(im *Image, s settings) (decision, answer, error) {
	d, err := im.register(s, a.Registration)
	return d, answer{}, err
}

func (a changeBrokersAsk) decide(im *Image, s settings) (decision, answer, error) {
	return decideEach(im, len(a.Changes), func(im *Image, i int) (decision, error) { return im.changeBroker(s, a.Changes[i]) })
}

func (a unregisterAsk) decide(im *Image, _ settings) (decision, answer, error) {
	d, err := im.unregister(a.ID)
	return d, answer{}, err
}

func (a changeISRsAsk) decide(im *Image, s settings) (decision, answer, error) {
	return decideEach(im, len(a.Changes), func(im *Image, i int) (decision, error) { return im.changeISR(s, a.Changes[i]) })
}

func (a electLeadersAsk) decide(im *Image, s settings) (decision, answer, error) {
	return decideEach(im, len(a.Partitions), func(im *Image, i int) (decision, error) {
		return im.electLeader(s, a.Kind, a.Partitions[i])
	})
}

func (a reassignAsk) decide(im *Image, s settings) (decision, answer, error) {
	return decideEach(im, len(a.Reassignments), func(im *Image, i int) (decision, error) { return im.reassign(s, a.Reassignments[i]) })
}

func (a producerIDsAsk) decide(im *Image, _ settings) (decision, answer, error) {
	d, err := im.takeProducerIDs(a.Broker)
	return d, answer{number: im.nextProducerID}, err
}

func (nodeIDAsk) decide(im *Image, _ settings) (decision, answer, error) {
	d, err := im.takeNodeID()
	return d, answer{number: int64(im.nextNodeID)}, err
}

// decideEach decides on n things one after the other, each on the image those
// before it lead to, and each for itself: what is refused of them doesn't keep
// the others.
func decideEach(im *Image, n int, decide func(im *Image, i int) (decision, error)) (decision, answer, error) {
	a := answer{refusals: make([]error, n)}
	var all decision
	next := *im
	f := &fold{im: &next} // one for all, so that a topic is copied once
	for i := range n {
		d, err := decide(&next, i)
		a.refusals[i] = err
		if err != nil {
			continue
		}
		for _, r := range d.records {
			if err := r.fold(f); err != nil {
				return decision{}, answer{}, fmt.Errorf("item %d: %w", i, err)
			}
		}
		all.records = append(all.records, d.records...)
	}
	return all, a, nil
}
