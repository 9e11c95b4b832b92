/*
 * hiredis keeps every byte of a reply until the reply is whole, without a bound, so each byte is
 * scanned before hiredis gets it. At the length of a string that is too large, the parser continues
 * with a new reader, which gets a shorter string instead; the old one is freed with its part of the
 * reply.
 */
#include "agent/frontends/redis/connection/reply_parser.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/swar.h"

/* The buffer is freed after a larger reply; the replies to a batch are smaller. */
#define LARGE_REPLY ((size_t)64 * 1024)

/* The number of an item that has none: "$-1", or text that hiredis rejects. */
#define NO_NUMBER UINT64_MAX

/* --- the scanner --- */

static void end_item(struct reply_scanner *self) {
  while (self->depth > 0 && --self->left[self->depth - 1] == 0)
    self->depth--;
  if (self->depth == 0)
    self->items = 0;
  self->state = SCAN_TYPE;
}

/* hiredis rejects and names bytes that are no type. */
static void begin_item(struct reply_scanner *self, char type) {
  if (self->items == 0)
    self->items = 1;
  self->type = type;
  self->number = 0;
  self->at_return = false;
  self->state = type == '$' || type == '*' ? SCAN_NUMBER : SCAN_LINE;
  switch (type) { /* faster than memchr(3) */
  case ',':
  case '_':
  case '#':
  case '=':
  case '(':
  case '%':
  case '~':
  case '>':
    self->refusal = "a reply of RESP3, which was not asked for";
  }
}

static void open_array(struct reply_scanner *self) {
  if (self->number > REPLY_PARSER_ITEMS_MAX - self->items) {
    self->refusal = "a reply with more items than were asked for";
  } else if (self->number == 0) {
    end_item(self);
  } else if (self->depth == REPLY_PARSER_DEPTH_MAX) {
    self->refusal = "a reply that is nested deeper than any that is asked for";
  } else {
    self->items += self->number;
    self->left[self->depth++] = self->number;
    self->state = SCAN_TYPE;
  }
}

static void end_number(struct reply_scanner *self) {
  if (self->number == NO_NUMBER) {
    end_item(self);
  } else if (self->type == '$') {
    self->number += 2;
    self->state = SCAN_STRING;
  } else {
    open_array(self);
  }
}

/* At a line feed. hiredis takes it for the end of a line only after a carriage return. */
static void end_line(struct reply_scanner *self) {
  if (!self->at_return)
    self->refusal = "a line that does not end as lines do";
  else if (self->state == SCAN_NUMBER)
    end_number(self);
  else
    end_item(self);
}

/* Moves to the end of the number's line, or of the bytes. */
static const char *scan_number(struct reply_scanner *self, const char *at, const char *end) {
  uint64_t number = self->number;
  bool at_return = self->at_return;
  for (; at < end && *at != '\n'; at++) {
    unsigned char digit = (unsigned char)(*at - '0');
    if (digit <= 9 && number < NO_NUMBER / 10)
      number = number * 10 + digit;
    else if (*at != '\r')
      number = NO_NUMBER;
    at_return = *at == '\r';
  }
  self->number = number;
  self->at_return = at_return;
  return at;
}

/* Lines are short, so this is faster than memchr(3). */
static const char *scan_line(struct reply_scanner *self, const char *at, const char *end) {
  const char *begin = at;
  uint64_t hits = 0;
  while ((size_t)(end - at) >= SWAR_SIZE && (hits = swar_equal(swar_load(at), '\n')) == 0)
    at += SWAR_SIZE;
  if (hits != 0)
    at += swar_first(hits);
  while (at < end && *at != '\n')
    at++;
  if (at > begin)
    self->at_return = at[-1] == '\r';
  return at;
}

static const char *scan_string(struct reply_scanner *self, const char *at, const char *end) {
  size_t length = (size_t)(end - at);
  if (length < self->number) {
    self->number -= length;
    return end;
  }
  at += self->number;
  end_item(self);
  return at;
}

/* Scans one item, or the part of it that has arrived; there is at least one byte. Stops between the
   length of a string and its bytes, and when it rejects the reply. */
static const char *scan(struct reply_scanner *self, const char *at, const char *end) {
  if (self->state == SCAN_TYPE)
    begin_item(self, *at++);
  if (self->refusal != NULL)
    return at;
  if (self->state == SCAN_STRING)
    return scan_string(self, at, end);
  at = self->state == SCAN_NUMBER ? scan_number(self, at, end) : scan_line(self, at, end);
  if (at == end)
    return at;
  end_line(self);
  return at + 1;
}

/* --- the reader --- */

/* Every status of a parser that discards values. Nobody writes to it, although it cannot be const
   for hiredis. */
static const redisReply discarded = {
    .type = REDIS_REPLY_STATUS, .str = (char *)(uintptr_t) "", .len = 0};

