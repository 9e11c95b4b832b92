#ifndef AGENT_REDIS_LOGIN_H
#define AGENT_REDIS_LOGIN_H

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/redis/url.h"

/*
 * What is said first on a new connection: AUTH, CLIENT SETNAME, SELECT, ROLE, as far as the url
 * asks for it, in one write; and whether the answers let it go on. Does no I/O.
 */
#define LOGIN_COMMANDS_MAX 4

/* What the owner of a connection wants answered before it counts as usable. Borrowed. */
struct login_probe {
  const char *text; /* encoded commands */
  size_t length;
  int count;
  int joint; /* so many of the first are about several keys, of which later ones ask one by one: a
                denial is left to those */
};

struct login {
  const struct redis_url *url;
  char *text; /* the commands, to be sent as they are; holds the password */
  size_t length;
  const char *commands[LOGIN_COMMANDS_MAX]; /* their names, in order */
  int count;
  struct login_probe probe; /* is sent behind them */
  size_t sent;              /* bytes of both; its owner counts */
  int answered;
};

enum login_verdict {
  LOGIN_GOES_ON, /* more answers are due */
  LOGIN_DONE,
  LOGIN_LATER,  /* refused now; another attempt may succeed */
  LOGIN_REFUSED /* refused for good */
};

/* `name` is what CLIENT LIST shows. The url must outlive the login. */
void login_init(struct login *self, const struct redis_url *url, const char *name);

/* An error in one of its answers refuses the login. */
void login_add_probe(struct login *self, const struct login_probe *probe);

/* What is left to be sent. */
#define LOGIN_PIECES 2
void login_rest(const struct login *self, struct iovec rest[LOGIN_PIECES]);

/* Overwrites the text before it frees it. */
void login_release(struct login *self);

struct login_refusal {
  const char *command; /* its name, perhaps in here: */
  char name[128];
  char text[256]; /* what the server said, without what is secret; or what its user lacks */
};

/* Takes the next answer; the refusal is written where it does not go on. */
enum login_verdict login_take(struct login *self, const redisReply *reply,
                              struct login_refusal *refusal);

#endif
