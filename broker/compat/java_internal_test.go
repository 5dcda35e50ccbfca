package compat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sawlog/broker/compat/peer"
)

// javaFormatted reads a partition of an internal topic from its beginning
// through a formatter of Kafka's: JSON values without anything between them.
func javaFormatted(t *testing.T, d *javaDriver, server *peer.Server, partition int, formatter string) []string {
	t.Helper()
	r := d.run(t, "", javaClass("console-consumer"), "--bootstrap-server", server.Addr, "--topic", "__consumer_offsets",
		"--partition", strconv.Itoa(partition), "--offset", "earliest", "--timeout-ms", "3000",
		"--formatter", "org.apache.kafka.tools.consumer."+formatter)
	if r.code != 0 {
		t.Fatalf("%s: exit %d: %q", formatter, r.code, r.err)
	}
	values := json.NewDecoder(strings.NewReader(strings.Join(r.out, "\n")))
	values.UseNumber()
	var list []string
	for {
		var v struct {
			Key   any
			Value any
		}
		if err := values.Decode(&v); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("%s: %v in %q", formatter, err, r.out)
		}
		key, value := unstamped(t, v.Key), unstamped(t, v.Value)
		list = append(list, key+" = "+value)
	}
}

// unstamped is a JSON value without what differs from run to run.
func unstamped(t *testing.T, v any) string {
	t.Helper()
	if body, ok := v.(map[string]any); ok {
		if fields, ok := body["data"].(map[string]any); ok {
			for _, name := range []string{"commitTimestamp", "currentStateTimestamp", "topicId"} {
				if fields[name] != nil {
					fields[name] = "some"
				}
			}
			if members, ok := fields["members"].([]any); ok {
				for _, m := range members {
					m.(map[string]any)["memberId"] = "some"
				}
			}
			if leader, ok := fields["leader"].(string); ok && leader != "" {
				fields["leader"] = "some"
			}
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// GroupPartition is the partition of __consumer_offsets a group's records
// lie in: the absolute value of Java's hash of its name.
func GroupPartition(group string) int {
	hash := int32(0)
	for _, c := range []byte(group) {
		hash = 31*hash + int32(c)
	}
	return max(int(hash), -int(hash)) % 50
}

// formatters lets Kafka's own formatters read the topic of groups: what a group
// leaves behind there are Kafka's records, in the versions Kafka 4.4 writes.
func formatters(t *testing.T, d *javaDriver, server *peer.Server) {
	const group, topic = "formatters-g", "formatters-a"
	s := &javaScript{d: d, server: server, dir: t.TempDir()}
	s.run(t, `$ topics --create --topic formatters-a --partitions 2
> Created topic formatters-a.
$ console-producer --topic formatters-a --reader-property parse.key=true --reader-property key.separator=:
< a:1
< b:2
$~ console-consumer --topic formatters-a --group formatters-g --from-beginning --max-messages 2 --command-property client.id=formatters-c
> 1
> 2
! Processed a total of 2 messages
$~ consumer-groups --reset-offsets --group formatters-g --topic formatters-a:0 --to-earliest --execute
> GROUP TOPIC PARTITION NEW-OFFSET
> formatters-g formatters-a 0 0
$ consumer-groups --delete-offsets --group formatters-g --topic formatters-a:1
> Request succeeded for deleting offsets from group formatters-g.
> TOPIC PARTITION STATUS
> formatters-a 1 Successful
$ consumer-groups --delete --group formatters-g
> Deletion of requested consumer groups ('formatters-g') was successful.
`)
	key := func(partition int) string {
		return fmt.Sprintf(`{"data":{"group":%q,"partition":%d,"topic":%q},"type":1} = `, group, partition, topic)
	}
	commit := func(offset, epoch int) string {
		return fmt.Sprintf(`{"data":{"commitTimestamp":"some","leaderEpoch":%d,"metadata":"","offset":%d,"topicId":"some"},"version":4}`, epoch, offset)
	}
	compareRecords(t, "offsets", javaFormatted(t, d, server, GroupPartition(group), "OffsetsMessageFormatter"), []string{
		key(1) + commit(0, -1), key(0) + commit(2, 0), // the consumer's last commit, one request
		key(0) + commit(0, -1), // reset
		key(1) + "null",        // deleted
		key(0) + "null",        // the group deleted
	})

	of := fmt.Sprintf(`{"data":{"group":%q},"type":2} = `, group)
	state := func(generation int, leader, members, protocol, kind string) string {
		return fmt.Sprintf(`{"data":{"currentStateTimestamp":"some","generation":%d,"leader":%s,"members":%s,"protocol":%s,"protocolType":%q},"version":3}`,
			generation, leader, members, protocol, kind)
	}
	// Both of range and cooperative-sticky are offered; the subscription is that of range.
	member := `[{"assignment":"AAMAAAABAAxmb3JtYXR0ZXJzLWEAAAACAAAAAAAAAAH/////","clientHost":"/127.0.0.1","clientId":"formatters-c","groupInstanceId":null,` +
		`"memberId":"some","rebalanceTimeout":300000,"sessionTimeout":45000,"subscription":"AAMAAAABAAxmb3JtYXR0ZXJzLWH/////AAAAAP///////w=="}]`
	got := javaFormatted(t, d, server, GroupPartition(group), "GroupMetadataMessageFormatter")
	if first := of + state(0, "null", "[]", "null", ""); server.Name == "kafka" && len(got) > 0 && got[0] == first {
		got = got[1:] // Kafka also notes that a group began
	}
	compareRecords(t, "groups", got, []string{
		of + state(1, `"some"`, member, `"range"`, "consumer"),
		of + state(2, "null", "[]", "null", "consumer"),
		of + "null",
	})
}

func compareRecords(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
