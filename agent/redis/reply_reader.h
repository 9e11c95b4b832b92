#ifndef AGENT_REDIS_REPLY_READER_H
#define AGENT_REDIS_REPLY_READER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes from Redis -> replies. A string longer than `largest_string` is not collected: it is thrown
 * away as it arrives, and its whole answer becomes REPLY_READER_TOO_LARGE, with its beginning. It
 * has to be the last string of that answer, and `largest_string` at least REPLY_READER_BEGINNING
 * more than what is fed at once: what arrives whole is a reply.
 *
 *   reply_reader_feed(&reader, bytes, n)
 *   while ((what = reply_reader_next(&reader, &reply)) != REPLY_READER_MORE)
 *     …                                      reply_reader_free(reply)
 */
#define REPLY_READER_BEGINNING ((size_t)4096)

/* An array that claims more is not the protocol: the largest answer is that of a window, 256 KiB of
   commands that have no less than 40 bytes. */
#define REPLY_READER_ELEMENTS_MAX 8192

struct reply_reader {
  redisReader *reader;
  redisReplyObjectFunctions functions; /* hiredis' own, but for what is replaced */
  const redisReplyObjectFunctions *original;
  bool terse;
  size_t largest_string;
  unsigned long long discard; /* bytes of a string that is too large, still to come */
  bool too_large;             /* what `reader` holds is the beginning of such a string */
};

enum reply_reader_result {
  REPLY_READER_MORE, /* bytes are needed */
  REPLY_READER_REPLY,
  REPLY_READER_TOO_LARGE, /* *reply is a string: the first REPLY_READER_BEGINNING bytes of it */
  REPLY_READER_BROKEN     /* what came is not the protocol; reply_reader_error says more */
};

/* The reader must stay where it is. */
void reply_reader_init(struct reply_reader *self, size_t largest_string);

/* From now on what only says that all is well costs no memory: a status is always the same object,
   and in place of the strings of an array there is NULL. */
void reply_reader_be_terse(struct reply_reader *self);

void reply_reader_release(struct reply_reader *self);

void reply_reader_feed(struct reply_reader *self, const char *bytes, size_t length);

/* What it gives is released with reply_reader_free. */
enum reply_reader_result reply_reader_next(struct reply_reader *self, redisReply **reply);
void reply_reader_free(redisReply *reply);

const char *reply_reader_error(const struct reply_reader *self);

#endif
