package consumer

import (
	"errors"
	"testing"
	"testing/synctest"
)

// What no broker tells of a partition is untold; all else is there.
func TestSurvey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := threeTopics(t)
		c.leaderless = map[int32]bool{1: true}
		topics, err := Survey(t.Context(), c)
		if err != nil || len(topics) != 2 || topics[0].Name != "keys" || topics[1].Name != "views" || !topics[0].Compact {
			t.Fatalf("%+v %v", topics, err)
		}
		want := Partition{Index: 0, Leader: 1, Epoch: 3, LogStart: 7, LastStable: 12, HighWatermark: 15, Size: c.topics[0].partitions[0].size}
		if got := topics[1].Partitions[0]; got != want {
			t.Errorf("views/0: %+v, want %+v", got, want)
		}
		untold := Partition{Index: 1, Leader: noLeader, Epoch: 3, LogStart: Untold, LastStable: Untold, HighWatermark: Untold, Size: -1}
		if got := topics[1].Partitions[1]; got != untold {
			t.Errorf("views/1 has no leader: %+v, want %+v", got, untold)
		}

		c.down[1] = true // it is still told of by the others
		topics, err = Survey(t.Context(), c)
		if err != nil || len(topics) != 2 {
			t.Fatalf("a leader is down: %+v %v", topics, err)
		}
		if p := topics[1].Partitions[0]; p.Leader != 1 || p.HighWatermark != Untold || p.Size != -1 {
			t.Errorf("its partition: %+v", p)
		}
		if _, _, err := Describe(t.Context(), c, []string{"views"}, ""); !errors.Is(err, ErrUnavailable) {
			t.Errorf("whoever plans took what is untold: %v", err)
		}
	})
}

func TestSurveyOfNoTopics(t *testing.T) {
	c := threeTopics(t)
	c.topics = nil
	if topics, err := Survey(t.Context(), c); err != nil || len(topics) != 0 {
		t.Errorf("%v %v", topics, err)
	}
}
