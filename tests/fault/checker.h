#pragma once

#include "tests/fault/reader.h"
#include "tests/fault/work.h"

/*
 * Compares the content of Redis at the end of a job with the work: every step was answered exactly
 * once and in order, and ran at most once. Its events exist once, in order and numbered without a
 * gap, its result is right, and the lines that it appended to a file exist once and in order. The
 * lists of taken steps are empty, and there is no heartbeat.
 */
void checker_check(const struct work *work, const struct reader *reader, struct tally *tally);
