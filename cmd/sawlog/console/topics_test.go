package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTopics looks at a list of real topics: numbers, configs, the rate at the
// second look, and internal topics only where they are asked for.
func TestTopics(t *testing.T) {
	s := newStand(t, nil)
	s.create("orders", 3, "retention.ms", "86400000")
	s.create("Clicks", 1, "cleanup.policy", "compact")
	s.send(s.numbers("orders", 0, 40)...)
	s.send(s.numbers("orders", 2, 2)...)
	s.commit("g", "orders", map[int32]int64{0: 1}) // makes an internal topic
	page := s.page("/console/topics", http.StatusOK)
	s.has(page, ">orders<", ">Clicks<", ">42<", "1 d", "compact", "healthy", "internal", "sawlog topic list")
	s.lacks(page, ">__consumer_offsets<")
	s.has(s.page("/console/topics?internal=1", http.StatusOK), ">__consumer_offsets<")
	s.lacks(s.page("/console/topics?q=CLICK", http.StatusOK), ">orders<")
	s.send(s.numbers("orders", 1, 30)...)
	s.now = s.now.Add(10 * time.Second)
	s.has(s.page("/console/topics", http.StatusOK), ">72<", ">3.00<")
}

// TestTopic looks at one topic, and makes none by looking.
func TestTopic(t *testing.T) {
	s := newStand(t, nil)
	s.create("orders", 120, "retention.ms", "86400000")
	s.send(s.numbers("orders", 1, 7)...)
	if _, err := s.jobs.Apply(t.Context(), []byte(strings.ReplaceAll(job, "pageviews", "orders")), "job.yaml", "ann", false); err != nil {
		t.Fatal(err)
	}
	page := s.page("/console/topics/orders", http.StatusOK)
	s.has(page, "120", "healthy", "set on the topic", "86400000", "/console/jobs/orders-hourly", "/console/outputs/orders-hourly",
		"/console/topics/orders/messages?partition=1", "sawlog topic describe orders", `rel="next"`)
	s.lacks(page, "segment.bytes")
	s.has(s.page("/console/topics/orders?configs=all", http.StatusOK), "segment.bytes", "default")
	s.has(s.page("/console/topics/orders?page=2", http.StatusOK), "partition=119")
	s.has(s.page("/console/topics/nobody-made-it", http.StatusNotFound), "nobody-made-it")
	s.page("/console/topics/nobody-made-it/messages", http.StatusNotFound)
	s.page("/console/topics/%3Cscript%3E", http.StatusNotFound)
	s.lacks(s.page("/console/topics", http.StatusOK), "nobody-made-it")
}

// TestTroubleIsTold: partitions without a leader, that lack copies or are moved,
// and brokers that are out of service or never answer.
func TestTroubleIsTold(t *testing.T) {
	b := newBrokers(4, 6, 3)
	b.topics[1].Partitions[4].Leader = untold
	b.topics[2].Partitions[0].ISR = []int32{1}
	b.topics[3].Partitions[1].ISR = b.topics[3].Partitions[1].ISR[:2]
	moved := kmsg.NewListPartitionReassignmentsResponseTopic()
	moved.Topic = "topic-003"
	part := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	part.Partition, part.AddingReplicas, part.RemovingReplicas = 1, []int32{1}, []int32{2}
	moved.Partitions = append(moved.Partitions, part)
	b.moves.Topics = append(b.moves.Topics, moved)
	b.fenced[3] = true
	s := standOver(t, runner{}, over(b))
	s.has(s.page("/console/topics", http.StatusOK), "1 offline", "2 under-replicated")
	trouble := s.page("/console/topics?only=trouble", http.StatusOK)
	s.has(trouble, ">topic-001<", ">topic-002<", ">topic-003<")
	s.lacks(trouble, ">topic-000<")
	s.has(s.page("/console/topics/topic-001", http.StatusOK), "have no leader", "sawlog cluster elect --unclean", ">none<")
	s.has(s.page("/console/topics/topic-002?only=trouble", http.StatusOK), "fewer copies in sync than 2", "under-replicated")
	// The copy that a move adds is not expected to be complete.
	s.has(s.page("/console/topics/topic-003", http.StatusOK), "moving: adds 1, removes 2", "healthy")
	page := s.page("/console/cluster", http.StatusOK)
	s.has(page, "2 of 3 up", "fenced", "topic-001/4", "offline", "topic-002/0", "under min ISR, under-replicated", "Moves under way", "topic-003/1")
	s.lacks(page, `only=trouble">topic-003/1`)
	s.has(s.page("/console/", http.StatusOK), "2 of 3 up", "/console/topics?only=trouble")
}

// TestSilentBrokersHoldNoPageUp: what a broker does not tell within the patience
// is left out, and said.
func TestSilentBrokersHoldNoPageUp(t *testing.T) {
	b := newBrokers(3, 3, 3)
	b.silent[2] = true
	s := standOver(t, runner{}, over(b))
	for path, known := range map[string]string{
		"/console/topics": ">topic-002<", "/console/topics/topic-000": "messages?partition=1", "/console/cluster": "3 of 3 up",
		"/console/topics/topic-000/messages": "Messages", "/console/group?group=g": "topic-000",
	} {
		began := time.Now()
		page := s.page(path, http.StatusOK)
		s.has(page, known)
		if took := time.Since(began); took > patience+time.Second {
			t.Errorf("%s took %v", path, took)
		}
		if !strings.Contains(page, "broker 2") && !strings.Contains(page, "not all came") {
			t.Errorf("%s does not say that a broker was silent:\n%s", path, mainOf(page))
		}
	}
}

func TestRate(t *testing.T) {
	var r rates
	at := noon
	for _, look := range []struct {
		after time.Duration
		end   int64
		known bool
		want  string
	}{
		{0, 100, true, ""},
		{time.Second, 5000, true, ""}, // too soon to tell
		{9 * time.Second, 200, true, "10"},
		{time.Second, 900, true, "10"}, // the rate of before stands
		{10 * time.Second, 200, true, "0"},
		{10 * time.Second, 201, false, ""},
		{10 * time.Second, 100, true, ""}, // the topic was made anew
		{time.Hour, 4000, true, ""},       // too long ago
		{10 * time.Second, 4025, true, "2.50"},
	} {
		at = at.Add(look.after)
		if got := r.note("t", look.known, look.end, at); got != look.want {
			t.Errorf("after %v: %q, want %q", at.Sub(noon), got, look.want)
		}
	}
}

func TestRetention(t *testing.T) {
	for _, c := range []struct{ ms, bytes, want string }{
		{"604800000", "-1", "7 d"}, {"5400000", "1073741824", "90 m, 1.00 GiB a partition"}, {"-1", "-1", "for ever"}, {"-1", "2048", "2.00 KiB a partition"}, {"", "", ""},
	} {
		if got := retention(c.ms, c.bytes); got != c.want {
			t.Errorf("retention(%s, %s) = %q, want %q", c.ms, c.bytes, got, c.want)
		}
	}
}
