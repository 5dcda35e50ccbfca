package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
)

// Codes of errors. Each stands for one exit code of the command line.
const (
	CodeFailed      = "failed"      // 1
	CodeInvalid     = "invalid"     // 2
	CodeNotFound    = "not_found"   // 3
	CodeConflict    = "conflict"    // 4
	CodeForbidden   = "forbidden"   // 5
	CodeUnavailable = "unavailable" // 6
	CodePartial     = "partial"     // 7
	CodeMismatch    = "mismatch"    // 8
)

// Error is the error of an answer: its JSON body and its HTTP status.
type Error struct {
	Status   int            `json:"-"`
	Code     string         `json:"code"`
	Message  string         `json:"message"`
	Hint     string         `json:"hint,omitempty"`
	Problems []jobs.Problem `json:"problems,omitempty"` // of a job file
	// Report is what a rerun or verify answers where all is well, of one that
	// found something else.
	Report json.RawMessage `json:"report,omitempty"`

	again time.Duration // nothing was done, and asking again after it may help; 0 = not
}

func (e *Error) Error() string { return e.Message }

// Advice is what the person who meets the error can do, or "".
func (e *Error) Advice() string { return e.Hint }

// ExitCode is what a command ends with for this error.
func (e *Error) ExitCode() int {
	if code, known := exits[e.Code]; known {
		return code.exit
	}
	return loader.ExitFailed
}

// exits says the exit code and the HTTP status of each code.
var exits = map[string]struct{ exit, status int }{
	CodeFailed:      {loader.ExitFailed, http.StatusInternalServerError},
	CodeInvalid:     {loader.ExitUsage, http.StatusBadRequest},
	CodeNotFound:    {loader.ExitNotFound, http.StatusNotFound},
	CodeConflict:    {loader.ExitConflict, http.StatusConflict},
	CodeForbidden:   {loader.ExitAuth, http.StatusForbidden},
	CodeUnavailable: {loader.ExitUnavailable, http.StatusServiceUnavailable},
	CodePartial:     {loader.ExitPartial, http.StatusUnprocessableEntity},
	CodeMismatch:    {loader.ExitMismatch, http.StatusUnprocessableEntity},
}

// codeOf finds the code that stands for an exit code.
func codeOf(exit int) string {
	for code, e := range exits {
		if e.exit == exit {
			return code
		}
	}
	return CodeFailed
}

// asError turns any error into one of this API.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Code: CodeFailed, Message: err.Error()}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, consumer.ErrUnavailable), errors.Is(err, jobs.ErrClosed):
		e.Code = CodeUnavailable
	case errors.Is(err, jobs.ErrUndecided):
		e.Code, e.Hint = CodeUnavailable, "another node takes over; it may have been done all the same: look before asking again"
	case errors.Is(err, consumer.ErrUnknownTopic):
		e.Code = CodeNotFound
	}
	if ps, ok := errors.AsType[jobs.Problems](err); ok {
		e.Code, e.Problems = CodeInvalid, ps
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		e.Code = codeOf(coded.ExitCode())
	}
	var advised interface{ Advice() string }
	if errors.As(err, &advised) {
		e.Hint = advised.Advice()
	}
	if l, ok := errors.AsType[*loader.Error](err); ok {
		e.Code, e.Hint = codeOf(l.Code), l.Hint
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		e.Code, e.Message = CodeInvalid, "the request is longer than 1 MiB"
	}
	e.Status = exits[e.Code].status
	return e
}

// fail answers with an error.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asError(err)
	if e.Status == 0 {
		e.Status = exits[e.Code].status
	}
	if e.again > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.again.Seconds()))))
	}
	if e.Status >= 500 {
		s.Logger.Warn("request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	reply(w, e.Status, e)
}

// Refuse answers with an error on behalf of a handler outside of this package.
func Refuse(w http.ResponseWriter, e *Error) { reply(w, e.Status, e) }

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, body any) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // it is served as JSON, and people read struct<a:int64>
	if err := enc.Encode(body); err != nil {
		status = http.StatusInternalServerError
		text.Reset()
		text.WriteString(`{"code":"failed","message":"the answer cannot be written as JSON"}` + "\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // the caller went away
}

// body reads a request's JSON into v; an empty body leaves v as it is.
func body(r *http.Request, v any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return &Error{Code: CodeInvalid, Message: "the request's JSON: " + err.Error()}
	}
	return nil
}

func notAvailable(what string) *Error {
	return &Error{Status: http.StatusNotImplemented, Code: CodeUnavailable, Message: what + " is not available on this server"}
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
