/*
 * hiredis keeps every byte of a reply until the reply is whole, and has no bound for it. So each
 * byte is scanned before hiredis gets it. At the length of a string that is too large the parser
 * goes on with a new reader, which is given a shorter string instead; what the old one had of the
 * reply is freed with it.
 */
#include "agent/frontends/redis/connection/reply_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/swar.h"

/* The buffer is given back after a reply of more bytes than this: more than those to a batch. */
#define LARGE_REPLY ((size_t)64 * 1024)

/* Of an item whose number is none: "$-1", or nothing that hiredis accepts. */
#define NO_NUMBER UINT64_MAX

/* --- the scanner --- */

static void end_item(struct reply_scanner *self) {
  while (self->depth > 0 && --self->left[self->depth - 1] == 0)
    self->depth--;
  if (self->depth == 0)
    self->items = 0;
  self->state = SCAN_TYPE;
}

/* A byte that is no type is left to hiredis, which names it. */
static void begin_item(struct reply_scanner *self, char type) {
  if (self->items == 0)
    self->items = 1;
  self->type = type;
  self->number = 0;
  self->at_return = false;
  self->state = type == '$' || type == '*' ? SCAN_NUMBER : SCAN_LINE;
  switch (type) { /* a call of memchr(3) for each reply costs more */
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

/* At a line feed, of which hiredis takes only one after a carriage return for the end of a line. */
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

/* A call of memchr(3) costs more: lines are short. */
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

/* Scans one item, or what there is of it, but stops between the length of a string and its bytes,
   and at what it refuses. There is at least one byte. */
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

/* Every status of a parser that discards values. Never written to, though the types of hiredis
   cannot say so. */
static const redisReply discarded = {
    .type = REDIS_REPLY_STATUS, .str = (char *)(uintptr_t) "", .len = 0};

/* A reply that is no item of another one, and all that it consists of. */
struct whole_reply {
  struct arena arena;
  redisReply reply;
};

/* Attaches it to the array that it is an item of. */
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
    return (
        void *)(uintptr_t)&discarded; /* in an array: what it returns is only compared to NULL */
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

/* What the reader drops is freed with the arena. */
static void free_nothing(void *reply) {
  (void)reply;
}

/* What only RESP3 has is missing: the scanner refuses it. */
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
  struct arena arena = whole->arena; /* which lies in its own memory */
  if (self->reader == NULL) {
    arena_release(&arena);
  } else {
    arena_clear(&arena);
    self->arena = arena;
  }
}

/* `maxelements` is a field that the manual of hiredis documents for this use. The functions are not
   written to, though the types of hiredis cannot say so. */
static void renew_reader(struct reply_parser *self) {
  reply_parser_release(self);
  self->reader = redisReaderCreateWithFunctions((redisReplyObjectFunctions *)(uintptr_t)&functions);
  if (self->reader == NULL)
    memory_exhausted("a buffer");
  self->reader->privdata = self; /* what redisReaderSetPrivdata does, without its cast to int */
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

void reply_parser_discard_values(struct reply_parser *self) {
  self->discard_values = true;
}

void reply_parser_keep_memory(struct reply_parser *self) {
  self->keep_memory = true;
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

/* --- between them --- */

/* What hiredis may get of a reply, in bytes. */
static size_t largest_reply(const struct reply_parser *self) {
  size_t largest = self->largest_string();
  return largest < SIZE_MAX - REPLY_PARSER_REST_MAX ? largest + REPLY_PARSER_REST_MAX : SIZE_MAX;
}

/* After the length of a string that is too large, by itself or with what came before it, or where
   lines alone have become too much. */
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

/* Stops at the limit, and at what the scanner refuses: hiredis may have replies before it to give,
   or find that it is none. */
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

/* hiredis gives a large buffer back when more is fed; that may be a whole step later. After small
   replies, however many, the buffer is kept: it is needed again at once. */
static void give_memory_back(struct reply_parser *self) {
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
      give_memory_back(self);
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
