#ifndef AGENT_DOORS_REDIS_NET_REPLY_PARSER_H
#define AGENT_DOORS_REDIS_NET_REPLY_PARSER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes from Redis -> replies. A string longer than `largest_string` is not collected: it is thrown
 * away as it arrives, and its whole answer becomes REPLY_PARSER_TOO_LARGE, with its beginning. It
 * has to be the last string of that answer, and `largest_string` at least REPLY_PARSER_BEGINNING
 * more than what is fed at once: what arrives whole is a reply.
 *
 *   reply_parser_feed(&reader, bytes, n)
 *   while ((what = reply_parser_next(&reader, &reply)) != REPLY_PARSER_MORE)
 *     …                                      reply_parser_free(reply)
 */
#define REPLY_PARSER_BEGINNING ((size_t)4096)

/* An array that claims more is not the protocol: the largest answer is that of a window, 256 KiB of
   commands that have no less than 40 bytes. */
#define REPLY_PARSER_ELEMENTS_MAX 8192

struct reply_parser {
  redisReader *reader;
  redisReplyObjectFunctions functions; /* hiredis' own, but for what is replaced */
  const redisReplyObjectFunctions *original;
  bool discard_values;
  size_t largest_string;
  unsigned long long discard; /* bytes of a string that is too large, still to come */
  bool too_large;             /* what `reader` holds is the beginning of such a string */
};

enum reply_parser_result {
  REPLY_PARSER_MORE, /* bytes are needed */
  REPLY_PARSER_REPLY,
  REPLY_PARSER_TOO_LARGE, /* *reply is a string: the first REPLY_PARSER_BEGINNING bytes of it */
  REPLY_PARSER_BROKEN     /* what came is not the protocol; reply_parser_error says more */
};

/* The reader must stay where it is. */
void reply_parser_init(struct reply_parser *self, size_t largest_string);

/* From now on what only says that all is well costs no memory: a status is always the same object,
   and in place of the strings of an array there is NULL. */
void reply_parser_discard_values(struct reply_parser *self);

void reply_parser_release(struct reply_parser *self);

void reply_parser_feed(struct reply_parser *self, const char *bytes, size_t length);

/* What it gives is released with reply_parser_free. */
enum reply_parser_result reply_parser_next(struct reply_parser *self, redisReply **reply);
void reply_parser_free(redisReply *reply);

const char *reply_parser_error(const struct reply_parser *self);

#endif
