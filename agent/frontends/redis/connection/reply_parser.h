#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_REPLY_PARSER_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_REPLY_PARSER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/*
 * Parses the bytes that Redis sends (RESP2) into replies. hiredis does the parsing, without a
 * bound; a scanner in front of it tracks lengths, so that a string longer than `largest_string`
 * never becomes memory: it is discarded while it arrives. The reply that holds it becomes a string,
 * the first REPLY_PARSER_BEGINNING bytes of the large one, with the result REPLY_PARSER_TRUNCATED.
 * So the memory of a reply is bounded, whatever a server sends.
 *
 *   reply_parser_feed(&parser, bytes, n)
 *   while ((result = reply_parser_next(&parser, &reply)) != REPLY_PARSER_MORE)
 *     …                                      reply_parser_free(&parser, reply)
 */
#define REPLY_PARSER_BEGINNING ((size_t)4096)

/* What a reply may have beside its largest string, in bytes; of one that has more only the
   beginning of a string is kept, as of one with a string that is too large. */
#define REPLY_PARSER_REST_MAX ((size_t)1 << 20)

/* What has more is a protocol error. Bytes of a line: statuses, errors and numbers have some
   hundred. Items of a reply, however they are nested: the largest is that of one batch, 512 KiB of
   commands of at least 40 bytes. Arrays in arrays: the deepest is that of XREAD, streams of a key
   and of entries of an id and of fields; hiredis frees a reply by recursion. */
#define REPLY_PARSER_LINE_MAX ((size_t)64 * 1024)
#define REPLY_PARSER_ITEMS_MAX 16384
#define REPLY_PARSER_DEPTH_MAX 5

/* Follows the bytes from reply to reply, and refuses what no command of ours is answered with.
   Where a reply ends it sees as hiredis does; whether numbers and texts are well formed is left to
   that. */
struct reply_scanner {
  enum { SCAN_TYPE, SCAN_NUMBER, SCAN_LINE, SCAN_STRING } state; /* of the byte that comes next */
  char type;                                                     /* of the item: its first byte */
  bool at_return;  /* the last byte of a line so far is '\r' */
  uint64_t number; /* of a string or an array; in SCAN_STRING the bytes left, with the line end */
  size_t items;    /* of the reply, as far as it says; 0 between replies */
  size_t depth;    /* arrays that are open */
  size_t left[REPLY_PARSER_DEPTH_MAX]; /* items that are still to come in each of them */
  const char *refusal;                 /* NULL: none. Final */
};

/* COLLECTS -> AT_LIMIT at the length of a large string, or where the reply is as large as it may be
   -> DISCARDS when hiredis has read up to there -> COLLECTS at the end of the reply */
enum reply_parser_mode { REPLY_PARSER_COLLECTS, REPLY_PARSER_AT_LIMIT, REPLY_PARSER_DISCARDS };

struct reply_parser {
  redisReader *reader;
  struct arena arena; /* of the reply under way */
  bool discard_values;
  bool keep_memory;
  size_t (*largest_string)(void); /* in bytes */
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
  REPLY_PARSER_TRUNCATED, /* *reply is a string: the first REPLY_PARSER_BEGINNING bytes of it, or
                             fewer when it was all of the reply that was too large */
  REPLY_PARSER_BROKEN     /* the bytes are not the protocol; reply_parser_error says more. Final */
};

/* `largest_string` returns at least REPLY_PARSER_BEGINNING, and is not called before a longer
   string or reply comes. The parser must stay where it is. */
void reply_parser_init(struct reply_parser *self, size_t (*largest_string)(void));

/* From now on replies that only acknowledge cost no memory: a status is always the same object
   without its text, and a string directly in an array is NULL. */
void reply_parser_discard_values(struct reply_parser *self);

/* From now on the memory of a large reply is not given back: another one follows. */
void reply_parser_keep_memory(struct reply_parser *self);

/* May be called twice; reply_parser_init makes it usable again. */
void reply_parser_release(struct reply_parser *self);

/* The bytes are borrowed until reply_parser_next returns REPLY_PARSER_MORE, which it must before
   more is fed. */
void reply_parser_feed(struct reply_parser *self, const char *bytes, size_t length);

/* Release a reply with reply_parser_free before the next one; the parser may have been released by
   then. Aborts when out of memory. */
enum reply_parser_result reply_parser_next(struct reply_parser *self, redisReply **reply);
void reply_parser_free(struct reply_parser *self, redisReply *reply);

/* Valid until reply_parser_release. */
const char *reply_parser_error(const struct reply_parser *self);

/* "hiredis 1.2.0": the library this program was compiled with. */
const char *reply_parser_library(void);

#endif
