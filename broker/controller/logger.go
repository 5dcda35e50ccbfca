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

func newRaftLogger(to *slog.Logger) raftLogger { return raftLogger{hclog.NewNullLogger(), to} }

// Log writes a message at a level of hclog's.
func (l raftLogger) Log(level hclog.Level, msg string, args ...any) {
	severity := slog.LevelDebug
	switch level {
	case hclog.Warn:
		severity = slog.LevelWarn
	case hclog.Error:
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
