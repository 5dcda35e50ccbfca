// Package line is how the programs of this module talk with the test that runs
// them: JSON, a line a record or a step.
package line

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Record is a Kafka record; nil bytes are null ones.
type Record struct {
	Topic   string   `json:"topic,omitempty"` // in answers only
	Key     []byte   `json:"key"`
	Value   []byte   `json:"value"`
	Time    int64    `json:"time"` // ms since 1970
	Headers []Header `json:"headers"`
}

// Header is one header of a record.
type Header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Client is what every client family can do.
type Client interface {
	// Write produces the records to partition 0 of the topic, in order.
	Write(addr, topic, codec string, records []Record) error
	// Read gives the first count records of partition 0 of the topic.
	Read(addr, topic string, count int) ([]Record, error)
	// Suite runs the client through its scenario, a Step at a time.
	Suite(addr string, args []string) error
}

// Main carries out what the command line asks for:
//
//	write ADDR PREFIX CODEC…   records from standard input to topic PREFIX+CODEC, each codec
//	read ADDR COUNT TOPIC…     the records of the topics to standard output
//	suite ADDR [ARG…]          the scenario
func Main(c Client) {
	if err := run(c, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(c Client, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: write|read|suite ADDR …")
	}
	verb, addr, rest := args[0], args[1], args[2:]
	switch verb {
	case "write":
		records, err := Records()
		if err != nil {
			return err
		}
		for _, codec := range rest[1:] {
			if err := c.Write(addr, rest[0]+codec, codec, records); err != nil {
				return fmt.Errorf("%s: %w", codec, err)
			}
		}
		return nil
	case "read":
		count, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		for _, topic := range rest[1:] {
			records, err := c.Read(addr, topic, count)
			if err != nil {
				return fmt.Errorf("%s: %w", topic, err)
			}
			for _, r := range records {
				r.Topic = topic
				put(r)
			}
		}
		return nil
	case "suite":
		return c.Suite(addr, rest)
	}
	return fmt.Errorf("no verb %q", verb)
}

// Records reads records from standard input.
func Records() ([]Record, error) {
	var all []Record
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// Step tells the test what was seen.
func Step(name string, got any) {
	put(struct {
		Step string `json:"step"`
		Got  any    `json:"got"`
	}{name, got})
}

// Text is an error's text, null when there is none.
func Text(err error) any {
	if err == nil {
		return nil
	}
	return strings.TrimSpace(err.Error())
}

func put(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
}
