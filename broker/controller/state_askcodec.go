package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sawlog/offsets"
)

// askVersion is the first byte of an ask on its way.
const askVersion = 1

// Kinds of ask on the wire.
const (
	barrierKind uint8 = iota + 1
	createTopicKind
	deleteTopicKind
	createPartitionsKind
	alterConfigsKind
	registerKind
	changeBrokersKind
	unregisterKind
	changeISRsKind
	electLeadersKind
	producerIDsKind
	nodeIDKind
	reassignKind
	raiseFormatKind
)

// encodeAsk writes an ask: version u8, kind u8, body.
func encodeAsk(a ask) []byte {
	dst := []byte{askVersion}
	switch a := a.(type) {
	case barrierAsk:
		return append(dst, barrierKind)
	case createTopicAsk:
		return a.encode(append(dst, createTopicKind))
	case deleteTopicAsk:
		return append(append(dst, deleteTopicKind), a.ID[:]...)
	case createPartitionsAsk:
		dst = appendInt32(appendString(append(dst, createPartitionsKind), a.Topic), a.Total)
		return appendAssignment(dst, a.Assignment)
	case alterConfigsAsk:
		return a.encode(append(dst, alterConfigsKind))
	case registerAsk:
		return a.encode(append(dst, registerKind))
	case changeBrokersAsk:
		return appendEach(append(dst, changeBrokersKind), a.Changes, func(dst []byte, c BrokerChange) []byte {
			return append(appendInt64(appendInt32(dst, c.ID), c.Epoch), brokerFlags(c.Fenced, c.ShuttingDown, c.Full))
		})
	case unregisterAsk:
		return appendInt32(append(dst, unregisterKind), a.ID)
	case changeISRsAsk:
		return appendEach(append(dst, changeISRsKind), a.Changes, appendISRChange)
	case electLeadersAsk:
		dst = append(dst, electLeadersKind, byte(a.Kind))
		return appendEach(dst, a.Partitions, func(dst []byte, tp offsets.TopicPartition) []byte {
			return appendInt32(appendString(dst, tp.Topic), tp.Partition)
		})
	case producerIDsAsk:
		return appendInt32(append(dst, producerIDsKind), a.Broker)
	case nodeIDAsk:
		return append(dst, nodeIDKind)
	case reassignAsk:
		return appendEach(append(dst, reassignKind), a.Reassignments, func(dst []byte, r Reassignment) []byte {
			dst = appendBool(appendInt32(appendString(dst, r.Topic), r.Partition), r.Replicas != nil)
			return appendBrokers(dst, r.Replicas)
		})
	case raiseFormatAsk:
		return appendInt16(append(dst, raiseFormatKind), a.Level)
	}
	panic(fmt.Sprintf("controller: %T is no ask for other nodes", a))
}

// decodeAsk reads what encodeAsk wrote.
func decodeAsk(src []byte) (ask, error) {
	r := &reader{src: src}
	if v := r.uint8(); r.err == nil && v != askVersion {
		return nil, fmt.Errorf("%w: request of version %d is not known to this build", errFormat, v)
	}
	a := r.ask(r.uint8())
	if err := r.done(); err != nil {
		return nil, err
	}
	return a, nil
}

func (r *reader) ask(kind uint8) ask {
	switch kind {
	case barrierKind:
		return barrierAsk{}
	case createTopicKind:
		return r.createTopicAsk()
	case deleteTopicKind:
		return deleteTopicAsk{r.topicID()}
	case createPartitionsKind:
		return createPartitionsAsk{r.string(), r.int32(), r.assignment()}
	case alterConfigsKind:
		return r.alterConfigsAsk()
	case registerKind:
		return r.registerAsk()
	case changeBrokersKind:
		return changeBrokersAsk{readEach(r, 13, func() BrokerChange {
			c := BrokerChange{ID: r.brokerID(), Epoch: r.int64()}
			c.Fenced, c.ShuttingDown, c.Full = r.brokerFlags()
			return c
		})}
	case unregisterKind:
		return unregisterAsk{r.brokerID()}
	case changeISRsKind:
		return changeISRsAsk{readEach(r, 42, r.isrChange)}
	case electLeadersKind:
		return electLeadersAsk{ElectionKind(r.uint8()), readEach(r, 5, func() offsets.TopicPartition {
			return offsets.TopicPartition{Topic: r.string(), Partition: r.int32()}
		})}
	case producerIDsKind:
		return producerIDsAsk{r.brokerID()}
	case nodeIDKind:
		return nodeIDAsk{}
	case reassignKind:
		return reassignAsk{readEach(r, 7, r.reassignment)}
	case raiseFormatKind:
		return raiseFormatAsk{r.int16()}
	}
	r.fail(fmt.Sprintf("request kind %d is not known to this build", kind))
	return nil
}

