#ifndef AGENT_DOORS_REDIS_NET_REPLY_PARSER_H
#define AGENT_DOORS_REDIS_NET_REPLY_PARSER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Parses the bytes that Redis sends (RESP2) into replies. hiredis does the parsing; a scanner in
 * front of it tracks lengths, so that a string longer than `largest_string` never becomes memory:
 * it is discarded while it arrives. The reply that holds it becomes a string, the first
 * REPLY_PARSER_BEGINNING bytes of the large one, with the result REPLY_PARSER_TRUNCATED.
 *
 *   reply_parser_init(&parser, largest_string)
 *   reply_parser_feed(&parser, bytes, n)
 *   while ((result = reply_parser_next(&parser, &reply)) != REPLY_PARSER_MORE)
 *     …                                      reply_parser_free(reply)
 *   reply_parser_release(&parser)
 */
#define REPLY_PARSER_BEGINNING ((size_t)4096)

/* A line that is longer is a protocol error: statuses, errors and numbers are at most some hundred
   bytes long. */
#define REPLY_PARSER_LINE_MAX ((size_t)64 * 1024)

/* An array that claims more elements is a protocol error: the largest reply is that of one batch,
   256 KiB of commands of at least 40 bytes. */
#define REPLY_PARSER_ELEMENTS_MAX 8192

/* Follows the bytes from reply to reply; it checks nothing, that is left to hiredis. */
struct reply_scanner {
  enum { SCAN_TYPE, SCAN_NUMBER, SCAN_LINE, SCAN_STRING } state; /* of the byte that comes next */
  char type;                                                     /* of the item: its first byte */
  uint64_t number; /* of a string or an array; in SCAN_STRING the bytes left, with the line end */
  uint64_t items;  /* of the reply, still to come; 0 between replies */
};

/* COLLECTS -> AT_LARGE_STRING at its length -> DISCARDS when hiredis has read up to there
   -> COLLECTS at the end of the reply */
enum reply_parser_mode {
  REPLY_PARSER_COLLECTS,
  REPLY_PARSER_AT_LARGE_STRING,
  REPLY_PARSER_DISCARDS
};

struct reply_parser {
  redisReader *reader;
  redisReplyObjectFunctions functions; /* those of hiredis, but for what is replaced */
  const redisReplyObjectFunctions *original;
  bool discard_values;
  size_t largest_string;
  struct reply_scanner scanner;
  const char *input; /* what was fed and not yet scanned; borrowed */
  size_t input_length;
  enum reply_parser_mode mode;
  size_t beginning;     /* of a large string: bytes that hiredis still has to get */
  bool too_large;       /* the next reply of hiredis is such a beginning */
  size_t line_size;     /* of the line under way, when it came in several pieces */
  size_t reply_size;    /* of the reply under way, its bytes that hiredis was given */
  bool had_large_reply; /* since hiredis was last renewed */
};

enum reply_parser_result {
  REPLY_PARSER_MORE, /* all of the input was used: feed more */
  REPLY_PARSER_REPLY,
  REPLY_PARSER_TRUNCATED, /* *reply is a string: the first REPLY_PARSER_BEGINNING bytes of it */
  REPLY_PARSER_BROKEN     /* the bytes are not the protocol; reply_parser_error says more. Final */
};

/* `largest_string` is at least REPLY_PARSER_BEGINNING. The parser must stay where it is. */
void reply_parser_init(struct reply_parser *self, size_t largest_string);

/* From now on replies that only acknowledge cost no memory: a status is always the same object
   without its text, and a string directly in an array is NULL. */
void reply_parser_discard_values(struct reply_parser *self);

/* May be called twice; reply_parser_init makes it usable again. */
void reply_parser_release(struct reply_parser *self);

/* The bytes are borrowed until reply_parser_next returns REPLY_PARSER_MORE, which it must before
   more is fed. */
void reply_parser_feed(struct reply_parser *self, const char *bytes, size_t length);

/* Release a reply with reply_parser_free. */
enum reply_parser_result reply_parser_next(struct reply_parser *self, redisReply **reply);
void reply_parser_free(redisReply *reply);

/* Valid until reply_parser_release. */
const char *reply_parser_error(const struct reply_parser *self);

/* "hiredis 1.2.0": the library this program was compiled with. */
const char *reply_parser_library(void);

#endif
