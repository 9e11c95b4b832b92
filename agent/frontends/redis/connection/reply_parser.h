#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buffer.h"

/*
 * Parses the bytes that Redis sends (RESP2) into replies, in bounded memory, whatever a server
 * sends. A string longer than `largest_string` is discarded while it arrives. The reply that holds
 * it becomes a string, the first REPLY_PARSER_BEGINNING bytes of the large one; fewer if the reply
 * as a whole was too large.
 *
 *   while ((reply = reply_parser_next(&parser, &at, end)) != NULL)
 *     …
 *   if (parser.error[0] != '\0')
 *     …                                            a protocol error
 */
#define REPLY_PARSER_BEGINNING ((size_t)4096)

/* The most bytes of a reply in addition to its largest string, and the most items. A reply with
   more is truncated, too. The items are those of a batch: 512 KiB of commands of at least 40
   bytes. */
#define REPLY_PARSER_REST_MAX ((size_t)1 << 20)
#define REPLY_PARSER_ITEMS_MAX 16384

/* The longest string that is remembered when it is discarded, such as the id of an entry. */
#define REPLY_PARSER_DISCARDED_MAX 63

/* A reply that exceeds one of these is a protocol error. A line (a status, an error or a number)
   has some hundred bytes. The deepest nesting is that of XREAD: streams, a key, entries, an id and
   fields. */
#define REPLY_PARSER_LINE_MAX ((size_t)64 * 1024)
#define REPLY_PARSER_DEPTH_MAX 5

enum reply_type { REPLY_STRING, REPLY_ARRAY, REPLY_INTEGER, REPLY_NIL, REPLY_STATUS, REPLY_ERROR };

struct reply {
  enum reply_type type;
  bool is_truncated; /* this is the beginning of a reply that was too large */
  long long integer;
  char *str; /* of a string, a status or an error, with a NUL after it; of an array, the last short
                string in it that was discarded, or ""; otherwise NULL */
  size_t len;
  struct reply **element; /* of an array */
  size_t elements;
};

struct reply_parser {
  /* Set by the owner. Replies that only acknowledge cost little memory then: a status has no text,
     and a string directly in an array is NULL. */
  bool discard_values;
  char discarded[REPLY_PARSER_DISCARDED_MAX + 1]; /* the last one that is short */
  bool keep_memory; /* of a large reply, because another one follows; set by the owner */
  size_t (*largest_string)(void); /* in bytes */
  char error[64];                 /* final; "": there is none */
  struct arena arena;             /* of the reply */
  struct reply *reply;            /* the one that arrives, or was returned last; NULL: neither */
  bool is_whole;                  /* the reply was returned */
  size_t size;                    /* bytes of the reply that have arrived */
  size_t items;                   /* of the reply, as far as they are known; 0: it has not begun */
  struct buffer line;             /* the beginning of a line that arrives in several pieces */
  char *string;                   /* where the next bytes of a string are copied to */
  size_t copied;                  /* how many of its bytes are still to be copied */
  size_t left;  /* bytes of the string that are missing, with its line end; 0: at a line */
  size_t depth; /* of open arrays */
  struct {
    struct reply *array; /* invalid if the reply is truncated */
    size_t left;         /* items that are missing */
  } open[REPLY_PARSER_DEPTH_MAX];
};

/* `largest_string` returns at least REPLY_PARSER_BEGINNING, and is called only for a longer string
   or reply. NULL stands for REPLY_PARSER_BEGINNING. */
void reply_parser_init(struct reply_parser *self, size_t (*largest_string)(void));

/* Idempotent; reply_parser_init makes it usable again. */
void reply_parser_release(struct reply_parser *self);

/* Parses the bytes from *at on, up to the end of a reply, and moves *at. Returns the reply, which
   is valid until the next call, or NULL after the last byte and after a protocol error. */
const struct reply *reply_parser_next(struct reply_parser *self, const char **at, const char *end);
