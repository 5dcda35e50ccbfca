package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sawlog/consumer/admin"
)

// fleetOf makes a cluster of brokers ID, ID:RACK or ID! (out of service), whose
// only topic t has the given copies, all in sync and led by the first.
func fleetOf(brokers string, copies ...[]int32) *fleet {
	f := &fleet{Fleet: &admin.Fleet{Controller: 1}}
	for text := range strings.FieldsSeq(brokers) {
		var b admin.Broker
		name, rack, _ := strings.Cut(text, ":")
		if _, err := fmt.Sscan(strings.TrimSuffix(name, "!"), &b.ID); err != nil {
			panic(err)
		}
		b.Rack, b.Fenced = rack, strings.HasSuffix(name, "!")
		f.Brokers = append(f.Brokers, b)
	}
	t := admin.Topic{Name: "t"}
	for i, list := range copies {
		t.Partitions = append(t.Partitions, admin.Partition{Topic: "t", Index: int32(i), Leader: list[0], Replicas: list, ISR: list})
	}
	f.Topics = []admin.Topic{t}
	f.partitions = admin.PartitionsOf(f.Topics)
	f.Carry()
	return f
}

func planned(moves []move) string {
	list := make([]string, 0, len(moves))
	for _, m := range moves {
		list = append(list, fmt.Sprint(m.Partition, m.To))
	}
	return strings.Join(list, " ")
}

func TestDrainPlans(t *testing.T) {
	for name, c := range map[string]struct {
		f      *fleet
		shrink bool
		want   string
		says   string
	}{
		"to who carries least":       {f: fleetOf("1 2 3 4", []int32{3, 1}, []int32{1, 2}, []int32{2, 3}, []int32{1, 3}), want: "0 [4 1] 2 [2 4] 3 [1 2]"},
		"a fenced one takes nothing": {f: fleetOf("1 2 3 4!", []int32{3, 1}), want: "0 [2 1]"},
		"another rack first":         {f: fleetOf("1:a 2:a 3:b 4:b", []int32{1, 3}, []int32{1, 3}, []int32{4, 3}), want: "0 [1 4] 1 [1 4] 2 [4 2]"},
		"nowhere to go":              {f: fleetOf("1 2 3", []int32{3, 1, 2}), says: "holds a copy already"},
		"one copy less":              {f: fleetOf("1 2 3", []int32{3, 1, 2}), shrink: true, want: "0 [1 2]"},
		"never the last copy":        {f: fleetOf("2! 3", []int32{3}), shrink: true, says: "alone"},
		"nothing to do":              {f: fleetOf("1 2 3", []int32{1, 2})},
	} {
		t.Run(name, func(t *testing.T) {
			moves, err := c.f.empty(3, c.shrink)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%v, want it to say %q", err, c.says)
				}
				return
			}
			if got := planned(moves); err != nil || got != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestLeadershipIsPassedToCompleteCopies(t *testing.T) {
	f := fleetOf("1 2 3 4!", []int32{3, 1, 2}, []int32{3, 1, 2}, []int32{3, 4, 2}, []int32{1, 3})
	f.partitions[1].ISR = []int32{3, 2}
	moves, err := f.passOn(3)
	if got := planned(moves); err != nil || got != "0 [2 1 3] 1 [2 1 3] 2 [2 4 3]" {
		t.Errorf("%s, %v", got, err)
	}
	f.partitions[2].ISR = []int32{3, 4}
	if _, err := f.passOn(3); err == nil || !strings.Contains(err.Error(), "complete copy") {
		t.Errorf("no other complete copy: %v", err)
	}
}

func TestTargets(t *testing.T) {
	got, err := parseTargets([]string{"a", "b/0-2,7,1"})
	if err != nil || len(got) != 2 || got[0].partitions != nil || !slices.Equal(got[1].partitions, []int32{0, 1, 2, 7}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"", "/1", "a/", "a/x", "a/3-1", "a/-1", "a/0-9999999"} {
		if _, err := parseTargets([]string{wrong}); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
	f := fleetOf("1", []int32{1}, []int32{1})
	if chosen, err := f.choose([]topicPart{{topic: "t", partitions: []int32{1}}}); err != nil || len(chosen) != 1 || chosen[0].Index != 1 {
		t.Errorf("%v, %v", chosen, err)
	}
	if _, err := f.choose([]topicPart{{topic: "t", partitions: []int32{2}}}); err == nil {
		t.Error("a partition that isn't there was chosen")
	}
	if chosen, _ := f.choose(nil); len(chosen) != 2 {
		t.Errorf("without targets: %v", chosen)
	}
}

// TestThrottleOf: who sends and who takes in, as kafka-reassign-partitions lists
// them: a replica that stays sends.
func TestThrottleOf(t *testing.T) {
	brokers, lists := throttleOf([]move{
		{Topic: "a", Partition: 0, From: []int32{1, 2}, To: []int32{2, 3}},
		{Topic: "a", Partition: 1, From: []int32{2}, To: []int32{4}},
		{Topic: "b", Partition: 7, From: []int32{1}, To: []int32{1}},
	})
	if want := []int32{1, 2, 3, 4}; !slices.Equal(brokers, want) {
		t.Errorf("brokers %v", brokers)
	}
	if a := lists["a"]; a != [2]string{"0:1,0:2,1:2", "0:3,1:4"} {
		t.Errorf("a: %q", a)
	}
	if b := lists["b"]; b != [2]string{"7:1", ""} {
		t.Errorf("b: %q", b)
	}
}
