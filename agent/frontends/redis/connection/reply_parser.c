/*
 * A reply is built while it arrives: each line is parsed when it is whole, and the bytes of a
 * string are copied once, to their place in the arena. A truncated reply is followed to its end in
 * the same way, but its items are not made.
 */
#include "agent/frontends/redis/connection/reply_parser.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/swar.h"

/* The arena is released after a larger reply; the replies to a batch are smaller. */
#define LARGE_REPLY ((size_t)64 * 1024)

static void fail(struct reply_parser *self, const char *why) {
  (void)snprintf(self->error, sizeof self->error, "%s", why);
}

static bool is_truncated(const struct reply_parser *self) {
  return self->reply != NULL && self->reply->is_truncated;
}

/* Ends an item, and the arrays of which it is the last one. */
static void end_item(struct reply_parser *self) {
  while (self->depth > 0 && --self->open[self->depth - 1].left == 0)
    self->depth--;
  self->is_whole = self->depth == 0;
}

/* Makes the next item and puts it into its array. Returns NULL if the reply is truncated. */
static struct reply *add_item(struct reply_parser *self, enum reply_type type) {
  if (is_truncated(self))
    return NULL;
  struct reply *item = arena_allocate(&self->arena, sizeof *item);
  *item = (struct reply){.type = type};
  if (self->depth == 0) {
    self->reply = item;
  } else {
    const struct reply *array = self->open[self->depth - 1].array;
    array->element[array->elements - self->open[self->depth - 1].left] = item;
  }
  return item;
}

/* Gives a reply memory for a text of this length. */
static void reserve_text(struct reply_parser *self, struct reply *item, size_t length) {
  item->str = arena_allocate(&self->arena, length + 1);
  item->str[length] = '\0';
  item->len = length;
}

/* Returns true if a string of this length fits into the reply. */
static bool fits(const struct reply_parser *self, size_t length) {
  if (self->size <= REPLY_PARSER_BEGINNING && length <= REPLY_PARSER_BEGINNING)
    return true;
  const size_t largest =
      self->largest_string != NULL ? self->largest_string() : REPLY_PARSER_BEGINNING;
  const size_t most =
      largest < SIZE_MAX - REPLY_PARSER_REST_MAX ? largest + REPLY_PARSER_REST_MAX : SIZE_MAX;
  return length <= largest && self->size <= most && length <= most - self->size;
}

/* Replaces the reply by the beginning of a string of this length. */
static void truncate_reply(struct reply_parser *self, size_t length) {
  size_t beginning = length < REPLY_PARSER_BEGINNING ? length : REPLY_PARSER_BEGINNING;
  arena_release(&self->arena);
  self->reply = arena_allocate(&self->arena, sizeof *self->reply);
  *self->reply = (struct reply){.type = REPLY_STRING, .is_truncated = true};
  reserve_text(self, self->reply, beginning);
  self->string = self->reply->str;
  self->copied = beginning;
}

static void begin_string(struct reply_parser *self, size_t length) {
  self->left = length + 2;
  self->copied = 0;
  if (!is_truncated(self) && !fits(self, length))
    truncate_reply(self, length);
  if (is_truncated(self))
    return;
  if (self->discard_values && self->depth == 1) {
    if (length <= REPLY_PARSER_DISCARDED_MAX) {
      self->discarded[length] = '\0';
      self->string = self->discarded;
      self->copied = length;
    }
    return;
  }
  struct reply *item = add_item(self, REPLY_STRING);
  reserve_text(self, item, length);
  self->string = item->str;
  self->copied = length;
}

static void begin_array(struct reply_parser *self, size_t elements) {
  if (!is_truncated(self) && elements > REPLY_PARSER_ITEMS_MAX - self->items)
    truncate_reply(self, 0);
  if (elements > 0 && self->depth == REPLY_PARSER_DEPTH_MAX) {
    fail(self, "a reply is nested deeper than any reply of redis");
    return;
  }
  struct reply *array = add_item(self, REPLY_ARRAY);
  if (array != NULL)
    array->str = self->discarded;
  if (array != NULL && elements > 0) {
    const size_t size = elements * sizeof(struct reply *);
    array->element = memset(arena_allocate(&self->arena, size), 0, size);
    array->elements = elements;
  }
  if (elements == 0) {
    end_item(self);
    return;
  }
  self->items += is_truncated(self) ? 0 : elements;
  self->open[self->depth].array = array;
  self->open[self->depth++].left = elements;
}

static void add_text(struct reply_parser *self, enum reply_type type, const char *text,
                     size_t length) {
  bool is_discarded = self->discard_values && type == REPLY_STATUS && self->depth == 0;
  struct reply *item = add_item(self, type);
  if (item != NULL) {
    reserve_text(self, item, is_discarded ? 0 : length);
    (void)swar_copy(item->str, text, item->len);
  }
  end_item(self);
}

