package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sawlog/offsets"
)

// step takes one random decision; what it asks may be refused.
func (w *world) step(rnd *rand.Rand) error {
	im := w.image
	broker := offsets.BrokerID(rnd.IntN(5))
	epoch := int64(0)
	if b, ok := im.Broker(broker); ok {
		epoch = b.Epoch
	}
	pick := func() (*Topic, *Partition) {
		topics := im.Topics()
		if len(topics) == 0 {
			return &Topic{Name: "none"}, &Partition{Leader: offsets.NoBroker}
		}
		t := topics[rnd.IntN(len(topics))]
		return t, &t.Partitions[rnd.IntN(len(t.Partitions))]
	}
	switch rnd.IntN(14) {
	case 12, 13:
		t, p := pick()
		r := Reassignment{Topic: t.Name, Partition: p.Index}
		if rnd.IntN(4) > 0 {
			r.Replicas = []offsets.BrokerID{0, 1, 2, 3, 4}
			rnd.Shuffle(5, func(i, j int) { r.Replicas[i], r.Replicas[j] = r.Replicas[j], r.Replicas[i] })
			r.Replicas = r.Replicas[:1+rnd.IntN(4)]
		}
		return w.do(func(im *Image) (decision, error) { return im.reassign(w.settings, r) })
	case 0:
		return w.create(NewTopic{
			Name: fmt.Sprintf("t%d.x", rnd.IntN(30)), Partitions: rnd.Int32N(6), ReplicationFactor: int16(rnd.IntN(5)),
			Configs: map[string]string{"min.insync.replicas": fmt.Sprint(rnd.IntN(4)), "unclean.leader.election.enable": fmt.Sprint(rnd.IntN(4) == 0)},
		})
	case 1:
		if t, _ := pick(); rnd.IntN(3) == 0 {
			return w.do(func(im *Image) (decision, error) { return im.deleteTopic(t.ID) })
		}
		return nil
	case 2, 3:
		return w.register(Registration{
			ID: broker, Incarnation: incarnation(broker, rnd.IntN(256)), Directory: incarnation(broker, rnd.IntN(10)/9),
			Rack: strings.Repeat("r", rnd.IntN(3)), Intact: rnd.IntN(2) == 0, PreviousEpoch: epoch, Fenced: rnd.IntN(4) == 0,
		})
	case 4, 5:
		return w.change(BrokerChange{ID: broker, Epoch: epoch, Fenced: rnd.IntN(2) == 0, ShuttingDown: rnd.IntN(4) == 0, Full: rnd.IntN(3) == 0})
	case 6, 7, 8:
		t, p := pick()
		c := ISRChange{Topic: t.ID, Partition: p.Index, Broker: p.Leader, LeaderEpoch: p.Epoch, PartitionEpoch: p.PartitionEpoch, Recovering: p.Recovering && rnd.IntN(2) == 0}
		for _, id := range p.Replicas {
			if b, ok := im.Broker(id); ok && (id == p.Leader || rnd.IntN(2) == 0) {
				c.ISR = append(c.ISR, Member{id, b.Epoch})
			}
		}
		if l, ok := im.Broker(p.Leader); ok {
			c.BrokerEpoch = l.Epoch
		}
		return w.do(func(im *Image) (decision, error) { return im.changeISR(w.settings, c) })
	case 9:
		t, p := pick()
		return w.do(func(im *Image) (decision, error) {
			return im.electLeader(w.settings, ElectionKind(rnd.IntN(2)), offsets.TopicPartition{Topic: t.Name, Partition: p.Index})
		})
	case 10:
		t, _ := pick()
		r := []Resource{{TopicResource, t.Name}, {BrokerResource, ""}, brokerResource(broker)}[rnd.IntN(3)]
		ops := []ConfigOp{
			{OpKind(rnd.IntN(4)), "list", fmt.Sprint(rnd.IntN(3))},
			{OpKind(rnd.IntN(2)), minISRKey, fmt.Sprint(1 + rnd.IntN(3))},
			{OpKind(rnd.IntN(2)), uncleanKey, fmt.Sprint(rnd.IntN(3) == 0)},
		}
		return w.do(func(im *Image) (decision, error) {
			return im.alterConfigs(w.settings, ConfigChange{Resource: r, Ops: ops, Replace: rnd.IntN(2) == 0})
		})
	default:
		t, _ := pick()
		if rnd.IntN(2) == 0 {
			return w.do(func(im *Image) (decision, error) { return im.unregister(broker) })
		}
		return w.do(func(im *Image) (decision, error) { return im.growTopic(t.Name, rnd.Int32N(9), nil) })
	}
}

