package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sawlog/offsets"
)

// errDiverged: a record does not fit the image it meets. As records are only
// applied to the image they were decided on, this is damage or a fault of this
// program, and the node must stop.
var errDiverged = errors.New("metadata record does not fit the image")

// fold builds the next image. What it holds in own and the own… flags it has
// copied already and may change in place; the rest is shared with older images.
type fold struct {
	im      *Image
	loading bool // reading a snapshot: positions and epochs come from the records
	own     map[offsets.TopicID]*Topic
	ownBrokers,
	ownLoad bool
}

// apply returns the image after one more entry. The old one stays as it was.
func (im *Image) apply(index uint64, records []record) (*Image, error) {
	next := *im
	next.Index, next.Sequence = index, im.Sequence+1
	return next.extend(records)
}

// extend returns the image after more records of the same entry.
func (im *Image) extend(records []record) (*Image, error) {
	next := *im
	f := &fold{im: &next}
	for i, rec := range records {
		if err := rec.fold(f); err != nil {
			return nil, fmt.Errorf("entry %d, record %d: %w", im.Index, i, err)
		}
	}
	return &next, nil
}

func diverged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDiverged, fmt.Sprintf(format, args...))
}

// topic returns a topic of the new image that may be changed in place, but
// for the slices in its partitions, which are replaced, never written to.
func (f *fold) topic(id offsets.TopicID) (*Topic, error) {
	if t, ok := f.own[id]; ok {
		return t, nil
	}
	t, ok := f.im.byID.get(id)
	if !ok {
		return nil, diverged("no topic %v", id)
	}
	c := *t
	c.Partitions = slices.Clone(t.Partitions)
	f.put(&c)
	return &c, nil
}

func (f *fold) put(t *Topic) {
	if f.own == nil {
		f.own = make(map[offsets.TopicID]*Topic)
	}
	f.own[t.ID] = t
	f.im.byID = f.im.byID.with(t.ID, t)
	f.im.byName = f.im.byName.with(t.Name, t)
}

// weigh adds (or, with sign -1, takes away) what a partition is to its brokers.
func (f *fold) weigh(p *Partition, sign int) {
	if !f.ownLoad {
		f.im.load, f.ownLoad = maps.Clone(f.im.load), true
		if f.im.load == nil {
			f.im.load = make(map[offsets.BrokerID]Load)
		}
	}
	f.im.partitions += sign
	for i, id := range p.Replicas {
		l := f.im.load[id]
		l.Replicas += sign
		if i == 0 {
			l.Preferred += sign
		}
		if id == p.Leader {
			l.Leading += sign
		}
		if l == (Load{}) {
			delete(f.im.load, id)
		} else {
			f.im.load[id] = l
		}
	}
}

func (f *fold) brokers() []Broker {
	if !f.ownBrokers {
		f.im.Brokers, f.ownBrokers = slices.Clone(f.im.Brokers), true
	}
	return f.im.Brokers
}

func (c *clusterRecord) fold(f *fold) error {
	if f.im.ClusterID != "" || c.ID == "" {
		return diverged("cluster id %q over %q", c.ID, f.im.ClusterID)
	}
	f.im.ClusterID = c.ID
	return nil
}

func (c *formatRecord) fold(f *fold) error {
	if c.Level <= f.im.FormatLevel {
		return diverged("format level %d over %d", c.Level, f.im.FormatLevel)
	}
	if c.Level > formatLevel {
		return fmt.Errorf("%w: the cluster is at format level %d, this build knows %d", errFormat, c.Level, formatLevel)
	}
	f.im.FormatLevel = c.Level
	return nil
}

func (c *brokerRecord) fold(f *fold) error {
	b := c.Broker
	if !f.loading {
		b.Epoch = int64(f.im.Index)
	}
	if b.ID < 0 {
		return diverged("broker id %d", b.ID)
	}
	brokers := f.brokers()
	if i, ok := f.im.brokerAt(b.ID); ok {
		brokers[i] = b
	} else {
		f.im.Brokers = slices.Insert(brokers, i, b)
	}
	if !f.loading {
		f.im.nextNodeID = max(f.im.nextNodeID, b.ID+1)
	}
	return nil
}

// registered finds a broker to change that must be there with this epoch.
func (f *fold) registered(id offsets.BrokerID, epoch int64) (int, error) {
	i, ok := f.im.brokerAt(id)
	if !ok || f.im.Brokers[i].Epoch != epoch {
		return 0, diverged("no broker %d with epoch %d", id, epoch)
	}
	return i, nil
}

