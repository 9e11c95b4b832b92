#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The fencing token of a job: the value of the key `committed`, "<epoch>:<instance>:<sequence>". It
 * names the agent that owns the job and the last transaction that this agent has delivered. Each
 * agent that takes the job over raises the epoch by one. The instance is a random number that
 * distinguishes two agents of the same epoch. The sequence counts the owner's transactions from 1.
 * delivery.c is the only caller; this module does no I/O.
 *
 *   ownership_update       takes each value that the delivery's own connection has read; the first
 *                          value sets the epoch
 *   ownership_text         makes the value that the next transaction writes
 */

/* In bytes, including the NUL. The longest value has 59 bytes: two decimal numbers of 64 bits, 16
   hexadecimal digits and two colons. */
#define OWNERSHIP_TEXT_SIZE 80

struct ownership {
  uint64_t epoch;     /* 0: the key was not read yet */
  uint64_t instance;  /* random; the caller sets it */
  uint64_t delivered; /* the sequence of the last transaction that is known to be executed; if it is
                         at least 1, this agent owns the job, as far as it knows */
};

/* What a value of the key says about the transaction `delivered` + 1, which may be under way. */
enum ownership_state {
  OWNERSHIP_DELIVERED, /* the transaction was executed */
  OWNERSHIP_PENDING,   /* the transaction was not executed, or not yet */
  OWNERSHIP_LOST_DATA, /* it was not executed, and Redis has lost data that it had acknowledged */
  OWNERSHIP_TAKEN      /* another agent owns the job */
};

/* Takes a value of the key, which ends with a NUL (NULL if the key does not exist), and adds 1 to
   `delivered` if the transaction `delivered` + 1 was executed. If `executed` is true, its EXEC was
   acknowledged before this value was read, and the returned state is about the transaction after
   it. If `executed` is false, only the value tells whether it was executed. */
enum ownership_state ownership_update(struct ownership *self, bool executed, const char *value,
                                      size_t length);

/* Returns the state of the transaction `delivered` + 1, and changes nothing. */
enum ownership_state ownership_compare(const struct ownership *self, const char *value,
                                       size_t length);

/* Writes the value for this sequence and a NUL. Returns the length without the NUL. */
size_t ownership_text(const struct ownership *self, uint64_t sequence,
                      char out[OWNERSHIP_TEXT_SIZE]);
