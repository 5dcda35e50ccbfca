package admin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/offsets"
)

// TestRefusalsAreNamed: each thing that was refused is named, beside its reason,
// which is told once; the kind is that of the first, or of one that may be done.
func TestRefusalsAreNamed(t *testing.T) {
	invalid, late := kerr.InvalidConfig, kerr.RequestTimedOut
	said := "too large"
	at := func(code *kerr.Error, names ...string) (list []error) {
		for _, name := range names {
			if topic, partition, ok := strings.Cut(name, "/"); ok {
				n, _ := strconv.Atoi(partition)
				list = append(list, partitionRefusal("", offsets.TopicPartition{Topic: topic, Partition: int32(n)}, code.Code, nil))
				continue
			}
			list = append(list, refusal(name, code.Code, nil))
		}
		return list
	}
	run := func(topic string, from, to int) (names []string) {
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprintf("%s/%d", topic, i))
		}
		return names
	}
	odd := []string{}
	for i := range 25 {
		odd = append(odd, fmt.Sprintf("t/%d", 2*i))
	}
	for _, c := range []struct {
		refused []error
		want    string
		kind    error
	}{
		{nil, "<nil>", nil},
		{at(invalid, "a"), "a: Configuration is invalid (INVALID_CONFIG)", invalid},
		{at(invalid, "a", "b", "t/1"), "a, b, t/1: Configuration is invalid (INVALID_CONFIG)", invalid},
		{append(at(invalid, "a"), refusal("b", invalid.Code, &said)), "a: Configuration is invalid (INVALID_CONFIG); b: too large (INVALID_CONFIG)", invalid},
		{append(at(invalid, "t/0", "t/1"), at(late, "t/2", "t/4")...), "t/0-1: Configuration is invalid (INVALID_CONFIG); t/2, 4: The request timed out (REQUEST_TIMED_OUT)", late},
		{at(invalid, append(run("group g, t-1", 8, 1200), "group g, t-1/1300", "group g, u/1301")...), "group g, t-1/8-1199, 1300, group g, u/1301: Configuration is invalid (INVALID_CONFIG)", invalid},
		{at(invalid, odd...), "t/" + strings.Join(strings.Split(strings.ReplaceAll(strings.Join(odd[:20], " "), "t/", ""), " "), ", ") + " and 5 more: Configuration is invalid (INVALID_CONFIG)", invalid},
		{[]error{&unknownError{"t/0", errSilent, true}, &unknownError{"t/1", errSilent, true}}, "t/0-1: " + errSilent.Error(), errSilent},
		{[]error{refusal("group team/1", invalid.Code, nil), refusal("group team/2", invalid.Code, nil)}, "group team/1, group team/2: Configuration is invalid (INVALID_CONFIG)", invalid},
		{[]error{refusal("log directory /data/1", late.Code, nil), refusal("log directory /data/2", late.Code, nil)}, "log directory /data/1, log directory /data/2: The request timed out (REQUEST_TIMED_OUT)", late},
		{[]error{groupsSilent("team/1", "team/2")}, "group team/1, group team/2: " + errSilent.Error(), errSilent},
		{[]error{errors.New("no answer"), errors.New("no answer")}, "no answer", nil},
	} {
		all := refusals{refused: c.refused}
		err := all.err()
		if fmt.Sprint(err) != c.want || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if err := refusal("", invalid.Code, &said); err.Error() != "too large (INVALID_CONFIG)" {
		t.Errorf("%v", err)
	}
}

// groupsSilent is the error of a deed to groups that nothing was told of.
func groupsSilent(groups ...string) error {
	_, err := deeds("group ", groups, nil, nil)
	return err
}
