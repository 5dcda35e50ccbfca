package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
)

// outcome is what came of a request.
type outcome struct {
	normal answer
	resp   kmsg.Response // nil when there was none
}

// silence is how long a broker may keep silent to raw bytes before that is its
// answer: it waits for the rest of a frame.
const silence = 3 * time.Second

// setUp is how long a broker may take to be where a scenario begins.
const setUp = 90 * time.Second

// quick is how long any other answer may take; one that takes longer is none.
const quick = 10 * time.Second

// slow are the requests that wait for others, or for their own time.
var slow = map[kmsg.Key]bool{kmsg.JoinGroup: true, kmsg.SyncGroup: true, kmsg.Fetch: true, kmsg.CreateTopics: true, kmsg.DeleteTopics: true}

// dial is the connection of that name; one that was closed is opened anew.
func (s *side) dial(name string) (*peer.Conn, error) {
	if c := s.conns[name]; c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := peer.Dial(ctx, s.addr)
	if err == nil {
		s.conns[name] = c
	}
	return c, err
}

// correlation is the one id of all requests: an answer must carry it.
const correlation = 0x5a31

func (s *side) tell(conn string, req kmsg.Request) error {
	c, err := s.dial(conn)
	if err != nil {
		return err
	}
	if err := c.Tell(peer.Frame(correlation, "differ", req), limit); err != nil && !isClosed(err) {
		return err // one that is closed shows when the answer is read
	}
	return nil
}

// ask sends the next request and reads its answer.
func (s *side) ask(st *step) (outcome, error) {
	path, want, _ := strings.Cut(st.until, "=")
	for end := time.Now().Add(limit); ; time.Sleep(pause) { // another process acts
		if err := s.tell(st.conn, s.next); err != nil {
			return outcome{}, err
		}
		o, err := s.hear(st.conn, s.next, st.decode)
		if err != nil || st.until == "" {
			return o, err
		}
		got := "no answer"
		if o.resp != nil {
			if got, err = pathValue(o.resp, path); err == nil && got == want {
				return o, nil
			}
		}
		if time.Now().After(end) {
			return o, fmt.Errorf("not within %s: %s, it is %s (%v)", limit, st.until, got, err)
		}
	}
}

// hear reads an answer. req is nil when the bytes were raw.
func (s *side) hear(conn string, req kmsg.Request, version int16) (outcome, error) {
	c, err := s.dial(conn)
	if err != nil {
		return outcome{}, err
	}
	wait := quick
	switch {
	case req == nil:
		wait = silence
	case slow[kmsg.Key(req.Key())]:
		wait = limit
	}
	frame, err := c.Hear(wait)
	switch {
	case isClosed(err):
		_ = c.Close() // it is
		delete(s.conns, conn)
		return outcome{normal: answer{"(answer)": "closed"}}, nil
	case errors.Is(err, os.ErrDeadlineExceeded) && req == nil:
		return outcome{normal: answer{"(answer)": "silence"}}, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = c.Close() // what may still come is nobody's answer
		delete(s.conns, conn)
		return outcome{normal: answer{"(answer)": "none"}}, nil
	case err != nil:
		return outcome{}, err
	case req == nil:
		return outcome{normal: answer{"(answer)": "answered"}}, nil
	}
	o := outcome{normal: answer{"(answer)": "answered"}}
	if got := be32(frame); got != correlation {
		o.normal["(correlation)"] = strconv.Itoa(int(got))
	}
	if version >= 0 {
		req = kmsg.RequestForKey(req.Key())
		req.SetVersion(version)
	}
	resp, err := peer.Decode(req, frame)
	if err != nil {
		o.normal["(answer)"] = fmt.Sprintf("%v: %x", err, frame[:min(len(frame), 200)])
		return o, nil
	}
	o.resp = resp
	maps.Copy(o.normal, s.symbols.normal(resp))
	// Nothing more than the fields, and each in its shortest form.
	if again := resp.AppendTo(nil); !bytes.HasSuffix(frame, again) || len(frame)-len(again) > 5 {
		o.normal["(bytes)"] = "not those of kmsg"
	}
	return o, nil
}

func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// makeTopic makes a topic, waits until all its partitions have a leader, and
// keeps its id under its name.
func (s *side) makeTopic(name string, options []string) error {
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		if key == "partitions" {
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return err
			}
			topic.NumPartitions = int32(n)
			continue
		}
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
	}
	create.Topics = append(create.Topics, topic)
	c, err := s.dial("set-up")
	if err != nil {
		return err
	}
	resp, err := c.Ask(create, limit)
	if err != nil {
		return err
	}
	made := resp.(*kmsg.CreateTopicsResponse).Topics[0]
	if made.ErrorCode != 0 {
		return fmt.Errorf("topic %s: error %d %s", name, made.ErrorCode, or(made.ErrorMessage, ""))
	}
	s.vars[name] = fmt.Sprintf("%x", made.TopicID)
	s.symbols.names["topic "+s.vars[name]] = "<" + name + ">"
	return s.settle(c, name, int(topic.NumPartitions))
}

// settle waits until the broker's own view has a topic with leaders, and the
// leaders have taken over.
func (s *side) settle(c *peer.Conn, name string, partitions int) error {
	ask := kmsg.NewPtrMetadataRequest()
	ask.Version = 8
	ask.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	for end := time.Now().Add(setUp); ; time.Sleep(pause / 5) { // another process acts
		resp, err := c.Ask(ask, limit)
		if err != nil {
			return err
		}
		led := 0
		for _, p := range resp.(*kmsg.MetadataResponse).Topics[0].Partitions {
			if p.ErrorCode == 0 && p.Leader >= 0 {
				led++
			}
		}
		if led == partitions && s.leads(c, name, partitions) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("topic %s: %d of %d partitions have a leader", name, led, partitions)
		}
	}
}

// leads tells whether every partition of a topic answers as a leader does.
func (s *side) leads(c *peer.Conn, name string, partitions int) bool {
	ask := kmsg.NewPtrListOffsetsRequest()
	ask.Version = 5
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = name
	for i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = int32(i), -1
		topic.Partitions = append(topic.Partitions, p)
	}
	ask.Topics = append(ask.Topics, topic)
	resp, err := c.Ask(ask, limit)
	if err != nil {
		return false
	}
	for _, p := range resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		if p.ErrorCode != 0 {
			return false
		}
	}
	return true
}

// coordinated waits until the coordinators of groups have loaded.
func (s *side) coordinated(groups []string) error {
	c, err := s.dial("set-up")
	if err != nil {
		return err
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, groups
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 0, groups
	for end := time.Now().Add(setUp); ; time.Sleep(pause / 5) { // another process acts
		if _, err := c.Ask(find, limit); err != nil { // this makes their topic
			return err
		}
		resp, err := c.Ask(describe, limit)
		if err != nil {
			return err
		}
		loaded := 0
		for _, g := range resp.(*kmsg.DescribeGroupsResponse).Groups {
			if g.ErrorCode == 0 {
				loaded++
			}
		}
		if loaded == len(groups) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of the coordinators of %v have loaded", loaded, groups)
		}
	}
}