/* A reply that is not an item of another one, with the memory of all its items. */
struct whole_reply {
  struct arena arena;
  redisReply reply;
};

/* Makes a reply and attaches it to the array whose item it is. */
static redisReply *create_reply(const redisReadTask *task, int type) {
  struct reply_parser *self = task->privdata;
  const redisReadTask *parent = task->parent;
  redisReply *reply;
  if (parent == NULL) {
    struct whole_reply *whole = arena_allocate(&self->arena, sizeof *whole);
    reply = &whole->reply;
  } else {
    reply = arena_allocate(&self->arena, sizeof *reply);
    ((redisReply *)parent->obj)->element[task->idx] = reply;
  }
  *reply = (redisReply){.type = type};
  return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t length) {
  struct reply_parser *self = task->privdata;
  bool in_array = task->parent != NULL && task->parent->parent == NULL;
  if (self->discard_values && ((in_array && task->type == REDIS_REPLY_STRING) ||
                               (task->parent == NULL && task->type == REDIS_REPLY_STATUS)))
    return (void *)(uintptr_t)&discarded; /* hiredis only compares an item of an array to NULL */
  redisReply *reply = create_reply(task, task->type);
  reply->str = arena_allocate(&self->arena, length + 1);
  *swar_copy(reply->str, text, length) = '\0';
  reply->len = length;
  return reply;
}

static void *create_array(const redisReadTask *task, size_t elements) {
  struct reply_parser *self = task->privdata;
  redisReply *reply = create_reply(task, task->type);
  reply->elements = elements;
  const size_t size = elements * sizeof(void *); /* the scanner bounds them */
  if (size > 0)
    reply->element = memset(arena_allocate(&self->arena, size), 0, size);
  return reply;
}

static void *create_integer(const redisReadTask *task, long long value) {
  redisReply *reply = create_reply(task, REDIS_REPLY_INTEGER);
  reply->integer = value;
  return reply;
}

static void *create_nil(const redisReadTask *task) {
  return create_reply(task, REDIS_REPLY_NIL);
}

/* The arena frees the items. */
static void free_nothing(void *reply) {
  (void)reply;
}

/* The types of RESP3 are missing, because the scanner rejects them. */
static const redisReplyObjectFunctions functions = {.createString = create_string,
                                                    .createArray = create_array,
                                                    .createInteger = create_integer,
                                                    .createNil = create_nil,
                                                    .freeObject = free_nothing};

static redisReply *finish_reply(struct reply_parser *self, redisReply *reply) {
  if (reply == &discarded)
    return reply;
  struct whole_reply *whole = (void *)((char *)reply - offsetof(struct whole_reply, reply));
  whole->arena = self->arena;
  self->arena = (struct arena){0};
  return reply;
}

void reply_parser_free(struct reply_parser *self, redisReply *reply) {
  if (reply == &discarded)
    return;
  struct whole_reply *whole = (void *)((char *)reply - offsetof(struct whole_reply, reply));
  struct arena arena = whole->arena; /* a copy, because it lies in its own memory */
  if (self->reader == NULL) {
    arena_release(&arena);
  } else {
    arena_clear(&arena);
    self->arena = arena;
  }
}

/* The manual of hiredis documents `maxelements` for this use. */
static void renew_reader(struct reply_parser *self) {
  reply_parser_release(self);
  self->reader = redisReaderCreateWithFunctions((redisReplyObjectFunctions *)(uintptr_t)&functions);
  if (self->reader == NULL)
    memory_exhausted("a buffer");
  self->reader->privdata = self; /* redisReaderSetPrivdata casts it to int */
  self->reader->maxelements = REPLY_PARSER_ITEMS_MAX;
}

static void collect(struct reply_parser *self, const char *bytes, size_t length) {
  if (redisReaderFeed(self->reader, bytes, length) != REDIS_OK)
    memory_exhausted("a buffer");
}

void reply_parser_init(struct reply_parser *self, size_t (*largest_string)(void)) {
  *self = (struct reply_parser){.largest_string = largest_string};
  renew_reader(self);
}

void reply_parser_release(struct reply_parser *self) {
  if (self->reader != NULL)
    redisReaderFree(self->reader);
  self->reader = NULL;
  arena_release(&self->arena);
}

void reply_parser_feed(struct reply_parser *self, const char *bytes, size_t length) {
  self->input = bytes;
  self->input_length = length;
}

/* --- the scanner in front of the reader --- */

/* Returns the most bytes of a reply that hiredis may get. */
static size_t largest_reply(const struct reply_parser *self) {
  size_t largest = self->largest_string();
  return largest < SIZE_MAX - REPLY_PARSER_REST_MAX ? largest + REPLY_PARSER_REST_MAX : SIZE_MAX;
}

