package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sawlog/loader"
)

// answering is a client of a server that answers everything so.
func answering(t *testing.T, do http.HandlerFunc) *Client {
	t.Helper()
	web := httptest.NewServer(do)
	t.Cleanup(web.Close)
	c, err := NewClient(web.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLongReports: what a verify or a rerun found comes whole with its error,
// however long it is.
func TestLongReports(t *testing.T) {
	mismatch := &loader.Error{Code: loader.ExitMismatch, Msg: "it has other bytes", Hint: "rerun it"}
	report := func(length int) *loader.VerifyReport {
		return &loader.VerifyReport{Dataset: "d", Problems: []loader.Problem{{Path: strings.Repeat("x", length), Kind: "changed"}, {Path: "last", Kind: "missing"}}}
	}
	answer := func(length int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { (&server{}).report(w, r, report(length), mismatch) }
	}
	bare := httptest.NewRecorder()
	answer(0)(bare, httptest.NewRequest("POST", "/", nil))
	for _, size := range []int{bodyLimit, bodyLimit + 1, 5 * bodyLimit} {
		length := size - bare.Body.Len()
		found := &loader.VerifyReport{}
		err := answering(t, answer(length)).VerifyDataset(t.Context(), "d", found)
		e, told := errors.AsType[*Error](err)
		if !told || e.ExitCode() != loader.ExitMismatch || e.Message != mismatch.Msg || e.Hint != mismatch.Hint {
			t.Errorf("%d bytes: %.200v", size, err)
		}
		if len(found.Problems) != 2 || len(found.Problems[0].Path) != length || found.Problems[1].Path != "last" {
			t.Errorf("%d bytes: %d problems", size, len(found.Problems))
		}
	}
}

// TestReportsThatCantBeRead: the error stands, whatever comes with it.
func TestReportsThatCantBeRead(t *testing.T) {
	for body, want := range map[string]struct {
		code string
		exit int
		says string
	}{
		`{"code":"mismatch","message":"other bytes","report":"a text"}`: {CodeMismatch, loader.ExitMismatch, "other bytes; the report with it can't be read: json"},
		`{"code":"mismatch","message":"other bytes","report":{"prob`:    {CodeUnavailable, loader.ExitUnavailable, "its answer breaks off"},
		`{"code":"mismatch"`:             {CodeUnavailable, loader.ExitUnavailable, "its answer breaks off"},
		`{"message":"no code"}`:          {CodeFailed, loader.ExitFailed, `{"message":"no code"}`},
		`<html>a page of another server`: {CodeFailed, loader.ExitFailed, "<html>a page of another server"},
		``:                               {CodeFailed, loader.ExitFailed, "422 Unprocessable"},
	} {
		err := answering(t, func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusUnprocessableEntity, body) }).VerifyDataset(t.Context(), "d", &loader.VerifyReport{})
		if e, told := errors.AsType[*Error](err); !told || e.Code != want.code || e.ExitCode() != want.exit || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// once is a report that may be written as JSON a single time.
type once struct{ written *int }

func (o once) MarshalJSON() ([]byte, error) {
	*o.written++
	return []byte("{}"), nil
}

// TestGoodReportsAreWrittenOnce: they may be long.
func TestGoodReportsAreWrittenOnce(t *testing.T) {
	n := 0
	(&server{}).report(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil), once{&n}, nil)
	if n != 1 {
		t.Errorf("written %d times", n)
	}
}
