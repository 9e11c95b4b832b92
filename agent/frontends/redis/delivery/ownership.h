#ifndef AGENT_FRONTENDS_REDIS_DELIVERY_OWNERSHIP_H
#define AGENT_FRONTENDS_REDIS_DELIVERY_OWNERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Who owns a job, and what its owner delivered last: the value of the key `committed`,
 * "<epoch>:<instance>:<sequence>". Each agent that takes the job over raises the epoch by one; the
 * instance is a random number that tells two agents of one epoch apart; the sequence counts the
 * owner's transactions, from 1. Does no I/O.
 *
 *   ownership_update       with each value that was read on the delivery's own connection; the
 *                          first one sets the epoch
 *   ownership_text         the value that the next transaction writes
 */

/* In bytes, with the NUL: three numbers of 64 bits, two of them decimal, one of 16 hexadecimal
   digits, and two colons take 59. */
#define OWNERSHIP_TEXT_SIZE 80

struct ownership {
  uint64_t epoch;     /* 0: the key was not read yet */
  uint64_t instance;  /* random, set by who begins */
  uint64_t delivered; /* sequence of the last transaction that is known to be executed; from 1 on
                         the job is this agent's, as far as is known */
};

/* What a value of the key means for the transaction `delivered` + 1, which may be under way. */
enum ownership_state {
  OWNERSHIP_DELIVERED, /* it was executed */
  OWNERSHIP_PENDING,   /* it was not, or not yet */
  OWNERSHIP_LOST_DATA, /* it was not, and Redis lost what it had acknowledged before */
  OWNERSHIP_TAKEN      /* another agent owns the job */
};

/* Takes a value of the key (NULL: the key does not exist), and counts the transaction `delivered` +
   1 when it was executed. `executed`: its EXEC was acknowledged before this value was read, and
   what is returned is meant for the one after it. False: that is unknown, and only the value says
   it. */
enum ownership_state ownership_update(struct ownership *self, bool executed, const char *value,
                                      size_t length);

/* The same, without counting anything. */
enum ownership_state ownership_compare(const struct ownership *self, const char *value,
                                       size_t length);

/* Writes the value for this sequence, with a NUL; returns its length without it. */
size_t ownership_text(const struct ownership *self, uint64_t sequence,
                      char out[OWNERSHIP_TEXT_SIZE]);

#endif
