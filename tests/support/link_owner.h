#ifndef TESTS_SUPPORT_LINK_OWNER_H
#define TESTS_SUPPORT_LINK_OWNER_H

#include "agent/redis/link.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"

/* Who owns a link in a test: the link, its server, and what the link said. */
struct link_owner {
  struct loop loop;
  struct log log; /* at level info, in a file */
  struct fake_redis *server;
  struct redis_url url;
  struct link *link;
  const char *login_answers[4]; /* in order; what follows is answered by nobody */
  size_t answered;
  int reached;
  int up;
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

/* For cmocka: the state is a link_owner without a link. */
int link_owner_set_up(void **state);
int link_owner_tear_down(void **state);

/* Makes it; and starts it. */
void link_owner_make(struct link_owner *self, size_t largest_string);
void link_owner_start(struct link_owner *self, size_t largest_string);

/* Runs the loop until the link is up; until it was lost, once, and is up again on a second
   connection; until it has failed. */
void link_owner_comes_up(struct link_owner *self);
void link_owner_comes_back(struct link_owner *self);
void link_owner_fails(struct link_owner *self);

/* How often such a text is in the log. */
int link_owner_logged(const struct link_owner *self, const char *text);

#endif
