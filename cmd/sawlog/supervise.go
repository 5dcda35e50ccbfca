package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/systemd"
)

// supervised tells the supervisor of this process how the server is.
type supervised struct {
	tell  func(lines ...string) error
	ready func() error                // what /readyz says
	alive func(context.Context) error // whether the broker answers; asked only where there is a watchdog
	log   *slog.Logger
}

// lookEvery is how often the supervisor's picture is brought up to date.
const lookEvery = 500 * time.Millisecond

// follow tells what the server is at, and that it is ready once it is, until ctx
// ends. What was ready stays so to a supervisor; its status says what is wrong.
func (s supervised) follow(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	said, begun := "", false
	for {
		err := s.ready()
		text := "in service"
		if err != nil {
			text = "not ready: " + err.Error()
		}
		var lines []string
		if err == nil && !begun {
			begun, lines = true, append(lines, systemd.Ready)
		}
		if text != said {
			said, lines = text, append(lines, systemd.Status(text))
		}
		if len(lines) > 0 {
			s.say(lines...)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// feed tells the watchdog, which waits as long as patience, that the broker
// answers, and nothing while it doesn't, until ctx ends.
func (s supervised) feed(ctx context.Context, patience time.Duration) {
	again := time.NewTicker(patience / 4)
	defer again.Stop()
	answered := false
	for {
		asked, cancel := context.WithTimeout(ctx, patience/2)
		err := s.alive(asked)
		cancel()
		switch {
		case err == nil:
			answered = true
			s.say(systemd.Alive)
		case answered && ctx.Err() == nil:
			s.log.Error("the broker does not answer itself: the watchdog is not told that it lives", "error", err, "patience", patience)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s supervised) say(lines ...string) {
	if err := s.tell(lines...); err != nil {
		s.log.Warn("the supervisor was not told", "lines", lines, "error", err)
	}
}

// answers asks a broker for its metadata as a client does, on a connection of
// its own.
func answers(ctx context.Context, addr string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // all that counts was read
	end, _ := ctx.Deadline()         // zero: none
	if err := c.SetDeadline(end); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{}
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("sawlog-watchdog")).AppendRequest(nil, req, watchMark)
	if _, err := c.Write(frame); err != nil {
		return err
	}
	return heard(c)
}

// watchMark is the correlation id of the watchdog's request.
const watchMark = 0x5a11

// heard reads the head of the answer to the watchdog's request, and its rest.
func heard(r io.Reader) error {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	if mark := binary.BigEndian.Uint32(head[4:]); mark != watchMark {
		return fmt.Errorf("an answer to request %#x, not to %#x", mark, watchMark)
	}
	_, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(head[:4]))-4)
	return err
}

// supervise tells the supervisor of this process of the server until it is
// closed.
func (s *server) supervise(ctx context.Context) {
	to := supervised{tell: s.supervisor.Tell, ready: s.front.ready, log: s.log, alive: func(ctx context.Context) error {
		return answers(ctx, s.front.broker())
	}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it is told of the end, too
	s.wg.Go(func() { <-s.done; cancel() })
	s.wg.Go(func() { to.follow(ctx) })
	if s.supervisor.Watchdog > 0 {
		s.wg.Go(func() { to.feed(ctx, s.supervisor.Watchdog) })
	}
}
