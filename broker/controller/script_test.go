package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"sawlog/offsets"
)

// TestScripts runs the conversations in testdata/script: a command, then the
// metadata after it or the error.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if err := w.run(t, d); err != nil {
				return "error: " + err.Error() + "\n"
			}
			checkImage(t, w)
			if text := describe(w.image); text != "" {
				return text
			}
			return "nothing\n"
		})
	})
}

func (w *world) run(t *testing.T, d *datadriven.TestData) error {
	switch d.Cmd {
	case "default":
		for _, a := range d.CmdArgs {
			w.settings.defaults[a.Key] = a.Vals[0]
		}
		return nil
	case "register":
		r := Registration{ID: brokerArg(t, d), Intact: d.HasArg("intact"), Fenced: d.HasArg("fenced")}
		n, directory := 1, 0
		if d.HasArg("start") {
			d.ScanArgs(t, "start", &n)
		}
		if d.HasArg("wiped") {
			directory = 100
		}
		if d.HasArg("rack") {
			d.ScanArgs(t, "rack", &r.Rack)
		}
		r.Incarnation, r.Directory = incarnation(r.ID, n), incarnation(r.ID, directory)
		if b, ok := w.image.Broker(r.ID); ok {
			r.PreviousEpoch = b.Epoch
		}
		if d.HasArg("stale-proof") {
			r.PreviousEpoch--
		}
		return w.register(r)
	case "fence", "unfence", "shutdown", "full":
		c := BrokerChange{ID: brokerArg(t, d), Fenced: d.Cmd == "fence", ShuttingDown: d.Cmd == "shutdown", Full: d.Cmd == "full"}
		if b, ok := w.image.Broker(c.ID); ok {
			c.Epoch = b.Epoch
		}
		if d.HasArg("epoch") {
			d.ScanArgs(t, "epoch", &c.Epoch)
		}
		return w.change(c)
	case "unregister":
		return w.do(func(im *Image) (decision, error) { return im.unregister(brokerArg(t, d)) })
	case "create":
		n := NewTopic{
			Name: nameArg(d), Partitions: int32(numberArg(t, d, "partitions", -1)), ReplicationFactor: int16(numberArg(t, d, "rf", -1)),
			Assignment: assignmentArg(t, d), Internal: d.HasArg("internal"),
		}
		for _, a := range d.CmdArgs {
			if strings.Contains(a.Key, ".") && len(a.Vals) == 1 {
				if n.Configs == nil {
					n.Configs = make(map[string]string)
				}
				n.Configs[a.Key] = a.Vals[0]
			}
		}
		return w.create(n)
	case "delete":
		topic, ok := w.image.TopicByName(nameArg(d))
		if !ok {
			topic = &Topic{ID: offsets.TopicID{9}}
		}
		return w.do(func(im *Image) (decision, error) { return im.deleteTopic(topic.ID) })
	case "grow":
		return w.do(func(im *Image) (decision, error) {
			return im.growTopic(nameArg(d), int32(numberArg(t, d, "to", 0)), assignmentArg(t, d))
		})
	case "alter":
		return w.alter(t, d)
	case "isr":
		return w.isr(t, d)
	case "elect":
		kind := Preferred
		if d.HasArg("unclean") {
			kind = Unclean
		}
		return w.do(func(im *Image) (decision, error) { return im.electLeader(w.settings, kind, partitionArg(t, d)) })
	default:
		return fmt.Errorf("unknown command %q", d.Cmd)
	}
}

