package hdfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/colinmarc/hdfs/v2"

	"sawlog/loader/sink"
)

// outcome is what is known of a call to a NameNode after its error.
type outcome uint8

const (
	answered outcome = iota // the NameNode decided: the same call would fail again
	refused                 // it was not carried out, and may be later
	unknown                 // no answer came: it may have been carried out, or will be
)

// unsentError is of a call that no NameNode was there to take, or of one that
// this side could not make.
type unsentError struct {
	err   error
	final bool // another try would end the same
}

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// passing are exceptions by which a NameNode says that it can't just now: it
// starts, is in safe mode, or another one has taken over.
var passing = []string{
	"org.apache.hadoop.ipc.StandbyException",
	"org.apache.hadoop.ipc.ObserverRetryOnActiveException",
	"org.apache.hadoop.ipc.RetriableException",
	"org.apache.hadoop.ipc.RpcNoSuchProtocolException", // its services come up one by one
	"org.apache.hadoop.hdfs.server.namenode.SafeModeException",
	"org.apache.hadoop.ipc.CallQueueTooBigException",
	"org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException",
}

// noNodes is what a NameNode says, as a plain IOException, when no DataNode can
// take a block: they are gone, full, or haven't reported yet.
const noNodes = "could only be written to"

// outcomeOf judges the error of a call.
func outcomeOf(err error) outcome {
	var (
		remote  hdfs.Error
		unsent  *unsentError
		pathErr *os.PathError
	)
	if errors.As(err, &unsent) { // whatever it wraps: a look that was lost is no change
		if unsent.final {
			return answered
		}
		return refused
	}
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	switch {
	case strings.HasPrefix(err.Error(), "no available namenodes"):
		return refused
	case errors.As(err, &remote):
		for _, name := range passing {
			if remote.Exception() == name || strings.Contains(firstLine(remote.Message()), name) {
				return refused
			}
		}
		if strings.Contains(remote.Message(), noNodes) {
			return refused
		}
		return answered
	case isAnswer(err):
		return answered
	default:
		return unknown
	}
}

// isUnleased tells of a NameNode that knows of nobody who writes the file: it
// was closed, or is gone with its folder.
func isUnleased(err error) bool {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	var remote hdfs.Error
	return errors.As(err, &remote) && remote.Exception() == "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"
}

// isAnswer tells of what the library makes of exceptions it knows, and of what
// it finds out by itself.
func isAnswer(err error) bool {
	for _, known := range []error{fs.ErrExist, fs.ErrNotExist, fs.ErrPermission, os.ErrInvalid, syscall.ENOTEMPTY, errFolder, errNoFolder, sink.ErrRefused} {
		if errors.Is(err, known) {
			return true
		}
	}
	return strings.Contains(err.Error(), "is not a directory")
}

var (
	errFolder   = errors.New("is a folder")
	errNoFolder = errors.New("is in no folder of its own")
)

// classify gives an error its place and class: what the caller may do.
func classify(op, name string, err error, class sink.Class) error {
	if err == nil {
		return nil
	}
	var placed *sink.Error
	if errors.As(err, &placed) {
		return err
	}
	if name == "" {
		name = "the root"
	}
	return &sink.Error{Op: op, Path: name, Class: class, Err: plain(err)}
}

// plain is an error without the absolute path the library put before it, and
// with what the NameNode said instead of the name of its exception.
func plain(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	var remote hdfs.Error
	if errors.As(err, &remote) {
		return &remoteError{remote, err}
	}
	if strings.Contains(err.Error(), "StandbyException") {
		return fmt.Errorf("each NameNode that answers is a standby: %w", err)
	}
	return err
}

// remoteError is an exception of a NameNode.
type remoteError struct {
	remote hdfs.Error
	err    error
}

func (e *remoteError) Error() string {
	if line := firstLine(e.remote.Message()); line != "" {
		return fmt.Sprintf("the NameNode says: %s", line)
	}
	return e.err.Error()
}

func (e *remoteError) Unwrap() error { return e.err }

// Is tells that the store won't: a quota or another limit is reached.
func (e *remoteError) Is(target error) bool {
	name := e.remote.Exception()
	return target == sink.ErrRefused && (strings.Contains(name, "QuotaExceededException") || strings.Contains(name, "FSLimitException") || strings.HasSuffix(name, "QuotaByStorageTypeExceededException"))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}
