#include "agent/redis/reply_reader.h"
#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Every status of a terse reader. Never written to, though hiredis' types cannot say so. */
static const redisReply well = {
    .type = REDIS_REPLY_STATUS, .str = (char *)(uintptr_t) "", .len = 0};

static void *create_string(const redisReadTask *task, char *text, size_t length) {
  const struct reply_reader *self = task->privdata;
  bool in_array = task->parent != NULL && task->parent->parent == NULL;
  if (self->terse && ((in_array && task->type == REDIS_REPLY_STRING) ||
                      (task->parent == NULL && task->type == REDIS_REPLY_STATUS)))
    return (void *)(uintptr_t)&well; /* in an array, nobody points to it */
  return self->original->createString(task, text, length);
}

static void free_object(void *object) {
  if (object != &well)
    freeReplyObject(object);
}

static redisReader *create_reader(struct reply_reader *self) {
  redisReader *reader = redisReaderCreate();
  if (reader == NULL)
    memory_exhausted("a buffer");
  self->original = reader->fn;
  self->functions = *reader->fn;
  self->functions.createString = create_string;
  self->functions.freeObject = free_object;
  reader->fn = &self->functions;
  reader->privdata = self;
  reader->maxelements = REPLY_READER_ELEMENTS_MAX;
  return reader;
}

void reply_reader_init(struct reply_reader *self, size_t largest_string) {
  *self = (struct reply_reader){.largest_string = largest_string};
  self->reader = create_reader(self);
}

void reply_reader_be_terse(struct reply_reader *self) {
  self->terse = true;
}

void reply_reader_free(redisReply *reply) {
  free_object(reply);
}

void reply_reader_release(struct reply_reader *self) {
  if (self->reader != NULL)
    redisReaderFree(self->reader);
  self->reader = NULL;
}

void reply_reader_feed(struct reply_reader *self, const char *bytes, size_t length) {
  size_t eaten = length < self->discard ? length : (size_t)self->discard;
  self->discard -= eaten;
  if (length > eaten && redisReaderFeed(self->reader, bytes + eaten, length - eaten) != REDIS_OK)
    memory_exhausted("a buffer");
}

/* A new reader, which will find the beginning of the string as if that were all. */
static void keep_beginning(struct reply_reader *self, const char *text) {
  redisReader *reader = create_reader(self);
  char head[32];
  int length = snprintf(head, sizeof head, "$%zu\r\n", REPLY_READER_BEGINNING);
  if (redisReaderFeed(reader, head, (size_t)length) != REDIS_OK ||
      redisReaderFeed(reader, text, REPLY_READER_BEGINNING) != REDIS_OK ||
      redisReaderFeed(reader, "\r\n", 2) != REDIS_OK)
    memory_exhausted("a buffer");
  redisReaderFree(self->reader);
  self->reader = reader;
}

/* While hiredis waits for the rest of a string it stands behind the type byte, at the length. */
static void refuse_large_string(struct reply_reader *self) {
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
  if (there < REPLY_READER_BEGINNING)
    return; /* Redis may send the length and the string in packets of their own */
  self->discard = length + 2 - there; /* it ends with \r\n */
  self->too_large = true;
  keep_beginning(self, text + 2);
}

/* hiredis gives a large buffer back when more is fed; that may be a whole step later. */
static void give_memory_back(struct reply_reader *self) {
  const redisReader *reader = self->reader;
  if (reader->ridx >= 0 || reader->len > 0 || sdsalloc(reader->buf) <= reader->maxbuf)
    return;
  redisReaderFree(self->reader);
  self->reader = create_reader(self);
}

enum reply_reader_result reply_reader_next(struct reply_reader *self, redisReply **reply) {
  void *object = NULL;
  *reply = NULL;
  if (self->discard > 0)
    return REPLY_READER_MORE;
  if (redisReaderGetReply(self->reader, &object) != REDIS_OK)
    return REPLY_READER_BROKEN;
  *reply = object;
  if (object == NULL) {
    refuse_large_string(self);
    give_memory_back(self);
    return REPLY_READER_MORE;
  }
  bool too_large = self->too_large;
  self->too_large = false;
  return too_large ? REPLY_READER_TOO_LARGE : REPLY_READER_REPLY;
}

const char *reply_reader_error(const struct reply_reader *self) {
  return self->reader->errstr;
}
