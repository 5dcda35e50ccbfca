package controller

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger hands Raft's messages to slog. Raft is chatty: what it calls
// information is debugging to us.
type raftLogger struct {
	hclog.Logger // the null logger, for the methods nobody calls
	to           *slog.Logger
}

// unanswered are messages that come again and again while a node is away, of
// which leaders tells once.
var unanswered = map[string]bool{
	"failed to appendEntries to":                          true,
	"failed to heartbeat to":                              true,
	"failed to contact":                                   true,
	"failed to make requestVote RPC":                      true,
	"failed to make preVote RPC":                          true,
	"failed to decode incoming command":                   true,
	"failed to flush response":                            true,
	"failed to get previous log":                          true,
	"appendEntries rejected, sending older logs":          true,
	"Election timeout reached, restarting election":       true,
	"rejecting pre-vote request since we have a leader":   true,
	"rejecting vote request since we have a leader":       true,
	"not part of stable configuration, aborting election": true,
	"peer has newer term, stopping replication":           true,
	"no known peers, aborting election":                   true,
	"heartbeat timeout reached, not part of a stable configuration or a non-voter, not triggering a leader election": true,
}

func newRaftLogger(to *slog.Logger) raftLogger { return raftLogger{hclog.NewNullLogger(), to} }

// Log writes a message at a level of hclog's.
func (l raftLogger) Log(level hclog.Level, msg string, args ...any) {
	severity := slog.LevelDebug
	switch {
	case unanswered[msg]:
	case level == hclog.Warn:
		severity = slog.LevelWarn
	case level == hclog.Error:
		severity = slog.LevelError
	}
	l.to.Log(context.Background(), severity, "raft: "+msg, args...)
}

// Debug writes a message for the developers of Raft.
func (l raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info writes what Raft thinks its users want to know.
func (l raftLogger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn writes a warning.
func (l raftLogger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error writes an error.
func (l raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// With returns a logger that adds args to each message.
func (l raftLogger) With(args ...any) hclog.Logger {
	return raftLogger{l.Logger, l.to.With(args...)}
}

// Named returns the same logger: there is only one Raft in the process.
func (l raftLogger) Named(string) hclog.Logger { return l }
