// Package loader answers one question: how is one run carried out? It plans a
// range of the log, cuts it into splits, carries them out as tasks and commits
// the result to the ledger of a data set.
package loader
