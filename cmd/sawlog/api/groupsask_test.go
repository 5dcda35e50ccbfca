package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// crowd is a cluster of groups. Each has committed 60 of what its read says; the
// topic views has partitions 0 and 1, led by brokers 1 and 2, which end at 100.
type crowd struct {
	groups map[string]standing
	silent int32 // a broker that does not answer
	blind  bool  // nobody says where partitions are
}

type standing struct {
	coordinator int32       // 0 = none is known
	refused     *kerr.Error // of its offsets and members
	read        map[string]int32
}

func (c *crowd) Broker(id int32) consumer.Requestor { return crowdBroker{c, id} }

type crowdBroker struct {
	c  *crowd
	id int32
}

func (b crowdBroker) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if b.id == b.c.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r, resp := req.(*kmsg.ListOffsetsRequest), kmsg.NewPtrListOffsetsResponse()
	for _, t := range r.Topics {
		told := kmsg.ListOffsetsResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			one := kmsg.NewListOffsetsResponseTopicPartition()
			one.Partition, one.Offset = p.Partition, 100
			told.Partitions = append(told.Partitions, one)
		}
		resp.Topics = append(resp.Topics, told)
	}
	return resp, nil
}

// at fails a request as a whole where a coordinator of its groups does, as clients do.
func (c *crowd) at(ctx context.Context, groups []string) error {
	for _, g := range groups {
		switch c.groups[g].coordinator {
		case 0:
			return kerr.CoordinatorNotAvailable
		case c.silent:
			<-ctx.Done()
			return ctx.Err()
		}
	}
	return nil
}

func (c *crowd) code(group string) int16 {
	if e := c.groups[group].refused; e != nil {
		return e.Code
	}
	return 0
}

func (c *crowd) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	switch r := req.(type) {
	case *kmsg.FindCoordinatorRequest:
		resp := kmsg.NewPtrFindCoordinatorResponse()
		for _, key := range r.CoordinatorKeys {
			at := kmsg.NewFindCoordinatorResponseCoordinator()
			if at.Key, at.NodeID = key, c.groups[key].coordinator; at.NodeID == 0 {
				at.ErrorCode = kerr.CoordinatorNotAvailable.Code
			}
			resp.Coordinators = append(resp.Coordinators, at)
		}
		return resp, nil
	case *kmsg.DescribeGroupsRequest:
		if err := c.at(ctx, r.Groups); err != nil {
			return nil, err
		}
		resp := kmsg.NewPtrDescribeGroupsResponse()
		for _, name := range r.Groups {
			g := kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.State, g.ErrorCode, g.Members = name, "Stable", c.code(name), make([]kmsg.DescribeGroupsResponseGroupMember, 1)
			resp.Groups = append(resp.Groups, g)
		}
		return resp, nil
	case *kmsg.OffsetFetchRequest:
		resp := kmsg.NewPtrOffsetFetchResponse()
		for _, asked := range r.Groups {
			if err := c.at(ctx, []string{asked.Group}); err != nil {
				return nil, err
			}
			g := kmsg.NewOffsetFetchResponseGroup()
			g.Group, g.ErrorCode = asked.Group, c.code(asked.Group)
			for topic, p := range c.groups[asked.Group].read {
				one := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				one.Partition, one.Offset = p, 60
				g.Topics = append(g.Topics, kmsg.OffsetFetchResponseGroupTopic{Topic: topic, Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{one}})
			}
			resp.Groups = append(resp.Groups, g)
		}
		return resp, nil
	}
	if c.blind {
		return nil, consumer.ErrUnavailable
	}
	resp := kmsg.NewPtrMetadataResponse()
	for _, asked := range req.(*kmsg.MetadataRequest).Topics {
		t := kmsg.NewMetadataResponseTopic()
		switch t.Topic = asked.Topic; *t.Topic {
		case "deleted":
			t.ErrorCode = kerr.UnknownTopicOrPartition.Code
		case "secret":
			t.ErrorCode = kerr.TopicAuthorizationFailed.Code
		}
		for i := range int32(2) {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader = i, i+1
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// TestWhatGroupsTell: a group, coordinator or leader that tells nothing keeps
// nobody from being told of the others, and what it did not tell is no zero.
func TestWhatGroupsTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{silent: 2, groups: map[string]standing{
			"denied":   {coordinator: 3, refused: kerr.GroupAuthorizationFailed},
			"electing": {},
			"gone":     {coordinator: 1, read: map[string]int32{"views": 0, "deleted": 0}},
			"of two":   {coordinator: 3, read: map[string]int32{"views": 1}},
			"secret":   {coordinator: 3, read: map[string]int32{"secret": 0, "views": 0}},
			"silent":   {coordinator: 2, read: map[string]int32{"views": 0}},
			"well":     {coordinator: 1, read: map[string]int32{"views": 0}},
		}}
		var groups []Group
		for _, name := range sortedNames(c.groups) {
			groups = append(groups, Group{Name: name, State: "Listed", Members: -1, Lag: -1})
		}
		if err := fillGroups(t.Context(), c, groups); err != nil {
			t.Fatal(err)
		}
		well := []GroupOffset{{"views", 0, 60, 100, 40}}
		for i, want := range []Group{
			{Name: "denied", State: "Listed", Members: -1, Lag: -1},
			{Name: "electing", State: "Listed", Members: -1, Lag: -1},
			{Name: "gone", State: "Stable", Members: 1, Lag: 40, Offsets: well},
			{Name: "of two", State: "Stable", Members: 1, Lag: -1, Offsets: []GroupOffset{{"views", 1, 60, -1, -1}}},
			{Name: "secret", State: "Stable", Members: 1, Lag: -1, Offsets: []GroupOffset{{"secret", 0, 60, -1, -1}, well[0]}},
			{Name: "silent", State: "Listed", Members: -1, Lag: -1},
			{Name: "well", State: "Stable", Members: 1, Lag: 40, Offsets: well},
		} {
			if g := groups[i]; g.Name != want.Name || g.State != want.State || g.Members != want.Members || g.Lag != want.Lag || !slices.Equal(g.Offsets, want.Offsets) {
				t.Errorf("got %+v, want %+v", g, want)
			}
		}
		c.blind = true
		blind := []Group{{Name: "well"}}
		if err := fillGroups(t.Context(), c, blind); err != nil || blind[0].Lag != -1 || blind[0].Offsets[0].Committed != 60 {
			t.Errorf("nobody says where partitions are: %+v, %v", blind, err)
		}
		none := []Group{{Name: "denied"}, {Name: "electing"}, {Name: "silent"}}
		if err := fillGroups(t.Context(), c, none); err == nil {
			t.Errorf("nothing was told: %+v", none)
		}
	})
}

