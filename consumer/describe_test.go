package consumer

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/record"
	"sawlog/offsets"
)

func threeTopics(t *testing.T) *fakeCluster {
	c, log := newFake("delete")
	log.add(records(t, 10, record.None), 5)
	log.start, log.stable = 7, 12
	second := &fakeLog{}
	c.topics[0].partitions = append(c.topics[0].partitions, second)
	c.topics = append(c.topics,
		&fakeTopic{name: "keys", id: offsets.TopicID{2}, policy: "compact,delete", partitions: []*fakeLog{{}}},
		&fakeTopic{name: "__internal", id: offsets.TopicID{3}, policy: "compact", partitions: []*fakeLog{{}}})
	return c
}

func TestDescribe(t *testing.T) {
	c := threeTopics(t)
	topics, cluster, err := Describe(t.Context(), c, []string{"views", "keys"}, "")
	if err != nil || cluster != "fake" || len(topics) != 2 || topics[0].Name != "keys" || topics[1].Name != "views" {
		t.Fatalf("%+v %q %v", topics, cluster, err)
	}
	if !topics[0].Compact || topics[1].Compact {
		t.Errorf("compact: keys %v, views %v", topics[0].Compact, topics[1].Compact)
	}
	want := Partition{Index: 0, Leader: 1, Epoch: 3, LogStart: 7, LastStable: 12, HighWatermark: 15, Size: c.topics[0].partitions[0].size}
	if got := topics[1].Partitions[0]; got != want {
		t.Errorf("views/0: %+v, want %+v", got, want)
	}
	if got := topics[1].Partitions[1]; got.HighWatermark != 0 || got.Size != 0 {
		t.Errorf("views/1: %+v", got)
	}
}

func TestDescribeByPattern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := threeTopics(t)
		for pattern, want := range map[string][]string{"^v": {"views"}, "e": {"keys", "views"}, ".*": {"keys", "views"}, "^keys$": {"keys"}} {
			topics, _, err := Describe(t.Context(), c, nil, pattern)
			if err != nil || len(topics) != len(want) {
				t.Errorf("%s: %+v %v, want %v", pattern, topics, err, want)
				continue
			}
			for i := range want {
				if topics[i].Name != want[i] {
					t.Errorf("%s: %s, want %s", pattern, topics[i].Name, want[i])
				}
			}
		}
		if _, _, err := Describe(t.Context(), c, nil, "^none"); !errors.Is(err, ErrUnknownTopic) {
			t.Errorf("no match: %v", err)
		}
		if _, _, err := Describe(t.Context(), c, nil, "("); err == nil {
			t.Error("a broken pattern was taken")
		}
		if _, _, err := Describe(t.Context(), c, []string{"nope"}, ""); !errors.Is(err, ErrUnknownTopic) {
			t.Errorf("unknown name: %v", err)
		}
	})
}

func TestDescribeWaitsForALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := threeTopics(t)
		c.leader = -1
		if _, _, err := Describe(t.Context(), c, []string{"views"}, ""); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without a leader: %v", err)
		}
	})
}

