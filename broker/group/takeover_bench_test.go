package group

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// BenchmarkTakeover measures the time from an election to the first right answer
// of a coordinator whose partition holds a million committed offsets and ten
// thousand groups.
func BenchmarkTakeover(b *testing.B) {
	const groups, each = 10_000, 100
	topic := newFakeTopic()
	store, err := offsets.OpenStore(offsets.StoreConfig{Path: filepath.Join(b.TempDir(), "offsets.db")})
	if err != nil {
		b.Fatal(err)
	}
	c := topic.config(store)
	c.Partitions = 1
	var changes []offsets.Change
	for g := range groups {
		name := fmt.Sprint("group-", g)
		meta := groupRecord(1, name, Snapshot{ProtocolType: "consumer", Generation: 3})
		changes = append(changes, offsets.Change{Group: name, Meta: meta.Value})
		for p := range int32(each) {
			changes = append(changes, offsets.Change{Group: name, Topic: "t", Partition: p, Commit: &offsets.Committed{Offset: 7, Expires: -1}})
		}
	}
	// One record stands for all that was applied.
	w := record.NewBuilder(record.None, 0)
	w.Append(record.Record{Key: []byte("k")})
	batch, err := w.Batch()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := topic.append(b.Context(), 0, 1, batch); err != nil {
		b.Fatal(err)
	}
	store.Apply(0, offsets.Position{Offset: 1, Epoch: 1}, changes)
	changes = nil
	if err := store.Flush(); err != nil {
		b.Fatal(err)
	}
	co, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	r := &rig{Coordinator: co, topic: topic, store: store}
	for b.Loop() {
		r.Elected(0, 1)
		for {
			p := r.fetch("group-77", "t", 5)
			if p.ErrorCode == 0 && p.Offset == 7 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		r.Resigned(0)
	}
	if err := co.Close(); err != nil {
		b.Fatal(err)
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}