func appendEach[T any](dst []byte, items []T, write func([]byte, T) []byte) []byte {
	dst = appendUvarint(dst, uint64(len(items))+1)
	for _, item := range items {
		dst = write(dst, item)
	}
	return dst
}

// readEach reads an array whose elements take at least size bytes.
func readEach[T any](r *reader, size int, read func() T) []T {
	items := make([]T, r.arrayLen(size))
	for i := range items {
		items[i] = read()
	}
	return items
}

func (a createTopicAsk) encode(dst []byte) []byte {
	t := a.Topic
	dst = append(appendString(dst, t.Name), a.ID[:]...)
	dst = appendInt16(appendInt32(dst, t.Partitions), t.ReplicationFactor)
	dst = appendBool(appendAssignment(dst, t.Assignment), t.Internal)
	return appendEach(dst, slices.Sorted(maps.Keys(t.Configs)), func(dst []byte, key string) []byte {
		return appendString(appendString(dst, key), t.Configs[key])
	})
}

func (r *reader) createTopicAsk() (a createTopicAsk) {
	a.Topic.Name, a.ID = r.string(), r.topicID()
	a.Topic.Partitions, a.Topic.ReplicationFactor = r.int32(), r.int16()
	a.Topic.Assignment, a.Topic.Internal = r.assignment(), r.bool()
	if n := r.arrayLen(2); n > 0 {
		a.Topic.Configs = make(map[string]string, n)
		for range n {
			key := r.string()
			a.Topic.Configs[key] = r.string()
		}
	}
	return a
}

// appendAssignment writes the replicas of partitions; none at all is null.
func appendAssignment(dst []byte, assignment [][]offsets.BrokerID) []byte {
	if assignment == nil {
		return append(dst, 0)
	}
	return appendEach(dst, assignment, appendBrokers)
}

func (r *reader) assignment() [][]offsets.BrokerID {
	if len(r.src) > 0 && r.src[0] == 0 {
		r.src = r.src[1:]
		return nil
	}
	return readEach(r, 1, r.brokers)
}

func (a alterConfigsAsk) encode(dst []byte) []byte {
	dst = appendString(append(dst, byte(a.Change.Resource.Kind)), a.Change.Resource.Name)
	dst = appendEach(dst, a.Change.Ops, func(dst []byte, op ConfigOp) []byte {
		return appendString(appendString(append(dst, byte(op.Kind)), op.Key), op.Value)
	})
	return appendBool(dst, a.Change.Replace)
}

func (r *reader) alterConfigsAsk() (a alterConfigsAsk) {
	a.Change.Resource = Resource{ResourceKind(r.uint8()), r.string()}
	a.Change.Ops = readEach(r, 3, func() ConfigOp { return ConfigOp{OpKind(r.uint8()), r.string(), r.string()} })
	a.Change.Replace = r.bool()
	return a
}

func (a registerAsk) encode(dst []byte) []byte {
	g := a.Registration
	dst = append(append(appendInt32(dst, g.ID), g.Incarnation[:]...), g.Directory[:]...)
	dst = appendEach(dst, g.Endpoints, func(dst []byte, e Endpoint) []byte {
		return appendInt32(appendString(appendString(dst, e.Listener), e.Host), e.Port)
	})
	dst = appendInt64(appendBool(appendString(dst, g.Rack), g.Intact), g.PreviousEpoch)
	return appendInt16(appendInt16(appendBool(dst, g.Fenced), g.Levels.Min), g.Levels.Max)
}

func (r *reader) registerAsk() registerAsk {
	g := Registration{ID: r.brokerID(), Incarnation: r.uuid(), Directory: r.uuid()}
	g.Endpoints = readEach(r, 6, func() Endpoint { return Endpoint{r.string(), r.string(), r.int32()} })
	g.Rack, g.Intact, g.PreviousEpoch, g.Fenced = r.string(), r.bool(), r.int64(), r.bool()
	g.Levels = Levels{r.int16(), r.int16()}
	return registerAsk{g}
}