func TestOffsetForTime(t *testing.T) {
	c := threeTopics(t)
	tps := []offsets.TopicPartition{{Topic: "views", Partition: 0}, {Topic: "views", Partition: 1}, {Topic: "keys", Partition: 0}}
	got, err := OffsetForTime(t.Context(), c, tps, 1004) // record i has time 1000+i and offset 5+i
	if want := (map[offsets.TopicPartition]offsets.Offset{tps[0]: 9}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	if got, err := OffsetForTime(t.Context(), c, tps, 9999); err != nil || len(got) != 0 {
		t.Errorf("beyond the end: %v %v", got, err)
	}
}

func TestGroupOffsets(t *testing.T) {
	c := threeTopics(t)
	topics, _, err := Describe(t.Context(), c, []string{"views"}, "")
	if err != nil {
		t.Fatal(err)
	}
	at := map[offsets.TopicPartition]offsets.Offset{{Topic: "views", Partition: 0}: 12}
	if told, err := Commit(t.Context(), c, "g", topics, at); err != nil || len(told) != 1 || Refused(told) != nil {
		t.Fatal(told, err)
	}
	got, err := Committed(t.Context(), c, "g", topics)
	if err != nil || !maps.Equal(got, at) {
		t.Errorf("%v %v, want %v", got, err, at)
	}
	if err := Hold(t.Context(), c, "job", topics, at, time.Hour); err != nil {
		t.Errorf("hold: %v", err)
	}
	held := HeldBy("retention.hold.job", c.configs["retention.hold.job"])
	if want := []Held{{"job", 0, 12}}; !slices.Equal(held, want) {
		t.Errorf("held %v, want %v", held, want)
	}
	for _, other := range []string{"retention.ms", "retention.hold.max.ms", "retention.hold.max.bytes"} {
		if held := HeldBy(other, "0:12"); held != nil || HoldingJob(other) != "" {
			t.Errorf("%s is of no job: %v", other, held)
		}
	}
	c.configErr = kerr.InvalidConfig.Code
	if err := Hold(t.Context(), c, "job", topics, at, time.Hour); !errors.Is(err, ErrNoHold) {
		t.Errorf("a refused hold: %v", err)
	}
}

// TestCommitsArePartlyRefused: what became of each partition is told, and only what
// may go well at another try is sent again.
func TestCommitsArePartlyRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := threeTopics(t)
		topics, _, err := Describe(t.Context(), c, []string{"views"}, "")
		if err != nil {
			t.Fatal(err)
		}
		at := map[offsets.TopicPartition]offsets.Offset{}
		for p := range topics[0].Partitions {
			at[offsets.TopicPartition{Topic: "views", Partition: int32(p)}] = 12
		}
		first, second := offsets.TopicPartition{Topic: "views", Partition: 0}, offsets.TopicPartition{Topic: "views", Partition: 1}
		var sent []offsets.TopicPartition
		refuse := func(codes map[offsets.TopicPartition]*kerr.Error, until int) {
			c.commits, sent = 0, nil
			c.refuse = func(tp offsets.TopicPartition, n int) int16 {
				if n > 1 {
					sent = append(sent, tp)
				}
				if code := codes[tp]; code != nil && n <= until {
					return code.Code
				}
				return 0
			}
		}
		refuse(map[offsets.TopicPartition]*kerr.Error{second: kerr.NotCoordinator}, 2)
		told, err := Commit(t.Context(), c, "g", topics, at)
		if err != nil || Refused(told) != nil || len(told) != len(at) || c.commits != 3 || !slices.Equal(sent, []offsets.TopicPartition{second, second}) {
			t.Errorf("a coordinator that moves: %v, %v, after %d tries, %v again", told, err, c.commits, sent)
		}
		refuse(map[offsets.TopicPartition]*kerr.Error{first: kerr.TopicAuthorizationFailed, second: kerr.NotCoordinator}, 2)
		told, err = Commit(t.Context(), c, "g", topics, at)
		if err != nil || !errors.Is(told[first], ErrAuth) || told[second] != nil || !slices.Equal(sent, []offsets.TopicPartition{second, second}) {
			t.Errorf("one that is refused for good beside it: %v, %v, %v again", told, err, sent)
		}
		refuse(map[offsets.TopicPartition]*kerr.Error{first: kerr.UnknownTopicOrPartition, second: kerr.NotCoordinator}, 8)
		told, err = Commit(t.Context(), c, "g", topics, at)
		if err != nil || Refused(told) != nil || c.commits != 9 {
			t.Errorf("a coordinator that moves, and a topic that is new to it: %v, %v, after %d tries", told, err, c.commits)
		}
		refuse(nil, 0)
		c.omitted = map[offsets.TopicPartition]bool{second: true}
		told, err = Commit(t.Context(), c, "g", topics, at)
		if _, known := told[second]; known || !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), second.String()) || len(told) != len(at)-1 || Refused(told) != nil {
			t.Errorf("one that is left out of the answer: %v, %v", told, err)
		}
		c.omitted = nil
		refuse(map[offsets.TopicPartition]*kerr.Error{first: kerr.TopicAuthorizationFailed, second: kerr.UnknownMemberID}, 9)
		told, err = Commit(t.Context(), c, "g", topics, at)
		if err != nil || !errors.Is(told[first], ErrAuth) || !errors.Is(told[second], kerr.UnknownMemberID) || c.commits != 1 {
			t.Errorf("two that are refused: %v, %v, after %d tries", told, err, c.commits)
		}
		if err := Refused(told); !errors.Is(err, ErrAuth) || !strings.HasPrefix(err.Error(), "views/0, and 1 more: ") {
			t.Errorf("%v", err)
		}
	})
}
