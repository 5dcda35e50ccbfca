package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// answer is what became of some of 0, 1, 2…: nil = it was done, errSilent = nobody
// says.
type answer []error

func (a answer) code(i int) int16 {
	if code, ok := errors.AsType[*kerr.Error](a[i]); ok {
		return code.Code
	}
	return 0
}

func (a answer) told() (list []int) {
	for i := range a {
		if a[i] != errSilent {
			list = append(list, i)
		}
	}
	return list
}

// deed is a deed of several things; it returns which were done.
type deed struct {
	name      string
	oneBroker bool // is asked
	do        func(ctx context.Context, f *fake, a answer) (done []int, err error)
}

var deedsOfMany = []deed{
	{"DeleteTopics", true, func(ctx context.Context, f *fake, a answer) (done []int, err error) {
		resp := kmsg.NewPtrDeleteTopicsResponse()
		for _, i := range a.told() {
			resp.Topics = append(resp.Topics, kmsg.DeleteTopicsResponseTopic{Topic: new(fmt.Sprint(i)), ErrorCode: a.code(i)})
		}
		f.deed = resp
		gone, err := DeleteTopics(ctx, f, named(a))
		for _, name := range gone {
			done = append(done, int(name[0]-'0'))
		}
		return done, err
	}},
	{"DeleteRecords", false, func(ctx context.Context, f *fake, a answer) (done []int, err error) {
		resp := kmsg.NewPtrDeleteRecordsResponse()
		resp.Topics = []kmsg.DeleteRecordsResponseTopic{{Topic: "t"}}
		below := map[int32]int64{}
		for i := range a {
			below[int32(i)] = 5
		}
		for _, i := range a.told() {
			resp.Topics[0].Partitions = append(resp.Topics[0].Partitions, kmsg.DeleteRecordsResponseTopicPartition{Partition: int32(i), ErrorCode: a.code(i), LowWatermark: 5})
		}
		f.deed = resp
		starts, err := DeleteRecords(ctx, f, "t", below)
		for _, p := range slices.Sorted(maps.Keys(starts)) {
			if done = append(done, int(p)); starts[p] != 5 {
				err = fmt.Errorf("partition %d starts at %d", p, starts[p])
			}
		}
		return done, err
	}},
	{"DeleteGroups", false, func(ctx context.Context, f *fake, a answer) (done []int, err error) {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		for _, i := range a.told() {
			resp.Groups = append(resp.Groups, kmsg.DeleteGroupsResponseGroup{Group: fmt.Sprint(i), ErrorCode: a.code(i)})
		}
		f.deed = resp
		gone, err := DeleteGroups(ctx, f, named(a))
		for _, name := range gone {
			done = append(done, int(name[0]-'0'))
		}
		return done, err
	}},
	{"DeleteOffsets", true, func(ctx context.Context, f *fake, a answer) (done []int, err error) {
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.Topics = []kmsg.OffsetDeleteResponseTopic{{Topic: "t"}}
		var of []int32
		for i := range a {
			of = append(of, int32(i))
		}
		for _, i := range a.told() {
			resp.Topics[0].Partitions = append(resp.Topics[0].Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: int32(i), ErrorCode: a.code(i)})
		}
		f.deed = resp
		gone, err := DeleteOffsets(ctx, f, "g", "t", of)
		for _, p := range gone {
			done = append(done, int(p))
		}
		return done, err
	}},
	{"Commit", true, func(ctx context.Context, f *fake, a answer) (done []int, err error) {
		resp := kmsg.NewPtrOffsetCommitResponse()
		resp.Topics = []kmsg.OffsetCommitResponseTopic{{Topic: "t"}}
		to := map[int32]int64{}
		for i := range a {
			to[int32(i)] = 5
		}
		for _, i := range a.told() {
			resp.Topics[0].Partitions = append(resp.Topics[0].Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: int32(i), ErrorCode: a.code(i)})
		}
		f.deed = resp
		set, err := Commit(ctx, f, "g", &Topic{Name: "t"}, to)
		for _, p := range set {
			done = append(done, int(p))
		}
		return done, err
	}},
}

