#ifndef TESTS_SUPPORT_OUTBOX_OWNER_H
#define TESTS_SUPPORT_OUTBOX_OWNER_H

#include "agent/redis/outbox.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"

/* Who owns an outbox in a test: the outbox, its server, and what the outbox said. */
/* Commands of a first connection before anything is sent: SETNAME, and the question what may be
   done. */
#define OUTBOX_OPENING 5

struct outbox_owner {
  struct loop loop;
  struct log log;
  struct fake_redis *server;
  struct redis_url url;
  struct keys keys;
  struct outbox *outbox;
  size_t acknowledged; /* commands behind the opening that are still answered */
  bool silent;         /* not even a login is answered */
  const char *refuse;  /* how a command begins that is answered with the error below */
  const char *error_reply;
  int ready;
  int room;
  int empty;
  int gone;
  int failed;
  char error[256];
};

/* For cmocka: the state is an outbox_owner without an outbox. */
int outbox_owner_set_up(void **state);
int outbox_owner_tear_down(void **state);

/* Makes it; makes and starts it, and runs the loop until it is ready. */
void outbox_owner_make(struct outbox_owner *self, unsigned long long events_maxlen,
                       size_t hold_bytes);
void outbox_owner_start(struct outbox_owner *self, unsigned long long events_maxlen,
                        size_t hold_bytes);

/* An event whose line is "<number>", filled up to `length`; a result with exit code 3. */
void outbox_owner_put_event(struct outbox_owner *self, int number, int length);
void outbox_owner_put_result(struct outbox_owner *self);

/* A condition: everything was acknowledged. */
bool outbox_owner_is_empty(void *context);

/* Runs the loop until the server has so many commands in all; fails when there are more. */
void outbox_owner_awaits(struct outbox_owner *self, size_t commands);

/* The command of this number begins so, and holds the text. */
void outbox_owner_got(const struct outbox_owner *self, size_t number, const char *command,
                      const char *text);

#endif