func (c *brokerChangeRecord) fold(f *fold) error {
	i, err := f.registered(c.ID, c.Epoch)
	if err == nil {
		b := &f.brokers()[i]
		b.Fenced, b.ShuttingDown, b.Full = c.Fenced, c.ShuttingDown, c.Full
	}
	return err
}

func (c *brokerRemovalRecord) fold(f *fold) error {
	i, err := f.registered(c.ID, c.Epoch)
	if err != nil {
		return err
	}
	if l := f.im.load[c.ID]; l.Replicas > 0 {
		return diverged("broker %d removed while it has %d replicas", c.ID, l.Replicas)
	}
	f.im.Brokers = slices.Delete(f.brokers(), i, i+1)
	f.im.brokerConfigs = withoutKey(f.im.brokerConfigs, c.ID)
	return nil
}

func (c *topicRecord) fold(f *fold) error {
	if _, exists := f.im.byName.get(c.Name); exists {
		return diverged("topic %q exists", c.Name)
	}
	if _, exists := f.im.byID.get(c.ID); exists || c.ID.IsZero() {
		return diverged("topic id %v is taken", c.ID)
	}
	if folded, ok := foldName(c.Name); ok {
		f.im.collisions = f.im.collisions.with(folded, c.Name)
	}
	f.put(&Topic{Name: c.Name, ID: c.ID, Internal: c.Internal})
	return nil
}

func (c *topicRemovalRecord) fold(f *fold) error {
	t, ok := f.im.byID.get(c.ID)
	if !ok {
		return diverged("no topic %v", c.ID)
	}
	for i := range t.Partitions {
		f.weigh(&t.Partitions[i], -1)
	}
	delete(f.own, c.ID)
	f.im.byID = f.im.byID.without(c.ID)
	f.im.byName = f.im.byName.without(t.Name)
	if folded, ok := foldName(t.Name); ok {
		f.im.collisions = f.im.collisions.without(folded)
	}
	return nil
}

func (c *partitionRecord) fold(f *fold) error {
	t, err := f.topic(c.Topic)
	if err != nil {
		return err
	}
	if int(c.Index) != len(t.Partitions) {
		return diverged("partition %d added to topic %q of %d", c.Index, t.Name, len(t.Partitions))
	}
	p := c.Partition
	if err := p.check(); err != nil {
		return diverged("partition %s/%d: %v", t.Name, c.Index, err)
	}
	t.Partitions = append(t.Partitions, p)
	f.weigh(&p, 1)
	return nil
}

func (c *partitionChangeRecord) fold(f *fold) error {
	t, err := f.topic(c.Topic)
	if err != nil {
		return err
	}
	if c.Index < 0 || int(c.Index) >= len(t.Partitions) {
		return diverged("no partition %d in topic %q", c.Index, t.Name)
	}
	p := &t.Partitions[c.Index]
	next := c.change(*p)
	if next.PartitionEpoch != p.PartitionEpoch+1 {
		return diverged("partition %s/%d: epoch %d after %d", t.Name, c.Index, next.PartitionEpoch, p.PartitionEpoch)
	}
	if err := next.check(); err != nil {
		return diverged("partition %s/%d: %v", t.Name, c.Index, err)
	}
	f.weigh(p, -1)
	*p = next
	f.weigh(p, 1)
	return nil
}

// change returns p as the record leaves it.
func (c *partitionChangeRecord) change(p Partition) Partition {
	p.PartitionEpoch = c.PartitionEpoch
	if c.Leader != nil {
		p.Leader = *c.Leader
		p.Epoch++
	}
	if c.Replicas != nil {
		p.Replicas = *c.Replicas
	}
	if c.ISR != nil {
		p.ISR = *c.ISR
	}
	if c.ELR != nil {
		p.ELR = *c.ELR
	}
	if c.Recovering != nil {
		p.Recovering = *c.Recovering
	}
	if c.Adding != nil {
		p.Adding = *c.Adding
	}
	if c.Removing != nil {
		p.Removing = *c.Removing
	}
	return p
}

