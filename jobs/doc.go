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
// null value takes the key away.
//
//	key              value
//	job/NAME         {"v":1,"name","text","path","by","at","generation","since","paused","pause_reason"}
//	                 text is the job file as it was applied, byte for byte; ticks after since are due
//	tick/JOB/TIME    {"v":1,"job","tick","from","merged","runs","at","why"}
//	                 TIME is the tick as 20261129T140000Z; from and merged: the earlier ticks this one stands for
//	run/ID           {"v":1,"run","job","status","plan","rows","quarantined","skipped","files","bytes",
//	                  "ranges","hours","dataset","topic","tick","up_to","kind","seq","by","reason","hint",
//	                  "exit_code","attempt","accept_bad","accept_gap","not_before","queued","started",
//	                  "ended","phases","ledger","notes"}
//
// Times are RFC 3339, UTC. "v" is the version of the record; a reader refuses a
// higher one by name. The runs of a tick are appended before the tick itself:
// runs without their tick were cut off by a crash, and the tick, due again,
// finds them, because such a run's id is made of the data set and the tick.
package jobs