func named(a answer) (names []string) {
	for i := range a {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

// TestDeedsTellWhatWasDone: whatever became of the parts of a deed, how many were
// done is told and which, and whether others may be.
func TestDeedsTellWhatWasDone(t *testing.T) {
	synctest.Test(t, deedsTellWhatWasDone) // some are repeated for a while
}

func deedsTellWhatWasDone(t *testing.T) {
	down := fmt.Errorf("%w: connection refused", consumer.ErrUnavailable)
	outcomes := []error{nil, kerr.NotLeaderForPartition, kerr.RequestTimedOut, errSilent}
	for _, d := range deedsOfMany {
		for i := range 64 {
			a := answer{outcomes[i%4], outcomes[i/4%4], outcomes[i/16]}
			want, unsure := []int{}, false
			for i, err := range a {
				if err == nil {
					want = append(want, i)
				}
				unsure = unsure || err == kerr.RequestTimedOut || err == errSilent
			}
			for _, failed := range []error{nil, down} {
				if failed != nil && (!slices.Contains(a, errSilent) || d.oneBroker) {
					continue // all answered, or one broker was asked
				}
				f := threeBrokers()
				f.failed = failed
				done, err := d.do(t.Context(), f, a)
				partly, some := errors.AsType[*Partly](err)
				switch {
				case len(want) == 3:
					if err != nil {
						t.Errorf("%s %v: %v", d.name, a, err)
					}
				case some != (len(want) > 0), err == nil, Unsure(err) != unsure:
					t.Errorf("%s %v: %v", d.name, a, err)
				case some && (partly.Done != len(want) || partly.Of != 3):
					t.Errorf("%s %v: %v", d.name, a, err)
				case failed != nil && !slices.Contains(a, error(kerr.RequestTimedOut)) && !errors.Is(err, failed):
					t.Errorf("%s %v: %v lacks %v", d.name, a, err, failed)
				}
				if !slices.Equal(done, want) {
					t.Errorf("%s %v: done %v, want %v", d.name, a, done, want)
				}
			}
		}
	}
}

// TestGroupsAreToldBesideOthers: a coordinator that fails costs the groups it
// coordinates only.
func TestGroupsAreToldBesideOthers(t *testing.T) {
	f := threeBrokers()
	f.failed = errors.New("connection reset")
	f.deed = &kmsg.DescribeGroupsResponse{Groups: []kmsg.DescribeGroupsResponseGroup{{Group: "a", State: "Empty"}}}
	if groups, err := DescribeGroups(t.Context(), f, []string{"a", "b"}); !errors.Is(err, f.failed) || len(groups) != 1 || groups["a"].State != "Empty" {
		t.Errorf("described %v, %v", groups, err)
	}
	f.deed = &kmsg.OffsetFetchResponse{Groups: []kmsg.OffsetFetchResponseGroup{{Group: "a"}, {Group: "c", ErrorCode: kerr.GroupAuthorizationFailed.Code}}}
	if of, err := Committed(t.Context(), f, []string{"a", "b", "c"}); !errors.Is(err, f.failed) || len(of) != 1 || of["a"] == nil {
		t.Errorf("committed %v, %v", of, err)
	}
}

// TestNoGroupsAreNotAsked: where there are no groups no broker hears of them.
func TestNoGroupsAreNotAsked(t *testing.T) {
	f := threeBrokers()
	f.failed = errors.New("it was asked")
	for _, none := range [][]string{nil, {}} {
		if groups, offsets, err := Standing(t.Context(), f, none); err != nil || len(groups) != 0 || len(offsets) != 0 {
			t.Errorf("%v, %v, %v", groups, offsets, err)
		}
	}
}

// TestBrokersAnswerInTime: a broker is given less time than its client waits.
func TestBrokersAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ left, want time.Duration }{
			{10 * time.Second, 9500 * time.Millisecond},
			{time.Second, 500 * time.Millisecond},
			{100 * time.Millisecond, 50 * time.Millisecond},
			{-time.Second, time.Millisecond},
			{time.Hour, consumer.Patience(threeBrokers()) - answering},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), c.left)
			if got := time.Duration(millisLeft(ctx, threeBrokers())) * time.Millisecond; got != c.want {
				t.Errorf("of %v: %v, want %v", c.left, got, c.want)
			}
			cancel()
		}
	})
}
