// Package jobs answers one question: what is loaded, when, and what happened?
//
// It reads job files, makes ticks from schedules, queues and watches runs, and
// remembers all of it in a journal. How one run is carried out is the loader's
// business; the faces of it all are in cmd.
//
// # What is persisted
//
// The journal is one compacted, single-partition topic (__sawlog_jobs). Every
// record is a key and a JSON value; the last value of a key is the truth, a
// null value takes the key away. Records of different keys come in no order that
// counts: what was written again comes last.
//
//	key              value
//	job/NAME         {"v":1,"name","text","path","by","at","generation","since","paused","pause_reason",
//	                  "topics","forgotten"}
//	                 text is the job file as it was applied, byte for byte; ticks after since are due;
//	                 topics is what the pattern matched first; ticks up to forgotten are not remembered
//	tick/JOB/TIME    {"v":1,"job","tick","from","merged","runs","at","why"}
//	                 TIME is the tick as 20261129T140000Z; from and merged: the earlier ticks this one stands for
//	run/ID           {"v":1,"run","job","status","plan","rows","quarantined","skipped","files","bytes",
//	                  "ranges","hours","dataset","topic","tick","up_to","kind","seq","by","reason","hint",
//	                  "exit_code","attempt","accept_bad","accept_gap","not_before","queued","started",
//	                  "ended","phases","ledger","again","again_bad","backfill","round","resumed",
//	                  "attempts","tasks","notices","notes"}
//	backfill/ID      {"v":1,"backfill","job","from","to","only","order","status","cut","round","by","reason",
//	                  "changed_by","accept_gap","created","ended"}
//	items/ID         {"v":1,"items":[{"tick","from","record","dataset","topic","was","action","run","status","rows"}]}
//	                 of the backfill ID, in the order in which they are carried out
//
// Times are RFC 3339, UTC. "v" is the version of the record; a reader refuses a
// higher one by name. The runs of a tick are appended before the tick itself:
// runs without their tick were cut off by a crash, and the tick, due again, finds
// them. So do items and their backfill: items without one belong to nothing and
// are taken away when the journal is opened, as are the ticks and runs of a job
// whose deletion was cut off.
//
// # Ticks
//
// A tick is due when the clock shows its time and the schedule's delay. The last
// tick decided on is a mark that only moves on, so a clock that is set back
// makes no tick twice; one that is set ahead makes ticks early, and says so until
// the true time has come there. What a backlog of missed ticks will make is said
// (in the log, as an event, in the job's status) before it is made.
//
// # Backfills
//
// A backfill freezes its items when it is made: the ticks that nothing was made
// of, those whose run failed, or the loads that brought rows into the hours of a
// window. statebackfill.go decides what is done next from nothing but the states
// of its items, which are those of their runs; so it goes on after a restart as
// if there had been none.
package jobs
