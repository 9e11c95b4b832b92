#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Reads JSON that is not trusted. All code that gets JSON from Redis, a host or a model uses it.
 * The hard part is that such text may be broken, incomplete, or made to take much time or memory.
 * Three parts follow: tokens, texts, and trees.
 */

/* --- tokens --- */

/* Reads the tokens of text that may be anything: untrusted, broken, or still arriving. It knows the
   grammar of tokens only, so that a reader can continue behind broken ones. Linear time, no
   recursion and no allocation. If more bytes arrive after JSON_TEXT_SHORT, set `bytes` and `length`
   to all of them and continue. */
enum json_text_state {
  JSON_TEXT_WHOLE,
  JSON_TEXT_SHORT, /* the text ends before or within the token; a number may always continue */
  JSON_TEXT_BROKEN /* see `fault`; the next call continues behind it, possibly within the string */
};

/* Why a token is broken or, in a short text, what would be wrong if no bytes followed. */
enum json_text_fault {
  JSON_TEXT_FINE,
  JSON_TEXT_ESCAPE, /* a backslash before a letter that is no escape */
  JSON_TEXT_OTHER,  /* a byte that begins no token, or an incomplete true, false or null */
  JSON_TEXT_UTF8,
  JSON_TEXT_CONTROL,   /* a raw control character */
  JSON_TEXT_HEX,       /* a \u without four digits */
  JSON_TEXT_SURROGATE, /* an unpaired surrogate */
  JSON_TEXT_NUMBER,
  JSON_TEXT_DEEP, /* a bracket beyond JSON_TEXT_DEPTH_MAX */
  JSON_TEXT_MANY  /* only for a tree: JSON_TEXT_VALUES_MAX */
};

/* The deepest nesting of brackets: the default of System.Text.Json, the servers' library. */
#define JSON_TEXT_DEPTH_MAX 64

/* The most values, containers included: cJSON takes some 80 bytes for each, and Linux limits
   arguments and environment to 2 MiB, of which a pointer takes 8 bytes for each. */
#define JSON_TEXT_VALUES_MAX 200000

struct json_text {
  const char *bytes;
  size_t length;
  size_t at;    /* behind the bytes that were read */
  size_t depth; /* open brackets of either kind, including this token */
  size_t start; /* of the token */
  /* one of {}[]:," or 0 (number), a (true, false, null), ? (no valid token), '\0' (end of text) */
  char token;
  bool is_open;               /* within a string */
  bool has_nul;               /* a string has an escaped NUL */
  enum json_text_fault fault; /* if the token is not whole, with: */
  size_t part;                /* where the faulty character, escape, number or bracket begins, */
  size_t wrong;               /* and the wrong byte of it */
  size_t values;              /* so far; the outermost value counts only if it is a container */
};

enum json_text_state json_text_next(struct json_text *self);

/* Finds the end of the first value of a stream; `bytes` are all that has arrived so far. A number
   ends with its line, and a byte that can begin no value at once, since nothing more needs to
   arrive. A leading byte order mark is part of the value. Whether the value is JSON is not checked.
   Returns true at the end and sets `*extent` to the length. `self` is zero at first. */
bool json_text_ends(struct json_text *self, const char *bytes, size_t length, size_t *extent);

/* Tells whether a text is a JSON object, or may become one because another program is still writing
   it. Allows a leading byte order mark and does not check numbers. If the text is broken, `*wrong`
   is the offset. */
enum json_text_state json_text_object(const char *bytes, size_t length, size_t *wrong);

/*
 * Collects the members with certain names of the outermost object, as far as they can be read from
 * text that may be broken, or too long to be held, so that a request that cannot be parsed can be
 * answered to its sender. The text may arrive in pieces: json_outline_add returns where the next
 * one begins. Takes linear time, and memory for `members`.
 *
 * Only whole strings, numbers, true, false and null are copied, unchanged; names are found only
 * without escapes. A member that would make `members` longer than JSON_OUTLINE_MAX is omitted.
 */
#define JSON_OUTLINE_MAX ((size_t)8192)

enum json_outline_place { JSON_OUTLINE_BEFORE, JSON_OUTLINE_INSIDE, JSON_OUTLINE_BEHIND };

struct json_outline {
  const char *const *names; /* ended by NULL */
  struct buffer members;    /* an object, or empty if none was found; the rest is private */
  struct json_text text;
  enum json_outline_place place; /* relative to the object */
  const char *name;              /* the last one of `names` that was read, */
  bool has_colon;                /* and its colon, too */
  bool is_long;                  /* within a string whose beginning was dropped */
};

size_t json_outline_add(struct json_outline *self, const char *bytes, size_t length);

/* --- trees, and members in their original text --- */

/* The largest whole number that is exact in cJSON, which reads doubles. */
#define JSON_EXACT_MAX 9007199254740991.0

/* Parses a text that is one value and nothing else into a cJSON tree. Untrusted text is checked
   first for what cJSON would accept wrongly or at too high a cost. Duplicate names are kept. Sets
   `*values` to the number of values, containers included. Returns the tree, which the caller frees
   with cJSON_Delete, or NULL with an error that names no subject. */
cJSON *json_tree_parse(const char *text, size_t length, struct error *error);
cJSON *json_tree_parse_counted(const char *text, size_t length, size_t *values,
                               struct error *error);

/* Stands for each NUL in the strings of a tree, because cJSON's strings end at the first NUL. As an
   overlong form it is never UTF-8, and so stands for nothing else. */
#define JSON_TREE_NUL "\xC0\x80"

/* Restores the NULs in place and returns the length of the string without its final NUL. */
size_t json_tree_unmark_nul(char *text);

/* The value of a member in the original text of an object, for echoing it byte for byte: an ID may
   have escapes, or more digits than a double. */
struct json_member {
  const char *text; /* within the text of the object, without white space around it */
  size_t length;
};

/* Finds the first member with this name, as cJSON does; the name may be written with escapes.
   Returns false if there is none or the text is not an object. The text must have been parsed; in
   other text the result is arbitrary, but within the text. */
bool json_member_find(const char *json, size_t length, const char *name, struct json_member *out);

/* Returns the next element of an array that has been parsed; false at the end. */
bool json_element_next(struct json_text *array, struct json_member *out);
