#ifndef AGENT_REDIS_TRANSACTION_H
#define AGENT_REDIS_TRANSACTION_H

#include "agent/redis/claim.h"
#include "agent/redis/hold.h"
#include "agent/redis/request.h"
#include "wire/keys.h"

/*
 * The bytes of a window on its way: one transaction, which leaves in the key `committed` that it
 * was executed, and a look at that key.
 *
 *   transaction_open     MULTI, what is held, SET committed
 *   transaction_close    EXEC, WATCH and GET committed
 *
 * A look alone, or with a question behind it, is one without a window.
 */
struct transaction {
  struct request request;
  char *set; /* SET committed; NULL when there is no window */
};

/* What is the same in all of them. */
struct transaction_form {
  const char *key; /* `committed`; the keys must outlive the form */
  char *look;      /* WATCH and GET */
  char ttl[24];    /* seconds; empty: it does not expire */
};

void transaction_form_init(struct transaction_form *self, const struct keys *keys,
                           unsigned long long key_ttl_seconds);
void transaction_form_release(struct transaction_form *self);

/* Nothing is on its way; also the first initialization, of zeroes. */
void transaction_clear(struct transaction *self);

/* `value` is what `committed` will hold. The window (NULL: an empty one) must live as long. */
void transaction_open(struct transaction *self, const struct transaction_form *form,
                      const struct hold_window *window, const char value[CLAIM_TEXT_SIZE]);
void transaction_close(struct transaction *self, const struct transaction_form *form);

/* What looks at the key, in place of open and close. */
void transaction_look(struct transaction *self, const struct transaction_form *form);

#endif