// check holds a partition to its invariants.
func (p *Partition) check() error {
	for i, id := range p.Replicas {
		if id < 0 || slices.Contains(p.Replicas[:i], id) {
			return fmt.Errorf("replicas %v", p.Replicas)
		}
	}
	subset := func(ids []offsets.BrokerID) bool {
		for i, id := range ids {
			if !slices.Contains(p.Replicas, id) || slices.Contains(ids[:i], id) {
				return false
			}
		}
		return true
	}
	switch {
	case len(p.Replicas) == 0:
		return errors.New("no replica")
	case p.Epoch < 0 || p.PartitionEpoch < 0:
		return fmt.Errorf("epochs %d and %d", p.Epoch, p.PartitionEpoch)
	case !subset(p.ISR):
		return fmt.Errorf("ISR %v of replicas %v", p.ISR, p.Replicas)
	case !subset(p.ELR) || slices.ContainsFunc(p.ELR, p.inSync):
		return fmt.Errorf("ELR %v beside ISR %v of replicas %v", p.ELR, p.ISR, p.Replicas)
	case !subset(p.Adding) || !subset(p.Removing) || slices.ContainsFunc(p.Removing, func(id offsets.BrokerID) bool { return slices.Contains(p.Adding, id) }):
		return fmt.Errorf("adding %v and removing %v of replicas %v", p.Adding, p.Removing, p.Replicas)
	case len(p.Adding) >= len(p.Replicas):
		return fmt.Errorf("adding %v to replicas %v, of which none was there", p.Adding, p.Replicas)
	case p.Leader != offsets.NoBroker && !p.inSync(p.Leader):
		return fmt.Errorf("leader %d is not in ISR %v", p.Leader, p.ISR)
	}
	return nil
}

func (p *Partition) inSync(id offsets.BrokerID) bool { return slices.Contains(p.ISR, id) }

func (c *configRecord) fold(f *fold) error {
	switch {
	case c.Key == "":
		return diverged("configuration without a key")
	case c.Kind == TopicResource:
		t, ok := f.im.byName.get(c.Name)
		if !ok {
			return diverged("no topic %q", c.Name)
		}
		t, err := f.topic(t.ID)
		if err != nil {
			return err
		}
		t.Configs = c.change(t.Configs)
	case c.Kind == BrokerResource && c.Name == "":
		f.im.BrokerConfig = c.change(f.im.BrokerConfig)
	case c.Kind == BrokerResource:
		id, ok := parseBrokerName(c.Name)
		if !ok {
			return diverged("no broker %q", c.Name)
		}
		configs := c.change(f.im.brokerConfigs[id])
		if len(configs) == 0 {
			f.im.brokerConfigs = withoutKey(f.im.brokerConfigs, id)
		} else {
			f.im.brokerConfigs = withKey(f.im.brokerConfigs, id, configs)
		}
	default:
		return diverged("resource kind %d", c.Kind)
	}
	return nil
}

// change returns a copy of configs with the record's key set or gone; an empty
// one is nil.
func (c *configRecord) change(configs map[string]string) map[string]string {
	if c.Value == nil {
		return withoutKey(configs, c.Key)
	}
	return withKey(configs, c.Key, *c.Value)
}

func withKey[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	next := make(map[K]V, len(m)+1)
	maps.Copy(next, m)
	next[key] = value
	return next
}

func withoutKey[K comparable, V any](m map[K]V, key K) map[K]V {
	if _, ok := m[key]; !ok {
		return m
	}
	if len(m) == 1 {
		return nil
	}
	next := maps.Clone(m)
	delete(next, key)
	return next
}

func (c *producerIDsRecord) fold(f *fold) error {
	if c.Next < f.im.nextProducerID {
		return diverged("next producer id %d after %d", c.Next, f.im.nextProducerID)
	}
	f.im.nextProducerID = c.Next
	return nil
}

func (c *nodeIDRecord) fold(f *fold) error {
	if c.Next < f.im.nextNodeID {
		return diverged("next node id %d after %d", c.Next, f.im.nextNodeID)
	}
	f.im.nextNodeID = c.Next
	return nil
}

func (c *imageRecord) fold(f *fold) error {
	if !f.loading || f.im.Index != 0 {
		return diverged("a snapshot's first record inside")
	}
	f.im.Index, f.im.Sequence = c.Index, c.Sequence
	return nil
}

// foldName maps the names that would clash in metric names ('.' and '_' look
// alike there) to one; ok is false for names that have neither.
func foldName(name string) (folded string, ok bool) {
	return strings.ReplaceAll(name, ".", "_"), strings.ContainsAny(name, "._")
}

// brokerResource is the resource of one broker's configurations.
func brokerResource(id offsets.BrokerID) Resource {
	return Resource{BrokerResource, strconv.Itoa(int(id))}
}

// parseBrokerName reads the name brokerResource gives, and no other spelling.
func parseBrokerName(name string) (offsets.BrokerID, bool) {
	n, err := strconv.ParseInt(name, 10, 32)
	id := offsets.BrokerID(n)
	return id, err == nil && n >= 0 && brokerResource(id).Name == name
}
