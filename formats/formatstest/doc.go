// Package formatstest is what the tests of all writers of files share: columns
// made of JSON, and the promises every writer keeps.
package formatstest
