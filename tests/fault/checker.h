#ifndef TESTS_FAULT_CHECKER_H
#define TESTS_FAULT_CHECKER_H

#include "tests/fault/reader.h"
#include "tests/fault/work.h"

/*
 * Holds what is in Redis at the end of a job against the work that was given: every step answered
 * exactly once and in its place, run once at most, its events there once, whole, in order and
 * numbered without a gap, its result as it must be, what it appended there once and in order, and
 * nothing left that was taken, nor a heartbeat.
 */
void checker_check(const struct work *work, const struct reader *reader, struct tally *tally);

#endif
