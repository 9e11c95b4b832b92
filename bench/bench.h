#pragma once

#include <stddef.h>

/*
 * A measurement takes figures of ours and of their ceiling in turns, round by round. Each row of
 * the table consists of one kind of figure.
 *
 *   begin()             servers and agents that all rounds share; or NULL
 *   round()             once per round: ours and the ceiling, each figure by samples_add
 *   end()               or NULL
 *
 * With another build to compare with (BASELINE), all of this is done a second time for that build,
 * in turns with the first.
 *
 * Each file of bench/ that defines a measurement has an entry in main.c, and some have a second one
 * over TLS. Each measurement runs in a process of its own; its TMPDIR is a directory that is
 * removed afterwards. What cannot be measured ends the process: the assertions of the test support
 * do that. Standard output belongs to the table.
 */
enum side { OURS, CEILING, SIDES };

enum target {
  RATIO_AT_LEAST, /* of ours to the ceiling: rates */
  RATIO_AT_MOST,  /* of ours to the ceiling: times */
  OURS_AT_MOST    /* in the unit of the row; it may have a ceiling for comparison */
};

struct row {
  const char *what;    /* "output, 1,000,000 lines" */
  const char *unit;    /* "lines/s" */
  const char *ceiling; /* "bare pipelined XADD"; NULL if there is none */
  enum target kind;
  double target;
  double baseline; /* the largest ratio to the baseline, or its reverse for rates; 0 means
                      BASELINE_WORSE_MAX */
};

#define BASELINE_WORSE_MAX 1.03
#define BASELINE_UNJUDGED 1e9 /* for a row that is meant to differ */

struct samples;

struct measurement {
  const char *name; /* as in BENCH= */
  const struct row *rows;
  size_t row_count;
  size_t rounds;
  void *(*begin)(void);
  void (*round)(void *self, size_t round, struct samples *samples);
  void (*end)(void *self);
};

#define ROW_COUNT(ROWS) (sizeof(ROWS) / sizeof *(ROWS))

/* Adds a figure to the row with this number. */
void samples_add(struct samples *samples, size_t row, enum side side, double value);

/* Adds a figure that is shown below the table, under this label, and has no target. */
void samples_beside(struct samples *samples, size_t row, const char *label, double value);
