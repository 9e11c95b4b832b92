#ifndef TESTS_SUPPORT_CLIENT_OWNER_H
#define TESTS_SUPPORT_CLIENT_OWNER_H

#include "agent/doors/redis/client/client.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/recorder.h"

/*
 * The owner of a client in a test: the client, its server, and a transcript of the callbacks:
 *
 *   client_owner_start(owner, SIZE_MAX);
 *   client_owner_expect(owner, "connected ready");
 *   fake_redis_send(owner->server, "+one\r\n");
 *   client_owner_expect(owner, "connected ready one");
 *
 * Words: connected, ready, writable, lost (down), unreachable, failed. A reply is its text.
 */
struct client_owner {
  struct loop loop;
  struct log log; /* at level info, in a file */
  struct fake_redis *server;
  struct redis_url url;
  struct client *client;
  const char *handshake_answers[4]; /* on each connection, in order; later commands get no reply */
  int connection;                   /* the one that is answered */
  size_t answered;                  /* commands on it */
  struct recorder recorder;
  char value[16]; /* of the handshake's probe */
  char error[256];
  const char *drop_at; /* the reply at which the owner drops, or stops, the client */
  const char *stop_at;
};

/* For cmocka: the state is a client_owner without a client; with one that is ready. */
int client_owner_set_up(void **state);
int client_owner_set_up_ready(void **state);
int client_owner_tear_down(void **state);
#define NEW_CLIENT_TEST(NAME)                                                                      \
  TEST_WITH(struct client_owner *owner, NAME, client_owner_set_up, client_owner_tear_down)
#define CLIENT_TEST(NAME)                                                                          \
  TEST_WITH(struct client_owner *owner, NAME, client_owner_set_up_ready, client_owner_tear_down)

/* Makes the client; makes and starts it. */
void client_owner_make(struct client_owner *self, size_t largest_string);
void client_owner_start(struct client_owner *self, size_t largest_string);

/* Runs the loop until the transcript is as long as this one, and then until nothing is left to do
   at once; asserts that it is the same. */
void client_owner_expect(struct client_owner *self, const char *transcript);

/* Starts it, and expects that it becomes ready. */
void client_owner_becomes_ready(struct client_owner *self);

/* How many times the text is in the log. */
int client_owner_logged(const struct client_owner *self, const char *text);

#endif
