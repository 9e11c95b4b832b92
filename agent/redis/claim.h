#ifndef AGENT_REDIS_CLAIM_H
#define AGENT_REDIS_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Who owns a job, and what its owner delivered last: the value of the key `committed`,
 * "<generation>:<nonce>:<number>". Each agent that takes the job over raises the generation; the
 * number is that of the last window that was delivered. Pure.
 *
 *   claim_init
 *   claim_see        each time that the key was read between two windows: first of all it tells
 *                    whom the job is taken over from
 *   claim_text       what the next window writes
 */
#define CLAIM_TEXT_SIZE 80

struct claim {
  uint64_t generation;        /* 0: the key was not read yet */
  uint64_t nonce;             /* differs from agent to agent */
  uint64_t delivered;         /* number of the last window that is known to be delivered */
  char last[CLAIM_TEXT_SIZE]; /* what that one wrote, once somebody has asked for it, */
  uint64_t last_number;       /* and its number */
};

enum claim_verdict {
  CLAIM_DELIVERED, /* the window that was sent arrived */
  CLAIM_PENDING,   /* it did not */
  CLAIM_FORGOTTEN, /* it did not, and Redis has lost what it had acknowledged before */
  CLAIM_TAKEN      /* another agent owns the job */
};

void claim_init(struct claim *self, uint64_t nonce);

/* A window was delivered: the job is this agent's, as far as is known. */
bool claim_is_made(const struct claim *self);

struct claim_news {
  bool arrived;   /* the window that was sent last is delivered */
  bool forgotten; /* Redis has lost what it had acknowledged, perhaps that window too */
  bool taken;     /* another agent owns the job, perhaps since */
};

/* The key was read (NULL: it is not there), behind the window that was sent last where this was
   `executed`; otherwise it may have been before. */
struct claim_news claim_see(struct claim *self, bool executed, const char *value, size_t length);

/* What the value of the key says of the window that was sent last, number `delivered` + 1. */
enum claim_verdict claim_judge(const struct claim *self, const char *value, size_t length);

/* The value is the one that the last delivered window left behind: there is nothing to judge. */
bool claim_is_unchanged(struct claim *self, const char *value, size_t length);

/* The value that this window leaves behind, with a NUL; returns its length. */
size_t claim_text(const struct claim *self, uint64_t number, char out[CLAIM_TEXT_SIZE]);

#endif