// TestSeriesOfWhatIsUntold: a lag or a number of members that is not known has no
// series, and no sum is made of half of a topic.
func TestSeriesOfWhatIsUntold(t *testing.T) {
	half := hugeCluster{groups: []Group{
		{Name: "half", Members: 2, Lag: -1, Offsets: []GroupOffset{{"t", 0, 60, 100, 40}, {"t", 1, 60, -1, -1}, {"u", 0, 1, 3, 2}}},
		{Name: "none", Members: -1, Lag: -1},
	}}
	var got []string
	for line := range strings.SplitSeq(sent(New(Config{Cluster: half}), "GET", "/metrics", "").Body.String(), "\n") {
		if strings.HasPrefix(line, "kafka_consumergroup_") {
			got = append(got, strings.NewReplacer("kafka_consumergroup_", "", `consumergroup="half",`, "", `"`, "").Replace(line))
		}
	}
	want := []string{
		"current_offset{partition=0,topic=t} 60", "current_offset{partition=0,topic=u} 1", "current_offset{partition=1,topic=t} 60",
		"current_offset_sum{topic=t} 120", "current_offset_sum{topic=u} 1",
		"lag{partition=0,topic=t} 40", "lag{partition=0,topic=u} 2", "lag_sum{topic=u} 2", "members{consumergroup=half} 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestGroupsBesideSilentBrokers: the groups that some brokers tell of are answered
// with and measured, beside who didn't tell of theirs; that a group is not among them
// doesn't mean that it isn't there.
func TestGroupsBesideSilentBrokers(t *testing.T) {
	half := New(Config{Cluster: hugeCluster{groups: []Group{{Name: "g", Members: 2}}, untold: fmt.Errorf("broker 2: %w", consumer.ErrUnavailable)}})
	if page := sent(half, "GET", "/metrics", "").Body.String(); !strings.Contains(page, "\nsawlog_metrics_groups_untold 1\n") {
		t.Errorf("that a broker didn't tell has no series:\n%.500s", page)
	}
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/api/v1/groups":      {200, `"untold":"broker 2: cluster unavailable"`},
		"/api/v1/groups/g":    {200, `"group":"g"`},
		"/api/v1/groups/else": {503, "broker 2: cluster unavailable"},
		"/metrics":            {200, `kafka_consumergroup_members{consumergroup="g"} 2`},
	} {
		if w := sent(half, "GET", path, ""); w.Code != want.code || !strings.Contains(w.Body.String(), want.text) {
			t.Errorf("%s: %d, want %d with %s:\n%.500s", path, w.Code, want.code, want.text, w.Body.String())
		}
	}
}
