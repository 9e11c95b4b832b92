#ifndef TESTS_SUPPORT_CLIENT_OWNER_H
#define TESTS_SUPPORT_CLIENT_OWNER_H

#include "agent/doors/redis/client/client.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"

/* Who owns a link in a test: the link, its server, and what the link said. */
struct client_owner {
  struct loop loop;
  struct log log; /* at level info, in a file */
  struct fake_redis *server;
  struct redis_url url;
  struct client *client;
  const char *handshake_answers[4]; /* in order; what follows is answered by nobody */
  size_t answered;
  int connected;
  int ready;
  char last[16]; /* what ended the login */
  int down;
  int writable;
  int failed;
  int replies;
  int too_large;
  char text[8192]; /* the replies, one space behind each; of an array its second element */
  char error[256];
  const char *drop_at; /* a reply at which the owner drops, or stops, the link */
  const char *stop_at;
};

/* For cmocka: the state is a client_owner without a link. */
int client_owner_set_up(void **state);
int client_owner_tear_down(void **state);

/* Makes it; and starts it. */
void client_owner_make(struct client_owner *self, size_t largest_string);
void client_owner_start(struct client_owner *self, size_t largest_string);

/* Runs the loop until the link is up; until it was lost, once, and is up again on a second
   connection; until it has failed. */
void client_owner_comes_up(struct client_owner *self);
void client_owner_comes_back(struct client_owner *self);
void client_owner_fails(struct client_owner *self);

/* How often such a text is in the log. */
int client_owner_logged(const struct client_owner *self, const char *text);

#endif
