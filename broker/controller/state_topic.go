package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sawlog/offsets"
)

// maxTopicName is the longest topic name, as Kafka has it: with "-" and a
// partition number it is still a folder name.
const maxTopicName = 249

// decision is what a request comes to: records for the log. An atomic one must
// go into one entry; else it may be cut anywhere, and what it leaves half done
// is finished by repair.
type decision struct {
	records []record
	atomic  bool
	last    bool // its entry takes no other's records after it
}

// settings are the parts of a Config that decisions ask.
type settings struct {
	defaults map[string]string
	check    func(r Resource, configs map[string]string) error
	levels   Levels // format levels this node knows
}

// CheckTopicName tells whether a name may be a topic's.
func CheckTopicName(name string) error {
	invalid := func(format string, args ...any) error {
		return refuse(ErrInvalidTopic, "Topic name is invalid: "+format, args...)
	}
	switch {
	case name == "":
		return invalid("the empty string is not allowed")
	case name == "." || name == "..":
		return invalid("'%s' is not allowed", name)
	case len(name) > maxTopicName:
		return invalid("the length of '%s' is longer than the max allowed length %d", name, maxTopicName)
	}
	for _, c := range []byte(name) {
		if !validNameByte(c) {
			return invalid("'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
		}
	}
	return nil
}

func validNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// createTopic decides on a new topic; id is a fresh random one.
func (im *Image) createTopic(s settings, t NewTopic, id offsets.TopicID) (decision, error) {
	if err := CheckTopicName(t.Name); err != nil {
		return decision{}, err
	}
	if _, ok := im.byName.get(t.Name); ok {
		return decision{}, refuse(ErrTopicExists, "Topic '%s' already exists.", t.Name)
	}
	if folded, ok := foldName(t.Name); ok {
		if other, taken := im.collisions.get(folded); taken {
			return decision{}, refuse(ErrInvalidTopic, "Topic '%s' collides with existing topic: %s", t.Name, other)
		}
	}
	resource := Resource{TopicResource, t.Name}
	if err := s.checkConfigs(resource, t.Configs); err != nil {
		return decision{}, err
	}
	assignment, err := im.assign(s, t)
	if err != nil {
		return decision{}, err
	}
	records := make([]record, 0, 1+len(t.Configs)+len(assignment))
	records = append(records, &topicRecord{t.Name, id, t.Internal})
	records = appendConfigs(records, resource, t.Configs)
	for i, replicas := range assignment {
		records = append(records, &partitionRecord{id, im.newPartition(int32(i), replicas)})
	}
	return decision{records: records, atomic: true}, nil
}

// assign checks or chooses the replicas of a new topic.
func (im *Image) assign(s settings, t NewTopic) ([][]offsets.BrokerID, error) {
	if t.Assignment != nil {
		switch {
		case len(t.Assignment) == 0:
			return nil, fmt.Errorf("%w: no partition in it", ErrInvalidAssignment)
		case t.Partitions != -1 && int(t.Partitions) != len(t.Assignment):
			return nil, fmt.Errorf("%w: %d asked for, %d assigned", ErrInvalidPartitions, t.Partitions, len(t.Assignment))
		case t.ReplicationFactor != -1 && int(t.ReplicationFactor) != len(t.Assignment[0]):
			return nil, fmt.Errorf("%w: %d asked for, %d assigned", ErrInvalidFactor, t.ReplicationFactor, len(t.Assignment[0]))
		}
		return t.Assignment, im.checkAssignment(t.Assignment, len(t.Assignment[0]))
	}
	count, factor := int(t.Partitions), int(t.ReplicationFactor)
	switch {
	case factor < -1 || factor == 0:
		return nil, refuse(ErrInvalidFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case count < -1 || count == 0:
		return nil, refuse(ErrInvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	if count == -1 {
		count = s.number(im, nil, "num.partitions", 1)
	}
	if factor == -1 {
		factor = s.number(im, nil, "default.replication.factor", -1)
	}
	if factor == -1 { // not set, or set to that
		factor = max(1, min(3, len(im.Brokers)))
	}
	if count > maxEntryRecords {
		return nil, fmt.Errorf("%w: %d partitions at once, at most %d; the topic can be grown afterwards", ErrTooLarge, count, maxEntryRecords)
	}
	return im.place(nil, count, factor)
}

// deleteTopic decides on the end of a topic.
func (im *Image) deleteTopic(id offsets.TopicID) (decision, error) {
	if _, ok := im.byID.get(id); !ok {
		return decision{}, fmt.Errorf("%w: id %v", ErrUnknownTopic, id)
	}
	return decision{records: []record{&topicRemovalRecord{id}}, atomic: true}, nil
}

// growTopic decides on more partitions; assignment is nil or names the
// replicas of the new ones.
func (im *Image) growTopic(name string, total int32, assignment [][]offsets.BrokerID) (decision, error) {
	t, ok := im.byName.get(name)
	if !ok {
		return decision{}, refuse(ErrUnknownTopic, "The topic '%s' does not exist.", name)
	}
	have := len(t.Partitions)
	more, factor := int(total)-have, len(t.Partitions[0].target())
	switch {
	case more == 0:
		return decision{}, refuse(ErrInvalidPartitions, "Topic already has %d partition(s).", have)
	case more < 0:
		return decision{}, refuse(ErrInvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", name, have, total)
	case more > maxEntryRecords:
		return decision{}, fmt.Errorf("%w: %d partitions at once, at most %d", ErrTooLarge, more, maxEntryRecords)
	case assignment != nil && len(assignment) != more:
		return decision{}, refuse(ErrInvalidAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, len(assignment))
	}
	var err error
	if assignment == nil {
		assignment, err = im.place(t.Partitions, more, factor)
	} else {
		err = im.checkAssignment(assignment, factor)
	}
	if err != nil {
		return decision{}, err
	}
	records := make([]record, 0, more)
	for i, replicas := range assignment {
		records = append(records, &partitionRecord{t.ID, im.newPartition(int32(have+i), replicas)})
	}
	return decision{records: records, atomic: true}, nil
}

// lookup finds a setting: of the topic (nil = none), of all brokers, the default.
func (s settings) lookup(im *Image, t *Topic, key string) string {
	if t != nil {
		if v, ok := t.Configs[key]; ok {
			return v
		}
	}
	if v, ok := im.BrokerConfig[key]; ok {
		return v
	}
	return s.defaults[key]
}

func (s settings) number(im *Image, t *Topic, key string, otherwise int) int {
	if n, err := strconv.Atoi(s.lookup(im, t, key)); err == nil {
		return n
	}
	return otherwise
}

// minISR is the effective min.insync.replicas of a topic's partition.
func (s settings) minISR(im *Image, t *Topic, p *Partition) int {
	return p.MinISR(s.number(im, t, minISRKey, 2))
}

func (s settings) unclean(im *Image, t *Topic) bool {
	return strings.EqualFold(s.lookup(im, t, uncleanKey), "true")
}

// checkConfigs judges the configurations a resource would have.
func (s settings) checkConfigs(r Resource, configs map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		if key == "" || len(key) > maxConfigKey || len(configs[key]) > MaxConfigValue {
			return fmt.Errorf("%w: key %.40q of %d bytes with a value of %d", ErrInvalidConfig, key, len(key), len(configs[key]))
		}
	}
	if s.check == nil {
		return nil
	}
	if err := s.check(r, configs); err != nil {
		return refuse(ErrInvalidConfig, "%s", err)
	}
	return nil
}
