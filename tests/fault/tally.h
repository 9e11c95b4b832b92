#pragma once

#include <stdbool.h>

/*
 * The findings of one trial or of several: how many times something was broken on purpose, and what
 * went wrong. It is plain memory, so that a trial can fill in a tally that another process reads.
 */
enum tally_kind {
  TALLY_LOST,       /* a line, an event or a result is missing */
  TALLY_DOUBLED,    /* one of these exists more than once, or a step ran more than once */
  TALLY_DISORDERED, /* one of these is in the wrong place */
  TALLY_WRONG,      /* any other violation of the protocol */
  TALLY_KINDS
};

struct tally {
  long cuts;
  long found[TALLY_KINDS];
  char gravest[320]; /* the first finding of the gravest kind; kinds are in this order */
};

/* Counts findings of one kind, and prints them to stderr. Keeps the text if it is the gravest so
   far. Does nothing if the count is 0. */
void tally_find(struct tally *self, enum tally_kind kind, long count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

bool tally_is_clean(const struct tally *self);

void tally_add(struct tally *self, const struct tally *other);
