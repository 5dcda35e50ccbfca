// Package admin asks a Kafka cluster, of whichever make, about itself, and has it
// do what its administrators may: its brokers, quorum and format level, topics and
// where their copies and logs are, configs, groups and what they have committed.
//
// Whoever plans asks the cluster, as whole: an answer that lacks a part is an
// error. Whoever watches asks each leader by itself (AtLeaders), a second at most,
// and leaves out what nobody tells; numbers are Untold then. Lists of groups wait
// five seconds for each broker and their coordinators two, for one may have many
// to tell of; what was told stands beside an error that names the others. What a broker refuses
// is an *Error, which says about what; errors.Is finds its code and the sentinels
// of package consumer.
package admin
