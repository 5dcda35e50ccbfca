package controller

import "sawlog/offsets"

// Model is the controller's decisions without Raft around them: each is made
// on the present image and applied at once, as on a node that nobody disturbs.
// Models of the whole protocol are built on it.
type Model struct {
	image    *Image
	settings settings
}

// NewModel is an empty cluster with defaults for configurations that aren't set.
func NewModel(defaults map[string]string) *Model {
	return &Model{image: emptyImage(), settings: settings{defaults: defaults}}
}

// Image is the metadata after the last decision.
func (m *Model) Image() *Image { return m.image }

func (m *Model) do(d decision, err error) error {
	if err != nil || len(d.records) == 0 {
		return err
	}
	next, err := m.image.apply(m.image.Index+1, d.records)
	if err == nil {
		m.image = next
	}
	return err
}

// CreateTopic makes a topic with an id.
func (m *Model) CreateTopic(t NewTopic, id offsets.TopicID) error {
	return m.do(m.image.createTopic(m.settings, t, id))
}

// AlterConfigs changes configurations.
func (m *Model) AlterConfigs(c ConfigChange) error { return m.do(m.image.alterConfigs(m.settings, c)) }

// Register takes note of a broker's start.
func (m *Model) Register(r Registration) error { return m.do(m.image.register(m.settings, r)) }

// ChangeBroker takes a broker in or out of service.
func (m *Model) ChangeBroker(c BrokerChange) error { return m.do(m.image.changeBroker(m.settings, c)) }

// ChangeISR grants or refuses what a leader proposes.
func (m *Model) ChangeISR(c ISRChange) error { return m.do(m.image.changeISR(m.settings, c)) }

// ElectLeader elects at somebody's wish.
func (m *Model) ElectLeader(kind ElectionKind, tp offsets.TopicPartition) error {
	return m.do(m.image.electLeader(m.settings, kind, tp))
}

// Reassign begins to move a partition, or takes that back.
func (m *Model) Reassign(r Reassignment) error { return m.do(m.image.reassign(m.settings, r)) }

// MinISR is how many replicas of a partition must be in sync.
func (m *Model) MinISR(t *Topic, p *Partition) int { return m.settings.minISR(m.image, t, p) }
