package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/cmd/sawlog/output"
)

type refusals = map[string]*kerr.Error

// TestDeedsOfMany: what brokers did is printed, whatever they refused beside it, and
// the exit code says which of it is so: all, some, none, or not known.
func TestDeedsOfMany(t *testing.T) {
	for _, c := range []struct {
		line    string
		refused refusals
		code    int
		out     string // rows without spaces, separated by blanks
		said    string
	}{
		{"topic trim t --to 5", nil, 0, "t,0,0,5,5 t,1,0,5,5 t,2,0,5,5", ""},
		{"topic trim t --to 5", refusals{"t/1": kerr.KafkaStorageError}, output.Partial, "t,0,0,5,5 t,2,0,5,5", "2 of 3 were done: records of t/1: "},
		{"topic trim t --to 5", refusals{"t/1": kerr.RequestTimedOut}, output.Partial, "t,0,0,5,5 t,2,0,5,5", "not known whether all of it was done: 2 of 3 were done: records of t/1: "},
		{"topic trim t --to 5", refusals{"t/0": kerr.KafkaStorageError, "t/1": kerr.RequestTimedOut}, output.Partial, "t,2,0,5,5", "records of t/1: The request timed out"},
		{"topic trim t --partition 0,2 --to 5", refusals{"t/1": kerr.RequestTimedOut}, 0, "t,0,0,5,5 t,2,0,5,5", ""},
		{"topic trim t --partition 1 --to 5", refusals{"t/1": kerr.RequestTimedOut}, output.Unavailable, "", "not known whether all of it was done: records of t/1: "},
		{"topic trim t --partition 1 --to 5", refusals{"t/1": kerr.TopicAuthorizationFailed}, output.Auth, "", "records of t/1: "},
		{"topic delete t u", refusals{"delete u": kerr.TopicAuthorizationFailed}, output.Partial, "t", "1 of 2 were done: topic u: "},
		{"topic delete t u", refusals{"delete t": kerr.RequestTimedOut, "delete u": kerr.NetworkException}, output.Unavailable, "", "not known"},
		{"group delete a b", refusals{"b": kerr.NonEmptyGroup}, output.Partial, "a", "1 of 2 were done: group b: "},
		{"group delete a b", refusals{"a": kerr.NonEmptyGroup, "b": kerr.NonEmptyGroup}, output.Conflict, "", "group a, group b: "},
		{"group delete a b --topic t", refusals{"b": kerr.GroupAuthorizationFailed}, output.Partial, "a,t,0,4 a,t,1,4 a,t,2,4", "3 of 6 were done: group b: "},
		{"group delete a b --topic t", refusals{"a t/1": kerr.GroupSubscribedToTopic}, output.Partial, "a,t,0,4 a,t,2,4", "2 of 6 were done: group a, t/1: "},
		{"group reset a --topic t --to 5", nil, 0, "t,0,4,5 t,1,4,5 t,2,4,5", ""},
		{"group reset a --topic t --to 5", refusals{"a t/1": kerr.OffsetMetadataTooLarge}, output.Partial, "t,0,4,5 t,2,4,5", "2 of 3 were done: group a, t/1: "},
		{"group reset a --topic t --to 5", refusals{"a t/1": kerr.OffsetMetadataTooLarge, "a t/2": kerr.OffsetMetadataTooLarge}, output.Partial, "t,0,4,5", "1 of 3 were done: group a, t/1-2: "},
		{"group reset a --topic t --to 5", refusals{"a t/0": kerr.UnknownMemberID, "a t/2": kerr.TopicAuthorizationFailed}, output.Partial, "t,1,4,5", "1 of 3 were done: group a, t/0: "},
		{"group delete a b --topic t", refusals{"a": kerr.GroupAuthorizationFailed}, output.Auth, "", "group a: "},
	} {
		t.Run(fmt.Sprint(c.line, c.refused), func(t *testing.T) {
			s := startStub(t, c.refused)
			code, out, said := invoke(t, "", append(strings.Fields(c.line), "--yes", "--brokers", s.addr)...)
			if code != c.code || cellsOf(out) != c.out || !strings.Contains(said, c.said) {
				t.Errorf("exit code %d, want %d: %s\n%s", code, c.code, out, said)
			}
		})
	}
}

// cellsOf is the body of a table, cells separated by commas and rows by blanks.
func cellsOf(table string) string {
	var rows []string
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if i > 0 {
			rows = append(rows, strings.Join(strings.Fields(line), ","))
		}
	}
	return strings.Join(rows, " ")
}

// TestResetsThatAreRefused: only members are a conflict.
func TestResetsThatAreRefused(t *testing.T) {
	for code, refused := range map[int][]*kerr.Error{
		output.Conflict:    {kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.NonEmptyGroup, kerr.RebalanceInProgress},
		output.Auth:        {kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed},
		output.Unavailable: {kerr.RequestTimedOut, kerr.CoordinatorLoadInProgress},
		output.NotFound:    {kerr.UnknownTopicOrPartition},
	} {
		for _, e := range refused {
			t.Run(e.Message, func(t *testing.T) {
				t.Parallel()
				s := startStub(t, refusals{"a": e})
				got, out, said := invoke(t, "", "group", "reset", "a", "--topic", "t", "--to", "5", "--yes", "--timeout", "1s", "--brokers", s.addr)
				if got != code || out != "" {
					t.Errorf("exit code %d, want %d: %s\n%s", got, code, out, said)
				}
				if unsure := strings.Contains(said, "not known"); unsure != (e == kerr.RequestTimedOut) {
					t.Errorf("said %s", said)
				}
				if members := strings.Contains(said, "members"); members != (code == output.Conflict) && e != kerr.NonEmptyGroup {
					t.Errorf("said %s", said)
				}
			})
		}
	}
}

// TestRefusedTopicsAreNotGone: of a group the rest is shown, and its offsets of a
// topic that can't be looked at are there to be deleted.
func TestRefusedTopicsAreNotGone(t *testing.T) {
	for _, c := range []struct {
		refused *kerr.Error
		code    int
		row     string
		del     int
	}{
		{kerr.TopicAuthorizationFailed, output.Auth, "u,1,4,-,-,-,-,-", 0},
		{kerr.UnknownTopicOrPartition, 0, "u,1,4,gone,-,-,-,-", output.NotFound},
	} {
		s := startStub(t, refusals{"u": c.refused})
		code, out, said := invoke(t, "", "group", "describe", "a", "--brokers", s.addr)
		if rows := cellsOf(out); code != c.code || !strings.Contains(rows, c.row) || !strings.Contains(rows, "t,1,4,10,6,-,-,-") {
			t.Errorf("%v: exit code %d: %s\n%s", c.refused, code, out, said)
		}
		code, out, said = invoke(t, "", "group", "delete", "a", "--topic", "u", "--yes", "--brokers", s.addr)
		if code != c.del || (code == 0) != strings.Contains(cellsOf(out), "a,u,1,4") {
			t.Errorf("%v: exit code %d: %s\n%s", c.refused, code, out, said)
		}
	}
}
