#ifndef AGENT_DOORS_REDIS_CLIENT_HANDSHAKE_H
#define AGENT_DOORS_REDIS_CLIENT_HANDSHAKE_H

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/doors/redis/net/url.h"

/*
 * What is said first on a new connection: AUTH, CLIENT SETNAME, SELECT, ROLE, as far as the url
 * asks for it, in one write; and whether the answers let it go on. Does no I/O.
 */
#define HANDSHAKE_COMMANDS_MAX 4

/* What the owner of a connection wants answered before it counts as usable. Borrowed. */
struct handshake_probe {
  const char *text; /* encoded commands */
  size_t length;
  int count;
  int joint; /* so many of the first are about several keys, of which later ones ask one by one: a
                denial is left to those */
};

struct handshake {
  const struct redis_url *url;
  char *text; /* the commands, to be sent as they are; holds the password */
  size_t length;
  const char *commands[HANDSHAKE_COMMANDS_MAX]; /* their names, in order */
  int count;
  struct handshake_probe probe; /* is sent behind them */
  size_t sent;                  /* bytes of both; its owner counts */
  int answered;
};

enum handshake_verdict {
  HANDSHAKE_GOES_ON, /* more answers are due */
  HANDSHAKE_DONE,
  HANDSHAKE_LATER,  /* refused now; another attempt may succeed */
  HANDSHAKE_REFUSED /* refused for good */
};

/* `name` is what CLIENT LIST shows. The url must outlive the login. */
void handshake_init(struct handshake *self, const struct redis_url *url, const char *name);

/* An error in one of its answers refuses the login. */
void handshake_add_probe(struct handshake *self, const struct handshake_probe *probe);

/* What is left to be sent. */
#define HANDSHAKE_PIECES 2
void handshake_rest(const struct handshake *self, struct iovec rest[HANDSHAKE_PIECES]);

/* Overwrites the text before it frees it. */
void handshake_release(struct handshake *self);

struct handshake_refusal {
  const char *command; /* its name, perhaps in here: */
  char name[128];
  char text[256]; /* what the server said, without what is secret; or what its user lacks */
};

/* Takes the next answer; the refusal is written where it does not go on. */
enum handshake_verdict handshake_take(struct handshake *self, const redisReply *reply,
                                      struct handshake_refusal *refusal);

#endif
