#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stddef.h>

/*
 * A measurement takes figures of ours and of their ceiling in turns, round by round; each row of
 * the table is made of one kind of figure.
 *
 *   begin()             servers and agents that all rounds share; or NULL
 *   round()             once per round: ours and the ceiling, each figure by samples_add
 *   end()               or NULL
 *
 * With another build to compare with (BASELINE), all of this is done a second time for that build,
 * in turns with the first.
 *
 * One file of bench/ is one measurement, and one entry in main.c; of some, one more by TLS. Each
 * runs in a process of its own, with TMPDIR a directory that is removed behind it. What cannot be
 * measured ends the process: the assertions of the test support do. Standard output belongs to the
 * table.
 */
enum side { OURS, CEILING, SIDES };

enum target {
  RATIO_AT_LEAST, /* of ours to the ceiling: rates */
  RATIO_AT_MOST,  /* of ours to the ceiling: times, bytes */
  OURS_AT_MOST    /* in the row's unit; a ceiling may stand beside it */
};

struct row {
  const char *what;    /* "output, 1,000,000 lines" */
  const char *unit;    /* "lines/s" */
  const char *ceiling; /* "bare pipelined XADD"; NULL: there is none */
  enum target kind;
  double target;
  double baseline; /* ours to it at most, or the reverse of rates; 0: BASELINE_WORSE_MAX */
};

#define BASELINE_WORSE_MAX 1.03
#define BASELINE_UNJUDGED 1e9 /* of a row that is meant to differ */

struct samples;

struct measurement {
  const char *name; /* to ask for it alone */
  const struct row *rows;
  size_t row_count;
  size_t rounds;
  void *(*begin)(void);
  void (*round)(void *self, size_t round, struct samples *samples);
  void (*end)(void *self);
};

/* One figure of the measurement's row with this number. */
void samples_add(struct samples *samples, size_t row, enum side side, double value);

/* A figure that is shown under the table, by this label, and judged by nobody. */
void samples_beside(struct samples *samples, size_t row, const char *label, double value);

#endif
