package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stub is a broker of topics t and u, of three partitions each, whose logs hold
// [0, 10), and of groups a and b without members, that have committed 4 of each
// partition. What it is told to refuse it refuses.
type stub struct {
	addr    string
	refused map[string]*kerr.Error // by what: a topic in metadata, a deed's "t/1", "a", "a t/1"
}

// startStub serves until the test ends.
func startStub(t *testing.T, refused map[string]*kerr.Error) *stub {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &stub{l.Addr().String(), refused}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go func() {
				if err := s.serve(conn); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
					t.Log(err)
				}
			}()
		}
	}()
	return s
}

func (s *stub) serve(conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return err
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return err
		}
		in := kbin.Reader{Src: frame}
		key, version, correlation := in.Int16(), in.Int16(), in.Int32()
		in.NullableString() // who asks
		req := kmsg.RequestForKey(key)
		if req.SetVersion(version); req.IsFlexible() {
			kmsg.SkipTags(&in)
		}
		if err := req.ReadFrom(in.Src); err != nil {
			return err
		}
		resp := s.answer(req)
		resp.SetVersion(version)
		out := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(correlation))
		if resp.IsFlexible() && key != int16(kmsg.ApiVersions) {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := conn.Write(out); err != nil {
			return err
		}
	}
}

func (s *stub) code(what string) int16 {
	if e := s.refused[what]; e != nil {
		return e.Code
	}
	return 0
}

func part(topic string, partition int32) string {
	return topic + "/" + strconv.Itoa(int(partition))
}

// stubKeys are the requests it answers, up to a version without topic ids.
var stubKeys = map[kmsg.Key]int16{
	kmsg.Metadata: 9, kmsg.ListOffsets: 5, kmsg.FindCoordinator: 4, kmsg.DescribeGroups: 5, kmsg.OffsetFetch: 8, kmsg.OffsetCommit: 8,
	kmsg.OffsetDelete: 0, kmsg.DeleteGroups: 2, kmsg.DeleteRecords: 2, kmsg.DeleteTopics: 4, kmsg.DescribeConfigs: 4, kmsg.ApiVersions: 3,
}

func (s *stub) answer(req kmsg.Request) kmsg.Response {
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := kmsg.NewPtrApiVersionsResponse()
		for key, most := range stubKeys {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key.Int16(), MaxVersion: most})
		}
		return resp
	case *kmsg.MetadataRequest:
		return s.metadata(r)
	case *kmsg.ListOffsetsRequest:
		resp := kmsg.NewPtrListOffsetsResponse()
		for _, t := range r.Topics {
			told := kmsg.ListOffsetsResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				one := kmsg.NewListOffsetsResponseTopicPartition()
				if one.Partition, one.Offset = p.Partition, 10; p.Timestamp == -2 {
					one.Offset = 0
				}
				told.Partitions = append(told.Partitions, one)
			}
			resp.Topics = append(resp.Topics, told)
		}
		return resp
	case *kmsg.DescribeConfigsRequest:
		resp := kmsg.NewPtrDescribeConfigsResponse()
		for _, of := range r.Resources {
			resp.Resources = append(resp.Resources, kmsg.DescribeConfigsResponseResource{ResourceType: of.ResourceType, ResourceName: of.ResourceName})
		}
		return resp
	case *kmsg.DeleteTopicsRequest:
		resp := kmsg.NewPtrDeleteTopicsResponse()
		for _, name := range r.TopicNames {
			resp.Topics = append(resp.Topics, kmsg.DeleteTopicsResponseTopic{Topic: &name, ErrorCode: s.code("delete " + name)})
		}
		return resp
	case *kmsg.DeleteRecordsRequest:
		resp := kmsg.NewPtrDeleteRecordsResponse()
		for _, t := range r.Topics {
			told := kmsg.DeleteRecordsResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				told.Partitions = append(told.Partitions, kmsg.DeleteRecordsResponseTopicPartition{Partition: p.Partition, LowWatermark: p.Offset, ErrorCode: s.code(part(t.Topic, p.Partition))})
			}
			resp.Topics = append(resp.Topics, told)
		}
		return resp
	}
	return s.group(req)
}

func (s *stub) metadata(r *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	host, port, _ := net.SplitHostPort(s.addr)
	n, _ := strconv.Atoi(port)
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: host, Port: int32(n)}}
	resp.ControllerID = 1
	names := []string{"t", "u"}
	if r.Topics != nil {
		names = nil
		for _, t := range r.Topics {
			names = append(names, *t.Topic)
		}
	}
	for _, name := range names {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.ErrorCode = &name, s.code(name)
		for i := range int32(3) {
			if t.ErrorCode == 0 {
				t.Partitions = append(t.Partitions, kmsg.MetadataResponseTopicPartition{Partition: i, Leader: 1, Replicas: []int32{1}, ISR: []int32{1}})
			}
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// group answers what is asked of groups.
func (s *stub) group(req kmsg.Request) kmsg.Response {
	switch r := req.(type) {
	case *kmsg.FindCoordinatorRequest:
		resp := kmsg.NewPtrFindCoordinatorResponse()
		host, port, _ := net.SplitHostPort(s.addr)
		n, _ := strconv.Atoi(port)
		for _, key := range r.CoordinatorKeys {
			resp.Coordinators = append(resp.Coordinators, kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: 1, Host: host, Port: int32(n)})
		}
		return resp
	case *kmsg.DescribeGroupsRequest:
		resp := kmsg.NewPtrDescribeGroupsResponse()
		for _, g := range r.Groups {
			resp.Groups = append(resp.Groups, kmsg.DescribeGroupsResponseGroup{Group: g, State: "Empty", ProtocolType: "consumer"})
		}
		return resp
	case *kmsg.OffsetFetchRequest:
		resp := kmsg.NewPtrOffsetFetchResponse()
		for _, g := range r.Groups {
			told := kmsg.OffsetFetchResponseGroup{Group: g.Group}
			for _, name := range []string{"t", "u"} {
				t := kmsg.OffsetFetchResponseGroupTopic{Topic: name}
				for i := range int32(3) {
					t.Partitions = append(t.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{Partition: i, Offset: 4, LeaderEpoch: -1})
				}
				told.Topics = append(told.Topics, t)
			}
			resp.Groups = append(resp.Groups, told)
		}
		return resp
	case *kmsg.OffsetCommitRequest:
		resp := kmsg.NewPtrOffsetCommitResponse()
		for _, t := range r.Topics {
			told := kmsg.OffsetCommitResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				told.Partitions = append(told.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: cmp.Or(s.code(r.Group), s.code(r.Group+" "+part(t.Topic, p.Partition)))})
			}
			resp.Topics = append(resp.Topics, told)
		}
		return resp
	case *kmsg.OffsetDeleteRequest:
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.ErrorCode = s.code(r.Group)
		for _, t := range r.Topics {
			told := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				told.Partitions = append(told.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: s.code(r.Group + " " + part(t.Topic, p.Partition))})
			}
			resp.Topics = append(resp.Topics, told)
		}
		return resp
	case *kmsg.DeleteGroupsRequest:
		resp := kmsg.NewPtrDeleteGroupsResponse()
		for _, g := range r.Groups {
			resp.Groups = append(resp.Groups, kmsg.DeleteGroupsResponseGroup{Group: g, ErrorCode: s.code(g)})
		}
		return resp
	}
	panic("the stub answers no " + kmsg.NameForKey(req.Key()))
}