// alter topic=NAME | broker=ID | brokers, then key=value, -key, key+=items, key-=items.
func (w *world) alter(t *testing.T, d *datadriven.TestData) error {
	c := ConfigChange{Replace: d.HasArg("replace")}
	for i, a := range d.CmdArgs {
		switch {
		case i == 0 && a.Key == "topic":
			c.Resource = Resource{TopicResource, a.Vals[0]}
		case i == 0 && a.Key == "broker":
			c.Resource = Resource{BrokerResource, a.Vals[0]}
		case i == 0:
			c.Resource = Resource{BrokerResource, ""}
		case a.Key == "replace":
		case strings.HasPrefix(a.Key, "-"):
			c.Ops = append(c.Ops, ConfigOp{Delete, a.Key[1:], ""})
		case strings.HasSuffix(a.Key, "+"):
			c.Ops = append(c.Ops, ConfigOp{Append, strings.TrimSuffix(a.Key, "+"), strings.Join(a.Vals, ",")})
		case strings.HasSuffix(a.Key, "-"):
			c.Ops = append(c.Ops, ConfigOp{Subtract, strings.TrimSuffix(a.Key, "-"), strings.Join(a.Vals, ",")})
		default:
			c.Ops = append(c.Ops, ConfigOp{Set, a.Key, strings.Join(a.Vals, ",")})
		}
	}
	return w.do(func(im *Image) (decision, error) { return im.alterConfigs(w.settings, c) })
}

// isr TOPIC/PARTITION members=(…) says what the leader would, but for the
// arguments that say otherwise.
func (w *world) isr(t *testing.T, d *datadriven.TestData) error {
	tp := partitionArg(t, d)
	topic := w.topic(t, tp.Topic)
	p := topic.Partitions[tp.Partition]
	c := ISRChange{Topic: topic.ID, Partition: tp.Partition, Recovering: d.HasArg("recovering")}
	c.Broker = offsets.BrokerID(numberArg(t, d, "from", int(p.Leader)))
	c.LeaderEpoch = p.Epoch + offsets.Epoch(numberArg(t, d, "leader-epoch", 0))
	c.PartitionEpoch = p.PartitionEpoch + offsets.Epoch(numberArg(t, d, "partition-epoch", 0))
	if b, ok := w.image.Broker(c.Broker); ok {
		c.BrokerEpoch = b.Epoch + int64(numberArg(t, d, "broker-epoch", 0))
	}
	for _, v := range argValues(d, "members") {
		id := parseBroker(t, v)
		m := Member{ID: id}
		if b, ok := w.image.Broker(id); ok {
			m.Epoch = b.Epoch + int64(numberArg(t, d, "member-epoch", 0))
		}
		c.ISR = append(c.ISR, m)
	}
	return w.do(func(im *Image) (decision, error) { return im.changeISR(w.settings, c) })
}

func nameArg(d *datadriven.TestData) string { return d.CmdArgs[0].Key }

func brokerArg(t *testing.T, d *datadriven.TestData) offsets.BrokerID {
	return parseBroker(t, nameArg(d))
}

func parseBroker(t *testing.T, s string) offsets.BrokerID {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return offsets.BrokerID(n)
}

func partitionArg(t *testing.T, d *datadriven.TestData) offsets.TopicPartition {
	topic, n, _ := strings.Cut(nameArg(d), "/")
	return offsets.TopicPartition{Topic: topic, Partition: int32(parseBroker(t, n))}
}

func numberArg(t *testing.T, d *datadriven.TestData, key string, otherwise int) int {
	if d.HasArg(key) {
		d.ScanArgs(t, key, &otherwise)
	}
	return otherwise
}

func argValues(d *datadriven.TestData, key string) []string {
	i := slices.IndexFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == key })
	if i < 0 {
		return nil
	}
	return d.CmdArgs[i].Vals
}

// assignmentArg reads assign=(1:2, 2:3).
func assignmentArg(t *testing.T, d *datadriven.TestData) (assignment [][]offsets.BrokerID) {
	if d.HasArg("assign") {
		assignment = [][]offsets.BrokerID{}
	}
	for _, v := range argValues(d, "assign") {
		if v == "" {
			continue
		}
		var replicas []offsets.BrokerID
		for s := range strings.SplitSeq(v, ":") {
			replicas = append(replicas, parseBroker(t, s))
		}
		assignment = append(assignment, replicas)
	}
	return assignment
}