/* Returns false unless the text is a number as Redis writes it. */
static bool parse_number(const char *text, size_t length, long long *number) {
  bool is_negative = length > 0 && text[0] == '-';
  size_t digits = length - is_negative;
  uint64_t value = 0;
  if (digits == 0 || digits > 19 || (digits > 1 && text[is_negative] == '0'))
    return false;
  for (size_t i = is_negative; i < length; i++) {
    if (text[i] < '0' || text[i] > '9')
      return false;
    value = value * 10 + (uint64_t)(text[i] - '0');
  }
  if (value > LLONG_MAX)
    return false;
  *number = is_negative ? -(long long)value : (long long)value;
  return true;
}

/* Parses a line without its line feed. */
static void parse_line(struct reply_parser *self, const char *line, size_t length) {
  long long number = 0;
  const char type = line[0];
  if (length < 2 || line[length - 1] != '\r') {
    fail(self, "a line of a reply does not end with CR LF");
  } else if (type == '+' || type == '-') {
    add_text(self, type == '+' ? REPLY_STATUS : REPLY_ERROR, line + 1, length - 2);
  } else if (!parse_number(line + 1, length - 2, &number) || (type != ':' && number < -1)) {
    fail(self, "a reply has an invalid number");
  } else if (type == ':') {
    struct reply *item = add_item(self, REPLY_INTEGER);
    if (item != NULL)
      item->integer = number;
    end_item(self);
  } else if (number < 0) {
    (void)add_item(self, REPLY_NIL);
    end_item(self);
  } else if (type == '$') {
    begin_string(self, (size_t)number);
  } else {
    begin_array(self, (size_t)number);
  }
}

/* Checks the first byte of a line, so that another protocol is noticed without a whole line. */
static void check_type(struct reply_parser *self, char type) {
  if (strchr("+-:$*", type) != NULL && type != '\0')
    return;
  if (strchr("_#,(=%~>", type) != NULL && type != '\0')
    fail(self, "an unexpected reply of RESP3");
  else
    (void)snprintf(self->error, sizeof self->error,
                   type > ' ' && type <= '~' ? "Protocol error, got \"%c\" as reply type byte"
                                             : "Protocol error, got \"\\x%02x\" as reply type byte",
                   (unsigned char)type);
}

/* Returns the line feed, or the end. Lines are short, so this is faster than memchr(3). */
static const char *find_line_end(const char *at, const char *end) {
  uint64_t hits = 0;
  while ((size_t)(end - at) >= SWAR_SIZE && (hits = swar_equal(swar_load(at), '\n')) == 0)
    at += SWAR_SIZE;
  if (hits != 0)
    at += swar_first(hits);
  while (at < end && *at != '\n')
    at++;
  return at;
}

/* Takes a line, or the part of it that has arrived; there is at least one byte. */
static const char *take_line(struct reply_parser *self, const char *at, const char *end) {
  if (self->line.length == 0)
    check_type(self, *at);
  if (self->error[0] != '\0')
    return at;
  const char *feed = find_line_end(at, end);
  size_t length = (size_t)(feed - at);
  if (feed < end && self->line.length == 0) {
    parse_line(self, at, length);
    return feed + 1;
  }
  buffer_add(&self->line, at, length);
  if (self->line.length > REPLY_PARSER_LINE_MAX)
    fail(self, "a line of a reply is too long");
  if (feed == end || self->error[0] != '\0')
    return feed;
  parse_line(self, self->line.bytes, self->line.length);
  buffer_release(&self->line);
  return feed + 1;
}

/* Takes the bytes of a string, or the part of them that has arrived. */
static const char *take_string(struct reply_parser *self, const char *at, const char *end) {
  size_t length = (size_t)(end - at) < self->left ? (size_t)(end - at) : self->left;
  size_t copied = length < self->copied ? length : self->copied;
  if (copied > 0)
    self->string = swar_copy(self->string, at, copied);
  self->copied -= copied;
  self->left -= length;
  if (self->left == 0)
    end_item(self);
  return at + length;
}

void reply_parser_init(struct reply_parser *self, size_t (*largest_string)(void)) {
  *self = (struct reply_parser){.largest_string = largest_string};
}

void reply_parser_release(struct reply_parser *self) {
  buffer_release(&self->line);
  arena_release(&self->arena);
}

/* Forgets the reply that was returned last. A large one may be followed by none for a whole step,
   so its memory is not kept. */
static void begin_reply(struct reply_parser *self) {
  if (self->size > LARGE_REPLY && !self->keep_memory)
    arena_release(&self->arena);
  else
    arena_clear(&self->arena);
  self->reply = NULL;
  self->discarded[0] = '\0';
  self->is_whole = false;
  self->size = 0;
  self->items = 1;
}

const struct reply *reply_parser_next(struct reply_parser *self, const char **at, const char *end) {
  if (self->is_whole || self->items == 0)
    begin_reply(self);
  while (*at < end && !self->is_whole && self->error[0] == '\0') {
    const char *begin = *at;
    *at = self->left > 0 ? take_string(self, begin, end) : take_line(self, begin, end);
    self->size += (size_t)(*at - begin);
    if (!self->is_whole && !is_truncated(self) && !fits(self, 0))
      truncate_reply(self, 0);
  }
  return self->is_whole ? self->reply : NULL;
}
