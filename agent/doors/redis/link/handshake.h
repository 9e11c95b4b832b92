#ifndef AGENT_DOORS_REDIS_LINK_HANDSHAKE_H
#define AGENT_DOORS_REDIS_LINK_HANDSHAKE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/doors/redis/link/url.h"

/*
 * The first commands on a new connection, and whether their replies allow the connection to be
 * used: AUTH, SELECT and ROLE as far as the url asks for them, CLIENT SETNAME, and a probe: further
 * commands of the owner. All leave in one write, except those of the probe that must not be executed
 * when one before them is refused. Does no I/O.
 *
 *   handshake_init
 *   until handshake_unsent is empty: write it, and add what was written to `sent`
 *   for each reply: handshake_take_reply, until it returns something other than HANDSHAKE_MORE;
 *                   after it handshake_unsent may have more
 *   handshake_take_value
 *   handshake_release
 */
#define HANDSHAKE_COMMANDS_MAX 4

/* Commands that must succeed before a connection counts as ready. Borrowed. The first `multi_key`
   ones name several keys, and later ones name each key alone: NOPERM for the first ones is ignored,
   as it does not say which key is meant. */
struct handshake_probe {
  const char *text; /* encoded commands */
  size_t length;
  int count; /* of commands */
  int multi_key;
  int first; /* so many commands leave with the login, the others when these are replied to and none
                is refused; 0: all leave with the login */
  int value; /* the index of the command whose reply the owner wants; a string */
};

struct handshake {
  const struct redis_url *url;
  struct handshake_probe probe;
  char *text; /* the encoded commands, which hold the password, and those of the probe */
  size_t length;
  size_t first_length;                       /* bytes that leave before a reply has come to them */
  const char *names[HANDSHAKE_COMMANDS_MAX]; /* of its own commands, for people */
  int count;                                 /* of these */
  size_t sent;                               /* bytes; the owner counts */
  int answered;
  redisReply value; /* owned; str is NULL until the probe's value has come */
};

enum handshake_result {
  HANDSHAKE_MORE, /* more replies are due */
  HANDSHAKE_DONE,
  HANDSHAKE_RETRY,  /* refused for now: another attempt may succeed */
  HANDSHAKE_REFUSED /* refused: another attempt would be, too */
};

/* `name` is what CLIENT LIST shows. The url must outlive the handshake. An error in reply to a command of
   the probe refuses it. */
void handshake_init(struct handshake *self, const struct redis_url *url, const char *name,
                    const struct handshake_probe *probe);

/* The bytes that are still to be sent. */
struct iovec handshake_unsent(const struct handshake *self);

/* The reply that the probe's owner wants, a string or nil. The caller frees its `str`. */
redisReply handshake_take_value(struct handshake *self);

/* Overwrites the text before it frees it. */
void handshake_release(struct handshake *self);

/* The text of a refusal by a server that is not the primary. */
#define HANDSHAKE_REPLICA "it is a replica, not yet the master"

struct handshake_refusal {
  char command[128]; /* and its key, of the probe */
  char text[256]; /* the server's text without user and password, or the ACL rule that is missing */
};

/* Takes the next reply; with HANDSHAKE_RETRY and HANDSHAKE_REFUSED it fills in the refusal. */
enum handshake_result handshake_take_reply(struct handshake *self, const redisReply *reply,
                                           struct handshake_refusal *refusal);

#endif