// TestRandomHistories takes random decisions and checks after each that the
// image keeps its invariants; that no older image has changed; that epochs
// only grow; and at the end that the log folds to the same image from the
// start, and from a snapshot taken anywhere.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			w := newWorld()
			images := []*Image{w.image}
			hashes := [][32]byte{w.image.Hash()}
			texts := []string{describe(w.image)}
			refused := 0
			for range 120 {
				before := w.image
				if err := w.step(rnd); err != nil {
					if errors.Is(err, errDiverged) || errors.Is(err, errFormat) {
						t.Fatal(err)
					}
					refused++
				}
				checkImage(t, w)
				checkEpochs(t, before, w.image)
				if w.image != before {
					images, hashes, texts = append(images, w.image), append(hashes, w.image.Hash()), append(texts, describe(w.image))
				}
			}
			if len(w.log) < 20 {
				t.Fatalf("only %d entries, %d refusals: the history shows nothing", len(w.log), refused)
			}
			for i, im := range images {
				if im.Hash() != hashes[i] || describe(im) != texts[i] {
					t.Fatalf("image %d has changed\n%s", i, describe(im))
				}
				replay := newWorld()
				var err error
				if replay.image, err = decodeImage(encodeImage(im)); err != nil {
					t.Fatal(err)
				}
				replay.log = slices.Clone(w.log[:im.Index])
				for _, e := range w.log[im.Index:] {
					if err := replay.append(e); err != nil {
						t.Fatal(err)
					}
				}
				if replay.image.Hash() != w.image.Hash() || describe(replay.image) != describe(w.image) {
					t.Fatalf("from image %d the log leads to\n%snot to\n%s", i, describe(replay.image), describe(w.image))
				}
			}
		})
	}
}

// checkEpochs: a new leader has a new epoch, any change a new partition epoch,
// and none goes back.
func checkEpochs(t *testing.T, old, now *Image) {
	t.Helper()
	for _, topic := range old.Topics() {
		after, ok := now.TopicByID(topic.ID)
		if !ok {
			continue
		}
		for i := range topic.Partitions {
			a, b := &topic.Partitions[i], &after.Partitions[i]
			switch {
			case a.Leader != b.Leader && b.Epoch <= a.Epoch,
				partitionText(a) != partitionText(b) && b.PartitionEpoch <= a.PartitionEpoch,
				b.Epoch < a.Epoch:
				t.Fatalf("%s: %s became %s", topic.Name, partitionText(a), partitionText(b))
			}
		}
	}
}

// TestCutAnywhere cuts the records of every non-atomic decision at every place:
// what is left must be sound for a restart and be finished by repair.
func TestCutAnywhere(t *testing.T) {
	cuts := 0
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		w := newWorld()
		for range 80 {
			if err := w.step(rnd); err != nil {
				continue
			}
			if len(w.image.Brokers) == 0 {
				continue
			}
			b := w.image.Brokers[rnd.IntN(len(w.image.Brokers))]
			d, err := w.image.register(w.settings, Registration{ID: b.ID, Incarnation: incarnation(b.ID, 99), Directory: b.Directory, Intact: seed%2 == 0, PreviousEpoch: b.Epoch})
			if err != nil || d.atomic {
				t.Fatal(err, d.atomic)
			}
			for cut := range d.records {
				half := *w
				if half.image, err = w.image.apply(w.image.Index+1, d.records[:cut]); err != nil {
					t.Fatal(err)
				}
				for _, topic := range half.image.Topics() {
					for i := range topic.Partitions {
						p := &topic.Partitions[i]
						if p.Leader != offsets.NoBroker && !half.image.inService(p.Leader) {
							t.Fatalf("cut at %d: %s/%d is led by %d, which is not in service", cut, topic.Name, i, p.Leader)
						}
						now, _ := half.image.Broker(b.ID)
						before, _ := w.image.Partition(topic.ID, p.Index)
						lost := seed%2 != 0 && !slices.Equal(before.lose(b.ID, false).ISR, before.ISR)
						counts := p.inSync(b.ID) && !p.Recovering || slices.Contains(p.ELR, b.ID) // an unclean leader says what it is
						if lost && now.Incarnation != b.Incarnation && counts {
							t.Fatalf("cut at %d: %s/%d counts on the new incarnation of %d, which lost records", cut, topic.Name, i, b.ID)
						}
					}
				}
				if err := half.do(func(im *Image) (decision, error) { return im.repair(w.settings) }); err != nil {
					t.Fatal(err)
				}
				checkImage(t, &half)
				cuts++
			}
		}
	}
	if cuts < 1000 {
		t.Fatalf("only %d cuts tried", cuts)
	}
}

