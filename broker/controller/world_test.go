package controller

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sawlog/offsets"
)

// world is a metadata log without Raft around it: decisions become entries,
// entries become images, as on a node that nobody disturbs.
type world struct {
	image    *Image
	settings settings
	log      [][]byte // entries, the first of index 1
	topics   byte     // drawn so far
}

func newWorld() *world {
	return &world{image: emptyImage(), settings: settings{defaults: map[string]string{}}}
}

// do decides and applies, each record through its bytes.
func (w *world) do(decide func(*Image) (decision, error)) error {
	d, err := decide(w.image)
	if err != nil || len(d.records) == 0 {
		return err
	}
	e := entry{Term: 1, Sequence: w.image.Sequence + 1}
	for _, r := range d.records {
		e.add(appendRecord(nil, r))
	}
	return w.append(e.encode())
}

func (w *world) append(src []byte) error {
	_, records, err := decodeEntry(src)
	if err != nil {
		return err
	}
	index := uint64(len(w.log) + 1)
	next, err := w.image.apply(index, records)
	if err != nil {
		return err
	}
	w.image, w.log = next, append(w.log, src)
	return nil
}

// topicID is the next topic id: 0…01, 0…02, …
func (w *world) topicID() (id offsets.TopicID) {
	w.topics++
	id[0], id[15] = 1, w.topics
	return id
}

func (w *world) create(t NewTopic) error {
	id := w.topicID()
	return w.do(func(im *Image) (decision, error) { return im.createTopic(w.settings, t, id) })
}

func (w *world) register(r Registration) error {
	return w.do(func(im *Image) (decision, error) { return im.register(w.settings, r) })
}

func (w *world) change(c BrokerChange) error {
	return w.do(func(im *Image) (decision, error) { return im.changeBroker(w.settings, c) })
}

// incarnation makes a UUID that tells what it is of.
func incarnation(id offsets.BrokerID, n int) (u UUID) {
	u[0], u[1], u[15] = byte(id), byte(n), 1
	return u
}

// join registers brokers 1 to n, each in a rack when racks are given.
func (w *world) join(t testing.TB, n int, racks ...string) {
	t.Helper()
	for i := range n {
		id := offsets.BrokerID(i + 1)
		r := Registration{ID: id, Incarnation: incarnation(id, 1), Directory: incarnation(id, 0), Endpoints: []Endpoint{{"plain", "127.0.0.1", 9092}}}
		if len(racks) > 0 {
			r.Rack = racks[i%len(racks)]
		}
		if err := w.register(r); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) topic(t testing.TB, name string) *Topic {
	t.Helper()
	topic, ok := w.image.TopicByName(name)
	if !ok {
		t.Fatalf("no topic %q", name)
	}
	return topic
}

// describe prints an image for people.
func describe(im *Image) string {
	var b strings.Builder
	for _, br := range im.Brokers {
		fmt.Fprintf(&b, "broker %d epoch %d%s%s%s\n", br.ID, br.Epoch,
			when(br.Rack != "", " rack "+br.Rack), when(br.Fenced, " fenced"), when(br.ShuttingDown, " shutting down")+when(br.Full, " full"))
	}
	for _, t := range im.Topics() {
		fmt.Fprintf(&b, "topic %s%s%s\n", t.Name, when(t.Internal, " internal"), configText(t.Configs))
		for i := range t.Partitions {
			fmt.Fprintf(&b, "  %s\n", partitionText(&t.Partitions[i]))
		}
	}
	if len(im.BrokerConfig) > 0 {
		fmt.Fprintf(&b, "all brokers%s\n", configText(im.BrokerConfig))
	}
	for _, br := range im.Brokers {
		if c := im.BrokerConfigs(br.ID); len(c) > 0 {
			fmt.Fprintf(&b, "only broker %d%s\n", br.ID, configText(c))
		}
	}
	return b.String()
}

func partitionText(p *Partition) string {
	leader := "none"
	if p.Leader != offsets.NoBroker {
		leader = fmt.Sprint(p.Leader)
	}
	return fmt.Sprintf("%d leader %s epoch %d.%d replicas %v isr %v%s%s%s%s", p.Index, leader, p.Epoch, p.PartitionEpoch, p.Replicas, p.ISR,
		when(len(p.Adding) > 0, fmt.Sprintf(" adding %v", p.Adding)), when(len(p.Removing) > 0, fmt.Sprintf(" removing %v", p.Removing)),
		when(len(p.ELR) > 0, fmt.Sprintf(" elr %v", p.ELR)), when(p.Recovering, " recovering"))
}

func configText(configs map[string]string) (s string) {
	for _, r := range appendConfigs(nil, Resource{}, configs) {
		c := r.(*configRecord)
		s += fmt.Sprintf(" %s=%s", c.Key, *c.Value)
	}
	return s
}

func when(on bool, text string) string {
	if on {
		return text
	}
	return ""
}

// checkImage holds an image to all its invariants.
func checkImage(t testing.TB, w *world) {
	t.Helper()
	im := w.image
	load := make(map[offsets.BrokerID]Load)
	partitions := 0
	for _, topic := range im.Topics() {
		if other, ok := im.TopicByID(topic.ID); !ok || other != topic {
			t.Fatalf("topic %q is not found by its id", topic.Name)
		}
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			partitions++
			if err := p.check(); err != nil || int(p.Index) != i {
				t.Fatalf("%s/%d: %v", topic.Name, i, err)
			}
			if p.Leader != offsets.NoBroker && !im.inService(p.Leader) {
				t.Fatalf("%s/%d: leader %d is not in service\n%s", topic.Name, i, p.Leader, describe(im))
			}
			if p.Leader != offsets.NoBroker && !im.usable(p.Leader) && slices.ContainsFunc(union(p.ISR, p.ELR), im.usable) {
				t.Fatalf("%s/%d: leader %d is full, and others are not\n%s", topic.Name, i, p.Leader, describe(im))
			}
			if len(p.ISR) >= w.settings.minISR(im, topic, p) && len(p.ELR) > 0 {
				t.Fatalf("%s/%d: ELR %v beside ISR %v", topic.Name, i, p.ELR, p.ISR)
			}
			for at, id := range p.Replicas {
				l := load[id]
				l.Replicas++
				if at == 0 {
					l.Preferred++
				}
				if id == p.Leader {
					l.Leading++
				}
				load[id] = l
			}
		}
	}
	if partitions != im.PartitionCount() || im.TopicCount() != len(im.Topics()) {
		t.Fatalf("%d partitions counted as %d", partitions, im.PartitionCount())
	}
	for _, b := range im.Brokers {
		if load[b.ID] != im.Load(b.ID) {
			t.Fatalf("broker %d: load %+v kept as %+v", b.ID, load[b.ID], im.Load(b.ID))
		}
	}
	if !slices.IsSortedFunc(im.Brokers, func(a, b Broker) int { return int(a.ID - b.ID) }) {
		t.Fatal("brokers out of order")
	}
	d, err := im.repair(w.settings)
	if err != nil || len(d.records) > 0 {
		t.Fatalf("%d repairs are due after a whole decision: %v", len(d.records), err)
	}
	copied, err := decodeImage(encodeImage(im))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encodeImage(copied), encodeImage(im)) || describe(copied) != describe(im) || copied.Hash() != im.Hash() {
		t.Fatalf("the snapshot of\n%sis\n%s", describe(im), describe(copied))
	}
}
