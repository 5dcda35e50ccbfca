// Package compat runs the clients, tools and the broker of others against a
// Sawlog server process, and against three that die and come back. What a machine lacks (Java, Node, a Python module) is
// skipped by name, and is an error under SAWLOG_TEST_REQUIRE=all.
//
// Foreign programs live in testdata/<language>, what they need is fetched into
// bin/compat, and every test of theirs that isn't run stands with its reason in
// a text file beside them.
package compat
