#ifndef AGENT_REDIS_CLAIM_H
#define AGENT_REDIS_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Who owns a job, and what its owner delivered last: the value of the key `committed`,
 * "<generation>:<nonce>:<number>". Each agent that takes the job over raises the generation; the
 * number is that of the last window that was delivered. Pure.
 */
#define CLAIM_TEXT_SIZE 80

struct claim {
  uint64_t generation; /* 0: none claimed yet */
  uint64_t nonce;      /* differs from agent to agent */
  uint64_t delivered;  /* number of the last window that is known to be delivered */
};

enum claim_verdict {
  CLAIM_DELIVERED, /* the window that was sent arrived */
  CLAIM_PENDING,   /* it did not */
  CLAIM_FORGOTTEN, /* it did not, and Redis has lost what it had acknowledged before */
  CLAIM_TAKEN      /* another agent owns the job */
};

/* Takes the job over from whoever wrote `value` (NULL: nobody). */
void claim_init(struct claim *self, uint64_t nonce, const char *value, size_t length);

/* What the value of the key says of the window that was sent last, number `delivered` + 1. */
enum claim_verdict claim_judge(const struct claim *self, const char *value, size_t length);

/* The value that the key has while nothing happens, so that it need not be written each time. All
   zero: none yet. */
struct claim_memory {
  char text[CLAIM_TEXT_SIZE];
  uint64_t delivered;
};

/* The value is the one that the last delivered window left behind: there is nothing to judge. */
bool claim_is_unchanged(const struct claim *self, struct claim_memory *memory, const char *value,
                        size_t length);

/* The value that this window leaves behind, with a NUL; returns its length. */
size_t claim_text(const struct claim *self, uint64_t number, char out[CLAIM_TEXT_SIZE]);

#endif
