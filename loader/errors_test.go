package loader

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sawlog/loader/sink"
)

// TestErrorsNameTheRoot has an error of the file store say which root it is
// about, and keep its exit code and hint; others stay as they are.
func TestErrorsNameTheRoot(t *testing.T) {
	stored := &sink.Error{Op: "write", Path: "dt=2026-11-29/x", Err: errors.New("no space left on device")}
	err := at("file:///warehouse", &Error{Code: ExitUnavailable, Msg: "stage", Hint: "make room", Err: fmt.Errorf("split 3: %w", stored)})
	var e *Error
	if !errors.As(err, &e) || ExitCode(err) != ExitUnavailable || e.Hint != "make room" {
		t.Errorf("code %d, error %#v", ExitCode(err), err)
	}
	for _, part := range []string{"file:///warehouse", "split 3", "dt=2026-11-29/x", "no space left"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	plain := fail(ExitConflict, "overlap")
	if got := at("file:///warehouse", plain); got != error(plain) {
		t.Errorf("an error of no file became %v", got)
	}
	if at("file:///warehouse", nil) != nil {
		t.Error("nil became an error")
	}
}
