#ifndef TESTS_FAULT_TALLY_H
#define TESTS_FAULT_TALLY_H

#include <stdbool.h>

/*
 * What was found out about one trial, or about many: how often something was broken on purpose, and
 * what came out wrong. It is plain memory, so that a trial can fill one in that another process
 * reads.
 */
enum tally_kind {
  TALLY_LOST,       /* a line, an event or a result is not there */
  TALLY_DOUBLED,    /* it is there more than once, or a step ran more than once */
  TALLY_DISORDERED, /* it is there behind something that should follow it */
  TALLY_WRONG,      /* anything else that the protocol does not allow */
  TALLY_KINDS
};

struct tally {
  long cuts;
  long found[TALLY_KINDS];
  char gravest[320]; /* the first finding of the first kind there is, in words */
};

/* Counts findings of one kind, says them on stderr, and keeps the words when nothing as grave has
   been found. A count of 0 finds nothing. */
void tally_find(struct tally *self, enum tally_kind kind, long count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

bool tally_is_clean(const struct tally *self);

void tally_add(struct tally *self, const struct tally *other);

#endif
