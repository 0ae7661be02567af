package card

// error.go owns what an error is when it crosses a boundary: code, text, hint.

import (
	"errors"
	"fmt"
)

// Error is what crosses a boundary when something is broken: a code to branch on, a text (what was tried, on which thing: what was
// found), and a hint, what the reader can do, or "".
type Error struct {
	Code string `json:"code"`
	Text string `json:"text"`
	Hint string `json:"hint"`
	err  error
}

// Codes of errors. Python maps them to exception classes and exit codes.
const (
	CodeInternal = "internal"       // a bug here
	CodeRequest  = "bad_request"    // the JSON of a request does not follow docs/formats.md
	CodeNotFound = "not_found"      // no such study, run, node, plan or operation
	CodeLocked   = "locked"         // another process runs this study
	CodeSchema   = "schema"         // the store was written by a newer kernelforge
	CodeStore    = "store"          // the store cannot be read or written: disk full, read only, damaged
	CodePack     = "pack"           // the pack cannot be written
	CodeJudge    = "judge"          // the judge is broken: no worker, no compiler
	CodeReferee  = "referee"        // a task of the referee failed
	CodePropose  = "propose"        // a source of candidates is broken
	CodeFork     = "fork"           // a forked child called the library
	CodeStopped  = "stopped"        // the study was cancelled while the call waited
	CodeMismatch = "study_mismatch" // the study exists and is about something else
)

// Fail makes an Error whose text wraps what `format` says (%w as in fmt.Errorf).
func Fail(code, hint, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Text: err.Error(), Hint: hint, err: errors.Unwrap(err)}
}

func (e *Error) Error() string { return e.Text }

// Unwrap gives the cause, if the text named one.
func (e *Error) Unwrap() error { return e.err }

// AsError gives the whole text of err with the code and hint of the first Error in its chain; CodeInternal if there is none.
func AsError(err error) *Error {
	var inner *Error
	if errors.As(err, &inner) {
		return &Error{Code: inner.Code, Text: err.Error(), Hint: inner.Hint, err: err}
	}
	return &Error{Code: CodeInternal, Text: err.Error(), err: err}
}