/* Returns true after the length of a string that is too large by itself or for the rest of the
   reply, and if lines alone have become too large. */
static bool is_at_limit(const struct reply_parser *self) {
  const struct reply_scanner *scanner = &self->scanner;
  const uint64_t string = scanner->state == SCAN_STRING ? scanner->number : 0;
  if (scanner->items == 0 ||
      (self->reply_size <= REPLY_PARSER_BEGINNING && string <= REPLY_PARSER_BEGINNING))
    return false;
  const size_t largest = largest_reply(self);
  if (self->reply_size > largest)
    return true;
  return string > 2 && (string - 2 > self->largest_string() || string > largest - self->reply_size);
}

/* Gives hiredis the input up to the limit, or up to a rejection: hiredis may have replies before
   that, or find an error itself. */
static void collect_input(struct reply_parser *self) {
  const char *at = self->input, *end = at + self->input_length;
  while (at < end && self->mode == REPLY_PARSER_COLLECTS && self->scanner.refusal == NULL) {
    const char *item = at;
    at = scan(&self->scanner, at, end);
    self->reply_size += (size_t)(at - item);
    bool in_line = self->scanner.state == SCAN_LINE || self->scanner.state == SCAN_NUMBER;
    self->line_size = in_line ? self->line_size + (size_t)(at - item) : 0;
    if (self->scanner.items == 0) {
      self->had_large_reply |= self->reply_size > LARGE_REPLY;
      self->reply_size = 0;
    }
    if (is_at_limit(self))
      self->mode = REPLY_PARSER_AT_LIMIT;
  }
  size_t length = (size_t)(at - self->input);
  collect(self, self->input, length);
  self->input += length;
  self->input_length -= length;
}

static void begin_discarding(struct reply_parser *self) {
  char head[32];
  uint64_t string = self->scanner.state == SCAN_STRING ? self->scanner.number - 2 : 0;
  self->beginning = string < REPLY_PARSER_BEGINNING ? (size_t)string : REPLY_PARSER_BEGINNING;
  int length = snprintf(head, sizeof head, "$%zu\r\n", self->beginning);
  renew_reader(self);
  collect(self, head, (size_t)length);
  self->mode = REPLY_PARSER_DISCARDS;
}

static void discard_input(struct reply_parser *self) {
  const char *at = self->input, *end = at + self->input_length;
  size_t length = self->input_length < self->beginning ? self->input_length : self->beginning;
  collect(self, at, length);
  self->beginning -= length;
  while (at < end && self->scanner.items > 0 && self->scanner.refusal == NULL)
    at = scan(&self->scanner, at, end);
  if (self->scanner.items == 0) {
    collect(self, "\r\n", 2);
    self->too_large = true;
    self->reply_size = 0;
    self->mode = REPLY_PARSER_COLLECTS;
  }
  self->input = at;
  self->input_length = (size_t)(end - at);
}

/* hiredis frees a large buffer only when more is fed, which may be a whole step later. The buffer
   of small replies is kept, because it is needed again at once. */
static void free_large_buffer(struct reply_parser *self) {
  if (self->scanner.items > 0 || !self->had_large_reply || self->keep_memory)
    return;
  renew_reader(self);
  self->had_large_reply = false;
}

enum reply_parser_result reply_parser_next(struct reply_parser *self, redisReply **reply) {
  void *object = NULL;
  *reply = NULL;
  while (redisReaderGetReply(self->reader, &object) == REDIS_OK) {
    if (object != NULL) {
      bool too_large = self->too_large;
      self->too_large = false;
      *reply = finish_reply(self, object);
      return too_large ? REPLY_PARSER_TRUNCATED : REPLY_PARSER_REPLY;
    }
    if (self->scanner.refusal != NULL || self->line_size > REPLY_PARSER_LINE_MAX)
      return REPLY_PARSER_BROKEN;
    if (self->mode == REPLY_PARSER_AT_LIMIT)
      begin_discarding(self);
    if (self->input_length == 0) {
      free_large_buffer(self);
      return REPLY_PARSER_MORE;
    }
    if (self->mode == REPLY_PARSER_DISCARDS)
      discard_input(self);
    else
      collect_input(self);
  }
  if (self->reader->err == REDIS_ERR_OOM)
    memory_exhausted("a reply");
  return REPLY_PARSER_BROKEN;
}

const char *reply_parser_error(const struct reply_parser *self) {
  if (self->reader->err != 0)
    return redisReaderGetError(self->reader);
  return self->scanner.refusal != NULL ? self->scanner.refusal : "a line without an end";
}

#define TEXT(number) #number
#define NUMBER(number) TEXT(number)

const char *reply_parser_library(void) {
  return "hiredis " NUMBER(HIREDIS_MAJOR) "." NUMBER(HIREDIS_MINOR) "." NUMBER(HIREDIS_PATCH);
}
