package controller

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sawlog/offsets"
)

// askExamples has every request that goes over the wire, each field with a
// value of its own.
func askExamples() []ask {
	topic := offsets.TopicID{0x11, 15: 0x1f}
	return []ask{
		barrierAsk{},
		createTopicAsk{NewTopic{Name: "page.views", Partitions: -1, ReplicationFactor: -1, Configs: map[string]string{"a": "1", "b": ""}, Internal: true}, topic},
		createTopicAsk{NewTopic{Name: "t", Partitions: 2, ReplicationFactor: 2, Assignment: [][]offsets.BrokerID{{1, 2}, {2, 3}}}, topic},
		deleteTopicAsk{topic},
		createPartitionsAsk{"t", 9, nil},
		createPartitionsAsk{"t", 9, [][]offsets.BrokerID{{4}}},
		alterConfigsAsk{ConfigChange{Resource{TopicResource, "t"}, []ConfigOp{{Set, "k", "v"}, {Delete, "l", ""}}, true, false}},
		registerAsk{Registration{
			ID: 3, Incarnation: UUID{1}, Directory: UUID{2}, Endpoints: []Endpoint{{"PEER", "a", 9093}, {"PLAINTEXT", "b", 9092}},
			Rack: "east", Intact: true, PreviousEpoch: 77, Fenced: true, Levels: Levels{1, 2},
		}},
		changeBrokersAsk{[]BrokerChange{{1, 5, true, false, false}, {2, 6, false, true, true}}},
		unregisterAsk{4},
		changeISRsAsk{[]ISRChange{{topic, 7, 1, 5, 3, 4, []Member{{1, 5}, {2, 6}}, true}, {topic, 8, 1, 5, 3, 4, []Member{{1, 5}}, false}}},
		electLeadersAsk{Unclean, []offsets.TopicPartition{{Topic: "t", Partition: 3}}},
		producerIDsAsk{2},
		nodeIDAsk{},
		reassignAsk{[]Reassignment{{"t", 1, []offsets.BrokerID{3, 2}}, {"t", 2, nil}, {"t", 3, []offsets.BrokerID{}}}},
		raiseFormatAsk{2},
	}
}

func TestGoldenAsks(t *testing.T) {
	var titles []string
	var values [][]byte
	kinds := make(map[uint8]bool)
	for _, a := range askExamples() {
		src := encodeAsk(a)
		titles, values = append(titles, strings.TrimPrefix(fmt.Sprintf("%T", a), "controller.")), append(values, src)
		kinds[src[1]] = true
	}
	for kind := 1; kind < 256; kind++ {
		_, err := decodeAsk([]byte{askVersion, byte(kind)})
		if known := err == nil || !strings.Contains(err.Error(), "not known"); known != kinds[uint8(kind)] {
			t.Errorf("request kind %d: known %v, has an example %v", kind, known, kinds[uint8(kind)])
		}
	}
	golden(t, "asks.hex", titles, values)
	for i, src := range readGolden(t, "asks.hex") {
		if a, err := decodeAsk(src); err != nil || !reflect.DeepEqual(a, askExamples()[i]) {
			t.Errorf("%s: read as %+v, %v", titles[i], a, err)
		}
		for n := range src {
			if _, err := decodeAsk(src[:n]); !errors.Is(err, errFormat) {
				t.Errorf("%s cut at %d: %v", titles[i], n, err)
			}
		}
		if _, err := decodeAsk(append([]byte{askVersion + 1}, src[1:]...)); !errors.Is(err, errFormat) {
			t.Errorf("%s of another version: %v", titles[i], err)
		}
	}
}

// TestRefusalsOverTheWire: whatever refuses on the active controller is the
// same kind of error, in the same words, where it was asked.
func TestRefusalsOverTheWire(t *testing.T) {
	var refusals []error
	for _, kind := range sentRefusals[1:] {
		refusals = append(refusals, kind, fmt.Errorf("t/3: %w: more", kind), refuse(kind, "Words for people: %d.", 5))
	}
	want := answer{number: 1 << 40, refusals: append(refusals, nil, errors.New("something else"))}
	index, got, refusal, err := decodeAnswer(encodeAnswer(9, want, ErrTooLarge))
	if err != nil || index != 9 || got.number != want.number || !errors.Is(refusal, ErrTooLarge) || len(got.refusals) != len(want.refusals) {
		t.Fatalf("index %d, %+v, %v, %v", index, got, refusal, err)
	}
	for i, want := range want.refusals {
		switch got := got.refusals[i]; {
		case want == nil:
			if got != nil {
				t.Errorf("nothing became %v", got)
			}
		case got == nil || got.Error() != want.Error():
			t.Errorf("%q became %v", want, got)
		default:
			for _, kind := range sentRefusals[1:] {
				if errors.Is(got, kind) != errors.Is(want, kind) {
					t.Errorf("%q is a %q: %v", got, kind, errors.Is(got, kind))
				}
			}
		}
	}
	if _, a, refusal, err := decodeAnswer(encodeAnswer(0, answer{}, nil)); err != nil || refusal != nil || len(a.refusals) > 0 {
		t.Errorf("nothing became %v, %v, %v", a, refusal, err)
	}
}

func FuzzAsk(f *testing.F) {
	for _, a := range askExamples() {
		f.Add(encodeAsk(a))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		a, err := decodeAsk(src)
		if err != nil {
			return
		}
		written := encodeAsk(a)
		again, err := decodeAsk(written)
		if err != nil || !bytes.Equal(encodeAsk(again), written) {
			t.Fatalf("%x is read as %+v, written as %x, read as %+v, %v", src, a, written, again, err)
		}
		w := newWorld()
		w.join(t, 3)
		if _, _, err := a.decide(w.image, w.settings); errors.Is(err, errDiverged) {
			t.Fatalf("%+v decides on records that don't fit: %v", a, err)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(encodeAnswer(9, answer{number: 5, refusals: []error{nil, ErrInvalidISR, errors.New("x")}}, ErrTooLarge))
	f.Fuzz(func(t *testing.T, src []byte) {
		index, a, refusal, err := decodeAnswer(src)
		if err != nil {
			return
		}
		written := encodeAnswer(index, a, refusal)
		index2, a2, refusal2, err := decodeAnswer(written)
		if err != nil || index2 != index || !bytes.Equal(encodeAnswer(index2, a2, refusal2), written) {
			t.Fatalf("%x is written again as %x: %v", src, written, err)
		}
	})
}
