package admin

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := threeBrokers()
		c.fenced[3] = true
		f, err := Describe(t.Context(), c)
		if err != nil || f.ID != "fake" || f.Controller != 1 || f.Up() != 2 || f.Broker(3).Addr != "127.0.0.1:9095" || f.Broker(9) != nil {
			t.Fatalf("%+v %v", f, err)
		}
		if f.Topics, err = Topics(t.Context(), c, "views"); err != nil {
			t.Fatal(err)
		}
		f.Topics[0].Partitions[2].ISR = []int32{3}
		c.move = &Placement{f.Topics[0].Partitions[0].Place(), []int32{3}} // adds 3, removes none
		if err := Moves(t.Context(), c, PartitionsOf(f.Topics)); err != nil {
			t.Fatal(err)
		}
		f.Carry()
		if f.Partitions() != 3 || f.Offline() != 0 || f.Lacking() != 1 || f.Moving() != 1 || f.Strayed() != 0 {
			t.Errorf("partitions %d, offline %d, lacking %d, moving %d, strayed %d", f.Partitions(), f.Offline(), f.Lacking(), f.Moving(), f.Strayed())
		}
		if b := f.Broker(1); b.Leads != 1 || b.Holds != 2 || b.Prefers != 1 || b.Log != Untold {
			t.Errorf("broker 1: %+v", b)
		}
		c.silent[2] = true
		if err := f.Weigh(t.Context(), c); err == nil {
			t.Error("a broker that never answers is not told")
		}
		if f.Broker(1).Log != 4000 || f.Broker(1).Free != 7 || f.Broker(2).Log != Untold || f.Broker(3).Log != Untold {
			t.Errorf("weighed %+v", f.Brokers)
		}
	})
}

// TestBrokersThatCantBeWeighed: what is refused, of a broker or of one directory, is
// untold and the error; several directories are added up.
func TestBrokersThatCantBeWeighed(t *testing.T) {
	type dir = kmsg.DescribeLogDirsResponseDir
	type topic = kmsg.DescribeLogDirsResponseDirTopic
	logs := []topic{{Topic: "views", Partitions: []kmsg.DescribeLogDirsResponseDirTopicPartition{{Size: 40}, {Partition: 1, Size: 2}}}}
	for _, c := range []struct {
		name string
		code *kerr.Error
		dirs []dir
		want Broker
		err  error
	}{
		{name: "refused", code: kerr.ClusterAuthorizationFailed, want: Broker{Log: Untold, Free: Untold, Disk: Untold}, err: consumer.ErrAuth},
		{name: "no word of any", want: Broker{Log: Untold, Free: Untold, Disk: Untold}, err: errSilent},
		{name: "one failed", dirs: []dir{{Dir: "/a", UsableBytes: 5, TotalBytes: 9, Topics: logs}, {Dir: "/b", ErrorCode: kerr.KafkaStorageError.Code}}, want: Broker{Log: Untold, Free: Untold, Disk: Untold}, err: kerr.KafkaStorageError},
		{name: "two", dirs: []dir{{Dir: "/a", UsableBytes: 5, TotalBytes: 9, Topics: logs}, {Dir: "/b", UsableBytes: 1, TotalBytes: 3, Topics: logs}}, want: Broker{Log: 84, Free: 6, Disk: 12}},
		{name: "of an old broker", dirs: []dir{{Dir: "/a", UsableBytes: 5, TotalBytes: 9}, {Dir: "/b", UsableBytes: -1, TotalBytes: -1, Topics: logs}}, want: Broker{Log: 42, Free: Untold, Disk: Untold}},
	} {
		f := threeBrokers()
		resp := kmsg.NewPtrDescribeLogDirsResponse()
		if resp.Dirs = c.dirs; c.code != nil {
			resp.ErrorCode = c.code.Code
		}
		f.dirs = resp
		fleet, err := Describe(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		err = fleet.Weigh(t.Context(), f)
		if b := fleet.Broker(2); b.Log != c.want.Log || b.Free != c.want.Free || b.Disk != c.want.Disk {
			t.Errorf("%s: %+v", c.name, b)
		}
		if c.err == nil && err != nil || !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), "broker 2: ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestQuorumAndFormat(t *testing.T) {
	c := threeBrokers()
	q, err := DescribeQuorum(t.Context(), c)
	if err != nil || q.Leader != 1 || q.Term != 4 || q.Committed != 50 || len(q.Voters) != 2 {
		t.Fatalf("%+v %v", q, err)
	}
	if q.Voters[0] != (Member{1, 50, 0}) || q.Voters[1] != (Member{2, Untold, Untold}) || q.Observers[0] != (Member{3, 40, 10}) {
		t.Errorf("%+v", q)
	}
	if now, newest, err := FormatLevel(t.Context(), c); err != nil || now != 1 || newest != 2 {
		t.Errorf("level %d of %d, %v", now, newest, err)
	}
	c.leader = false
	if q, err := DescribeQuorum(t.Context(), c); q != nil || err != nil {
		t.Errorf("without a controller: %+v %v", q, err)
	}
}
