#ifndef WIRE_JSON_H
#define WIRE_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/* --- tokens --- */

/*
 * The tokens of text that may be anything: hostile, broken, or still on its way. No grammar but
 * that of a token, so that a reader may go on behind what is broken. Linear, without recursion or
 * allocation.
 *
 *   struct json_text text = {.bytes = bytes, .length = length};
 *   while ((state = json_text_next(&text)) != JSON_TEXT_SHORT)
 *     when it is JSON_TEXT_WHOLE: text.token, from text.start to text.at
 *
 * When more bytes have come after JSON_TEXT_SHORT, set `bytes` and `length` to all of them, and go
 * on.
 */
enum json_text_state {
  JSON_TEXT_WHOLE,
  JSON_TEXT_SHORT, /* the text ends within the token, or before it; a number may always go on */
  JSON_TEXT_BROKEN /* `fault`; the next call goes on behind that, if need be within the string */
};

/* What no bytes more can mend; of a text that is short, what is wrong when none come. */
enum json_text_fault {
  JSON_TEXT_FINE,
  JSON_TEXT_ESCAPE, /* another letter than those of escapes */
  JSON_TEXT_OTHER,  /* what begins no token, or no more than begins true, false or null */
  JSON_TEXT_UTF8,
  JSON_TEXT_CONTROL,   /* a raw control character */
  JSON_TEXT_HEX,       /* a \u without four digits */
  JSON_TEXT_SURROGATE, /* one half of a pair without the other */
  JSON_TEXT_NUMBER,
  JSON_TEXT_DEEP, /* a bracket beyond JSON_TEXT_DEPTH_MAX */
  JSON_TEXT_MANY  /* of a tree: JSON_TEXT_VALUES_MAX */
};

/* The deepest nesting of brackets; the default of System.Text.Json, which writes the servers'
   steps. */
#define JSON_TEXT_DEPTH_MAX 64

/* The most values, containers included. cJSON takes some 80 bytes for each, 16 MB for all. Linux
   gives arguments and environment 2 MiB where the stack has its usual limit: so many leave 10 bytes
   to each, of which its pointer takes 8. */
#define JSON_TEXT_VALUES_MAX 200000

struct json_text {
  const char *bytes;
  size_t length;
  size_t at;    /* behind what was read */
  size_t depth; /* open brackets of either kind, this token included */
  size_t start; /* of the token */
  char token;   /* one of {}[]:," or 0: a number, a: true, false or null, ?: none; '\0': the end */
  bool is_open; /* within a string */
  bool has_nul; /* a string has an escaped NUL */
  enum json_text_fault fault; /* unless the token is whole: */
  size_t part;   /* the character, escape, number or bracket that has it begins here, */
  size_t wrong;  /* and the byte of it that is wrong */
  size_t values; /* so far; the outermost one only when it is a container */
};

enum json_text_state json_text_next(struct json_text *self);

/* Finds where the first value of a stream ends, of which `bytes` are all that has come so far: an
   object or an array ends with its last bracket, a string with its last quote, null, true and false
   with their last letter, a number with its line. What can begin no value ends at once: there is
   nothing to wait for. Does not say whether it is JSON. A byte order mark in front is part of the
   value. True when it ends, with its length. `self` is zero at first. */
bool json_text_ends(struct json_text *self, const char *bytes, size_t length, size_t *extent);

/* Whether a text is a JSON object, or can become one with more bytes: what another program is still
   writing. A byte order mark may be in front. Does not check numbers. `*wrong`: what is wrong when
   it is broken. */
enum json_text_state json_text_object(const char *bytes, size_t length, size_t *wrong);

/*
 * The members of these names that the outermost object has, as far as they can be read in text that
 * may be broken, or too long to be held: who sent a request that cannot be parsed is found in it.
 * The text may come in pieces. Takes time in proportion to the text, and memory for `members`.
 *
 *   struct json_outline outline = {.names = names};
 *   done = json_outline_add(&outline, bytes, length)    the next call begins behind these
 *     ...
 *   outline.members                                     an object, or empty: none was found
 *   buffer_release(&outline.members)
 *
 * Only strings, numbers, true, false and null that are whole are copied, each as it stands; a name
 * is found when it is written without escapes. What would make `members` longer than
 * JSON_OUTLINE_MAX is left out.
 */
#define JSON_OUTLINE_MAX ((size_t)8192)

enum json_outline_place { JSON_OUTLINE_BEFORE, JSON_OUTLINE_INSIDE, JSON_OUTLINE_BEHIND };

struct json_outline {
  const char *const *names; /* ended by NULL */
  struct buffer members;    /* the rest is json_outline's own */
  struct json_text text;
  enum json_outline_place place; /* in the object */
  const char *name;              /* one of `names`, which was read; */
  bool has_colon;                /* its colon, too */
  bool is_long;                  /* an open string, whose beginning is not held */
};

size_t json_outline_add(struct json_outline *self, const char *bytes, size_t length);

/* --- trees, and members as they stand --- */

/* The largest whole number that cJSON, which reads a double, tells from all others: 2^53 could have
   been 2^53 + 1. */
#define JSON_EXACT_MAX 9007199254740991.0

/*
 * Text as a tree of cJSON: one value and nothing after it. cJSON decides whether hostile text is
 * JSON; before that is refused what cJSON would accept wrongly or at too high a cost.
 * Names may be there twice: see step_field_names_unique.
 *
 * Returns the tree, for cJSON_Delete, or NULL with the error, which names no subject.
 */
cJSON *json_tree_parse(const char *text, size_t length, struct error *error);

/* The same; says how many values there are, containers included, when they are a tree. */
cJSON *json_tree_parse_counted(const char *text, size_t length, size_t *values,
                               struct error *error);

/* cJSON's strings end at the first NUL. In those of the tree this stands for each: an overlong form
   that is never UTF-8, and so for a NUL and nothing else. A reader rejects the string, or puts the
   NULs back and keeps the length. */
#define JSON_TREE_NUL "\xC0\x80"

/* Puts them back, in place; returns the length of the string, without the last NUL. */
size_t json_tree_unmark_nul(char *text);

/* The text of one member's value as it stands in an object's JSON, so that it can be given back
   byte for byte: an id of more digits than a double has, or of escapes, is echoed as it came. */
struct json_member {
  const char *text; /* inside the object's; white space around it is not part of it */
  size_t length;
};

/* Finds the member of the outermost object that has this name, which may be written with escapes.
   Of several it is the first, as for cJSON. Returns false when there is none, or the text is not an
   object. Linear, without recursion. The text must have been parsed: in what is no JSON it finds
   something or nothing, within the text. */
bool json_member_find(const char *json, size_t length, const char *name, struct json_member *out);

/* The next element of the array that the text is, which must have been parsed; false when there is
   none any more. */
bool json_element_next(struct json_text *array, struct json_member *out);

#endif
