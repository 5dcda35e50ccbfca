package main

import (
	"errors"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
)

// deed is the error of what brokers were asked to do. Where it may be done all the
// same it says so, and that look tells.
func deed(err error, look string) error {
	if !admin.Unsure(err) {
		return err
	}
	return &output.Error{Code: output.Code(err), Msg: "it is not known whether all of it was done", Err: err, Hint: look}
}

// printDone prints what was done, if n of it was, and returns the error of what was
// not.
func (a *app) printDone(n int, err error, v any, rows func() *output.Rows) error {
	if err != nil && n == 0 {
		return err
	}
	if printed := a.print.Print(v, rows); printed != nil {
		return errors.Join(err, printed)
	}
	return err
}
