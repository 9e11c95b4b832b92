#ifndef AGENT_DOORS_REDIS_OUT_OWNERSHIP_H
#define AGENT_DOORS_REDIS_OUT_OWNERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Who owns a job, and what its owner delivered last: the value of the key `committed`,
 * "<generation>:<nonce>:<number>". Each agent that takes the job over raises the generation; the
 * number is that of the last window that was delivered. Pure.
 *
 *   ownership_init
 *   ownership_see        each time that the key was read between two windows: first of all it tells
 *                    whom the job is taken over from
 *   ownership_text       what the next window writes
 */
#define OWNERSHIP_TEXT_SIZE 80

struct ownership {
  uint64_t epoch;                 /* 0: the key was not read yet */
  uint64_t instance;              /* differs from agent to agent */
  uint64_t delivered;             /* number of the last window that is known to be delivered */
  char last[OWNERSHIP_TEXT_SIZE]; /* what that one wrote, once somebody has asked for it, */
  uint64_t last_number;           /* and its number */
};

enum ownership_verdict {
  OWNERSHIP_DELIVERED, /* the window that was sent arrived */
  OWNERSHIP_PENDING,   /* it did not */
  OWNERSHIP_FORGOTTEN, /* it did not, and Redis has lost what it had acknowledged before */
  OWNERSHIP_TAKEN      /* another agent owns the job */
};

void ownership_init(struct ownership *self, uint64_t instance);

/* A window was delivered: the job is this agent's, as far as is known. */
bool ownership_is_made(const struct ownership *self);

struct ownership_news {
  bool arrived;   /* the window that was sent last is delivered */
  bool forgotten; /* Redis has lost what it had acknowledged, perhaps that window too */
  bool taken;     /* another agent owns the job, perhaps since */
};

/* The key was read (NULL: it is not there), behind the window that was sent last where this was
   `executed`; otherwise it may have been before. */
struct ownership_news ownership_see(struct ownership *self, bool executed, const char *value,
                                    size_t length);

/* What the value of the key says of the window that was sent last, number `delivered` + 1. */
enum ownership_verdict ownership_judge(const struct ownership *self, const char *value,
                                       size_t length);

/* The value is the one that the last delivered window left behind: there is nothing to judge. */
bool ownership_is_unchanged(struct ownership *self, const char *value, size_t length);

/* The value that this window leaves behind, with a NUL; returns its length. */
size_t ownership_text(const struct ownership *self, uint64_t number, char out[OWNERSHIP_TEXT_SIZE]);

#endif
