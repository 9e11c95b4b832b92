#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_REPLY_PARSER_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_REPLY_PARSER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/*
 * Parses the bytes that Redis sends (RESP2) into replies, in bounded memory, whatever a server
 * sends. hiredis parses without a bound, so a scanner in front of it tracks lengths: a string
 * longer than `largest_string` is discarded while it arrives. The reply that holds it becomes a
 * string, the first REPLY_PARSER_BEGINNING bytes of the large one, with the result
 * REPLY_PARSER_TRUNCATED.
 *
 *   reply_parser_feed(&parser, bytes, n)
 *   while ((result = reply_parser_next(&parser, &reply)) != REPLY_PARSER_MORE)
 *     …                                      reply_parser_free(&parser, reply)
 */
#define REPLY_PARSER_BEGINNING ((size_t)4096)

/* The most bytes of a reply in addition to its largest string. A larger reply is truncated, too. */
#define REPLY_PARSER_REST_MAX ((size_t)1 << 20)

/* A reply that exceeds one of these is a protocol error. A line (a status, an error or a number)
   has some hundred bytes. The most items are those of a batch: 512 KiB of commands of at least 40
   bytes. The deepest nesting is that of XREAD: streams, a key, entries, an id and fields; hiredis
   frees a reply by recursion. */
#define REPLY_PARSER_LINE_MAX ((size_t)64 * 1024)
#define REPLY_PARSER_ITEMS_MAX 16384
#define REPLY_PARSER_DEPTH_MAX 5

/* Follows the bytes from reply to reply, and rejects replies that none of our commands gets. It
   finds the end of a reply where hiredis does, and leaves malformed numbers and texts to
   hiredis. */
struct reply_scanner {
  enum { SCAN_TYPE, SCAN_NUMBER, SCAN_LINE, SCAN_STRING } state; /* of the next byte */
  char type;                                                     /* the item's first byte */
  bool at_return;  /* the last byte of the line so far is '\r' */
  uint64_t number; /* of a string or an array; in SCAN_STRING the bytes left, with the line end */
  size_t items;    /* the reply's known items; 0 between replies */
  size_t depth;    /* of open arrays */
  size_t left[REPLY_PARSER_DEPTH_MAX]; /* items that are missing in each of them */
  const char *refusal;                 /* NULL: none. Final */
};

/* COLLECTS -> AT_LIMIT at the length of a large string, or at the size limit of a reply
   -> DISCARDS when hiredis has read up to there -> COLLECTS at the end of the reply */
enum reply_parser_mode { REPLY_PARSER_COLLECTS, REPLY_PARSER_AT_LIMIT, REPLY_PARSER_DISCARDS };

struct reply_parser {
  redisReader *reader;
  struct arena arena; /* of the reply that arrives */
  /* Set by the owner. Replies that only acknowledge cost no memory then: each status is the same
     object without its text, and a string directly in an array is NULL. */
  bool discard_values;
  bool keep_memory; /* of a large reply, because another one follows; set by the owner */
  size_t (*largest_string)(void); /* in bytes */
  struct reply_scanner scanner;
  const char *input; /* was fed and is not scanned yet; borrowed */
  size_t input_length;
  enum reply_parser_mode mode;
  size_t beginning;     /* bytes of a large string's beginning that hiredis still needs */
  bool too_large;       /* the next reply of hiredis is such a beginning */
  size_t line_size;     /* of a line that arrives in several pieces */
  size_t reply_size;    /* bytes of this reply that hiredis was given */
  bool had_large_reply; /* since hiredis was last renewed */
};

enum reply_parser_result {
  REPLY_PARSER_MORE, /* all of the input was used: feed more */
  REPLY_PARSER_REPLY,
  REPLY_PARSER_TRUNCATED, /* *reply is the first REPLY_PARSER_BEGINNING bytes of a string; fewer if
                             the reply as a whole was too large */
  REPLY_PARSER_BROKEN     /* a protocol error; see reply_parser_error. Final */
};

/* `largest_string` returns at least REPLY_PARSER_BEGINNING, and is called only for a longer string
   or reply. The parser must not be moved. */
void reply_parser_init(struct reply_parser *self, size_t (*largest_string)(void));

/* Idempotent; reply_parser_init makes it usable again. */
void reply_parser_release(struct reply_parser *self);

/* The bytes are borrowed until reply_parser_next returns REPLY_PARSER_MORE; only then may more be
   fed. */
void reply_parser_feed(struct reply_parser *self, const char *bytes, size_t length);

/* The caller frees each reply with reply_parser_free before the next one; the parser may be
   released before that. */
enum reply_parser_result reply_parser_next(struct reply_parser *self, redisReply **reply);
void reply_parser_free(struct reply_parser *self, redisReply *reply);

/* Valid until reply_parser_release. */
const char *reply_parser_error(const struct reply_parser *self);

/* The library's name and version, such as "hiredis 1.2.0". */
const char *reply_parser_library(void);

#endif