// TestDivergence: records that don't fit the image are errors, not changes.
func TestDivergence(t *testing.T) {
	w := newWorld()
	w.join(t, 2)
	if err := w.create(NewTopic{Name: "a.b", Partitions: 1, ReplicationFactor: 2}); err != nil {
		t.Fatal(err)
	}
	id := w.topic(t, "a.b").ID
	leader, nobody, stranger := offsets.BrokerID(1), offsets.BrokerID(7), []offsets.BrokerID{9}
	one, none := []offsets.BrokerID{1}, []offsets.BrokerID{}
	value := "v"
	for _, r := range []record{
		&clusterRecord{""},
		&formatRecord{0},
		&formatRecord{formatLevel + 1},
		&brokerRecord{Broker{ID: -1}},
		&brokerChangeRecord{ID: 1, Epoch: 7},
		&brokerRemovalRecord{ID: 1, Epoch: 1},
		&brokerRemovalRecord{ID: 7, Epoch: 1},
		&topicRecord{Name: "a.b", ID: offsets.TopicID{5}},
		&topicRecord{Name: "c", ID: id},
		&topicRecord{Name: "c"},
		&topicRemovalRecord{offsets.TopicID{5}},
		&partitionRecord{id, Partition{Index: 2, Leader: 1, Replicas: one, ISR: one}},
		&partitionRecord{id, Partition{Index: 1, Leader: 1, Replicas: none}},
		&partitionRecord{id, Partition{Index: 1, Leader: 2, Replicas: one, ISR: one}},
		&partitionRecord{offsets.TopicID{5}, Partition{Replicas: one, ISR: one}},
		&partitionChangeRecord{Topic: id, PartitionEpoch: 2, Leader: &leader},
		&partitionChangeRecord{Topic: id, PartitionEpoch: 1, Leader: &nobody},
		&partitionChangeRecord{Topic: id, PartitionEpoch: 1, ISR: &stranger},
		&partitionChangeRecord{Topic: id, PartitionEpoch: 1, ELR: &one},
		&partitionChangeRecord{Topic: id, PartitionEpoch: 1, Index: 1},
		&configRecord{Resource{TopicResource, "c"}, "k", &value},
		&configRecord{Resource{TopicResource, "a.b"}, "", &value},
		&configRecord{Resource{BrokerResource, "x"}, "k", &value},
		&configRecord{Resource{3, ""}, "k", &value},
		&producerIDsRecord{Next: -1},
		&nodeIDRecord{Next: 1},
		&imageRecord{},
	} {
		before := w.image.Hash()
		_, err := w.image.apply(9, []record{r})
		if !errors.Is(err, errDiverged) && !errors.Is(err, errFormat) {
			t.Errorf("%T %+v: %v", r, r, err)
		}
		if w.image.Hash() != before {
			t.Fatalf("%T changed the old image", r)
		}
	}
}

// TestTree compares the tree with a map through random changes, and older
// trees with what they were.
func TestTree(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	tr := newTree[int, int](func(a, b int) int { return a - b })
	model := make(map[int]int)
	type version struct {
		tree tree[int, int]
		keys []int
	}
	var versions []version
	for i := range 3000 {
		if k := rnd.IntN(400); rnd.IntN(3) > 0 {
			tr, model[k] = tr.with(k, i), i
		} else {
			tr = tr.without(k)
			delete(model, k)
		}
		var keys []int
		for k, v := range tr.all() {
			if model[k] != v {
				t.Fatalf("key %d is %d, want %d", k, v, model[k])
			}
			keys = append(keys, k)
		}
		if len(keys) != len(model) || tr.len() != len(model) || !slices.IsSorted(keys) {
			t.Fatalf("keys %v of %d", keys, len(model))
		}
		checkBalance(t, tr.root)
		if i%100 == 0 {
			versions = append(versions, version{tr, keys})
		}
	}
	for i, v := range versions {
		var keys []int
		for k := range v.tree.all() {
			keys = append(keys, k)
		}
		if !slices.Equal(keys, v.keys) {
			t.Fatalf("version %d has changed", i)
		}
	}
	for k := range tr.all() {
		if k > 100 {
			break // all must stop when told
		}
	}
}

func checkBalance(t *testing.T, n *node[int, int]) {
	if n == nil {
		return
	}
	if d := n.left.tall() - n.right.tall(); d < -1 || d > 1 || n.height != max(n.left.tall(), n.right.tall())+1 || n.size != n.left.count()+n.right.count()+1 {
		t.Fatalf("node %d: heights %d and %d", n.key, n.left.tall(), n.right.tall())
	}
	checkBalance(t, n.left)
	checkBalance(t, n.right)
}