func appendISRChange(dst []byte, c ISRChange) []byte {
	dst = appendInt32(append(dst, c.Topic[:]...), c.Partition)
	dst = appendInt64(appendInt32(dst, c.Broker), c.BrokerEpoch)
	dst = appendInt32(appendInt32(dst, c.LeaderEpoch), c.PartitionEpoch)
	dst = appendEach(dst, c.ISR, func(dst []byte, m Member) []byte { return appendInt64(appendInt32(dst, m.ID), m.Epoch) })
	return appendBool(dst, c.Recovering)
}

func (r *reader) isrChange() ISRChange {
	c := ISRChange{Topic: r.topicID(), Partition: r.int32(), Broker: r.brokerID(), BrokerEpoch: r.int64()}
	c.LeaderEpoch, c.PartitionEpoch = r.epoch(), r.epoch()
	c.ISR = readEach(r, 12, func() Member { return Member{r.brokerID(), r.int64()} })
	c.Recovering = r.bool()
	return c
}

func (r *reader) reassignment() Reassignment {
	a := Reassignment{Topic: r.string(), Partition: r.int32()}
	named, replicas := r.bool(), r.brokers()
	if named {
		a.Replicas = append([]offsets.BrokerID{}, replicas...) // none is not the same as nil
	}
	return a
}

// encodeAnswer writes the answer to an ask: version u8, the index of the image
// it rests on u64, number i64, refusal of the whole, refusals of the items. A
// refusal is the number of its kind u8 (0 none, 255 another) and its words.
func encodeAnswer(index uint64, a answer, refusal error) []byte {
	dst := appendInt64(appendInt64([]byte{askVersion}, index), a.number)
	dst = appendRefusal(dst, refusal)
	return appendEach(dst, a.refusals, appendRefusal)
}

// decodeAnswer reads what encodeAnswer wrote; refusal is what that was given,
// err a fault of the bytes.
func decodeAnswer(src []byte) (index uint64, a answer, refusal, err error) {
	r := &reader{src: src}
	if v := r.uint8(); r.err == nil && v != askVersion {
		r.fail(fmt.Sprintf("answer of version %d is not known to this build", v))
	}
	index, a.number = uint64(r.int64()), r.int64()
	refusal = r.refusal()
	a.refusals = readEach(r, 1, r.refusal)
	return index, a, refusal, r.done()
}

// sentRefusals are the kinds of refusal by their number on the wire; where
// several apply the first counts.
var sentRefusals = []error{
	1: ErrUncertain, 2: ErrNotController, 3: ErrClosed, 4: ErrTopicExists, 5: ErrUnknownTopic,
	6: ErrUnknownPartition, 7: ErrUnknownBroker, 8: ErrDuplicateBroker, 9: ErrStaleBrokerEpoch,
	10: ErrInvalidTopic, 11: ErrInvalidPartitions, 12: ErrInvalidFactor, 13: ErrInvalidAssignment,
	14: ErrInvalidConfig, 15: ErrInvalidISR, 16: ErrIneligible, 17: ErrFencedEpoch, 18: ErrStalePartition,
	19: ErrAheadOfController, 20: ErrNotEligibleLeader, 21: ErrElectionNotNeeded, 22: ErrTooLarge,
	23: ErrNoReassignment, 24: ErrFormatLevel,
}

// otherRefusal is the number of all other errors.
const otherRefusal = 255

func appendRefusal(dst []byte, err error) []byte {
	if err == nil {
		return append(dst, 0)
	}
	kind := slices.IndexFunc(sentRefusals, func(k error) bool { return k != nil && errors.Is(err, k) })
	if kind < 0 {
		kind = otherRefusal
	}
	return appendString(append(dst, byte(kind)), err.Error())
}

func (r *reader) refusal() error {
	kind := int(r.uint8())
	if kind == 0 {
		return nil
	}
	text := r.string()
	switch {
	case r.err != nil:
		return nil
	case kind < len(sentRefusals):
		return &refused{sentRefusals[kind], text}
	}
	return errors.New(text)
}
