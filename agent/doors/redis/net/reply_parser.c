#include "agent/doors/redis/net/reply_parser.h"
#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Every status of a terse reader. Never written to, though hiredis' types cannot say so. */
static const redisReply well = {
    .type = REDIS_REPLY_STATUS, .str = (char *)(uintptr_t) "", .len = 0};

static void *create_string(const redisReadTask *task, char *text, size_t length) {
  const struct reply_parser *self = task->privdata;
  bool in_array = task->parent != NULL && task->parent->parent == NULL;
  if (self->discard_values && ((in_array && task->type == REDIS_REPLY_STRING) ||
                               (task->parent == NULL && task->type == REDIS_REPLY_STATUS)))
    return (void *)(uintptr_t)&well; /* in an array, nobody points to it */
  return self->original->createString(task, text, length);
}

static void free_object(void *object) {
  if (object != &well)
    freeReplyObject(object);
}

static redisReader *create_reader(struct reply_parser *self) {
  redisReader *reader = redisReaderCreate();
  if (reader == NULL)
    memory_exhausted("a buffer");
  self->original = reader->fn;
  self->functions = *reader->fn;
  self->functions.createString = create_string;
  self->functions.freeObject = free_object;
  reader->fn = &self->functions;
  reader->privdata = self;
  reader->maxelements = REPLY_PARSER_ELEMENTS_MAX;
  return reader;
}

void reply_parser_init(struct reply_parser *self, size_t largest_string) {
  *self = (struct reply_parser){.largest_string = largest_string};
  self->reader = create_reader(self);
}

void reply_parser_discard_values(struct reply_parser *self) {
  self->discard_values = true;
}

void reply_parser_free(redisReply *reply) {
  free_object(reply);
}

void reply_parser_release(struct reply_parser *self) {
  if (self->reader != NULL)
    redisReaderFree(self->reader);
  self->reader = NULL;
}

void reply_parser_feed(struct reply_parser *self, const char *bytes, size_t length) {
  size_t eaten = length < self->discard ? length : (size_t)self->discard;
  self->discard -= eaten;
  if (length > eaten && redisReaderFeed(self->reader, bytes + eaten, length - eaten) != REDIS_OK)
    memory_exhausted("a buffer");
}

/* A new reader, which will find the beginning of the string as if that were all. */
static void keep_beginning(struct reply_parser *self, const char *text) {
  redisReader *reader = create_reader(self);
  char head[32];
  int length = snprintf(head, sizeof head, "$%zu\r\n", REPLY_PARSER_BEGINNING);
  if (redisReaderFeed(reader, head, (size_t)length) != REDIS_OK ||
      redisReaderFeed(reader, text, REPLY_PARSER_BEGINNING) != REDIS_OK ||
      redisReaderFeed(reader, "\r\n", 2) != REDIS_OK)
    memory_exhausted("a buffer");
  redisReaderFree(self->reader);
  self->reader = reader;
}

/* While hiredis waits for the rest of a string it stands behind the type byte, at the length. */
static void refuse_large_string(struct reply_parser *self) {
  const redisReader *reader = self->reader;
  if (reader->ridx < 0 || reader->task[reader->ridx]->type != REDIS_REPLY_STRING)
    return;
  const char *text = reader->buf + reader->pos;
  const char *end = reader->buf + reader->len;
  unsigned long long length = 0;
  while (text < end && *text >= '0' && *text <= '9')
    length = length * 10 + (unsigned long long)(*text++ - '0');
  if (end - text < 2 || *text != '\r' || length <= self->largest_string)
    return; /* a whole line that hiredis has passed: it is the number it seems to be */
  size_t there = (size_t)(end - text) - 2;
  if (there < REPLY_PARSER_BEGINNING)
    return; /* Redis may send the length and the string in packets of their own */
  self->discard = length + 2 - there; /* it ends with \r\n */
  self->too_large = true;
  keep_beginning(self, text + 2);
}

/* hiredis gives a large buffer back when more is fed; that may be a whole step later. */
static void give_memory_back(struct reply_parser *self) {
  const redisReader *reader = self->reader;
  if (reader->ridx >= 0 || reader->len > 0 || sdsalloc(reader->buf) <= reader->maxbuf)
    return;
  redisReaderFree(self->reader);
  self->reader = create_reader(self);
}

enum reply_parser_result reply_parser_next(struct reply_parser *self, redisReply **reply) {
  void *object = NULL;
  *reply = NULL;
  if (self->discard > 0)
    return REPLY_PARSER_MORE;
  if (redisReaderGetReply(self->reader, &object) != REDIS_OK)
    return REPLY_PARSER_BROKEN;
  *reply = object;
  if (object == NULL) {
    refuse_large_string(self);
    give_memory_back(self);
    return REPLY_PARSER_MORE;
  }
  bool too_large = self->too_large;
  self->too_large = false;
  return too_large ? REPLY_PARSER_TOO_LARGE : REPLY_PARSER_REPLY;
}

const char *reply_parser_error(const struct reply_parser *self) {
  return self->reader->errstr;
}
