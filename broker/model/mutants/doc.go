// Package mutants shows that the tests that stand for the safety of records can
// fail: it breaks one rule at a time, tells the go command to build with the broken
// file (-overlay), and counts how many seeds of the test that must notice do. The
// same seeds pass unbroken, or the run ends there.
//
//	make mutants                                                             # SEEDS=50, about ten minutes of one core
//	go test -v -run TestMutants$ ./broker/model/mutants -seeds 50 -mutant M5
//
// M1 to M14 are the faults that replicated logs were known for; N1 to N5 are of
// rules that came to be here. Caught, by 50 seeds of 400 traces each where the
// harness is the model, else by so many of the tests and histories it has:
//
//	mutant  caught      by               the rule that is broken
//	M1      35 of  50   broker/model     R5: a follower cuts back to its high watermark
//	M2      50 of  50   broker/model     R2: one round of truncation, an end that is high enough is taken for agreement
//	M3      42 of  50   broker/model     I1: a follower joins without what the leader began its epoch with
//	M4      27 of  50   broker/model     I1: the registration a follower fetched under isn't compared
//	M5      17 of  50   broker/model     H1: the high watermark waits for the committed ISR only
//	M6      50 of  50   broker/model     H4: acknowledged once appended
//	M7      50 of  50   broker/model     H2: the high watermark moves below min.insync.replicas
//	M8      81 of 120   broker/group     C1: offsets are applied up to the log end
//	M9      11 of 301   broker/log       D1: recovery doesn't check CRCs
//	M10     49 of  50   broker/model     E2: an unclean start keeps its place in the ISR and ELR
//	M11      2 of 301   broker/log       D7: a failed fsync is tried again
//	M12    264 of 289   broker/log       D1: producers aren't known again after recovery
//	M13     50 of  50   broker/model     R3: a fetch that diverges counts
//	M14      1 of   1   broker           strays are deleted at once
//	N1       1 of  12   broker/replica   R7: what can't be compared with the leader's log counts
//	N2      46 of  50   broker/model     I4: an ask whose answer was lost is forgotten
//	N3      28 of  50   broker/model     I3: asking for the present ISR begins no partition epoch
//	N4      50 of  50   broker/model     E1: leaders come from outside ISR and ELR
//	N5      36 of  50   broker/model     I4: an old assignment is taken
//
// M9 and M11 are caught by tests made for them and by few others: most histories
// damage nothing that a CRC alone tells, and fail no fsync. TestMutantsFit holds
// this table to the mutants there are.
package mutants
