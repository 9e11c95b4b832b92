#ifndef AGENT_ENGINE_CAPTURE_H
#define AGENT_ENGINE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Keeps of a step's output what its StepResult shows: the beginning of stdout (outputContent), and
 * the end of both streams in the order in which they were read (errorMessage). Its memory is
 * bounded whatever the command prints.
 */

/* A command's outputContent takes lines until it has so many UTF-16 units (wire/PROTOCOL.md): a
   server knows by its length that it was cut. Before JSON encoding it has at most three times as
   many bytes, and those of a piece of a line. */
#define CAPTURE_HEAD_UNITS ((size_t)1000000)

/* The same for a kind that writes its content itself (capture_content_space): more than any of them
   writes. What is beyond it is dropped. */
#define CAPTURE_CONTENT_MAX ((size_t)32 * 1024 * 1024)

/* The longest errorMessage, in bytes before JSON encoding (wire/PROTOCOL.md). */
#define CAPTURE_TAIL_MAX ((size_t)8192)

struct capture {
  char *head;
  size_t head_length;
  size_t head_capacity;
  size_t head_counted; /* bytes whose units were counted */
  size_t head_units;
  bool head_full;
  char *tail; /* when it is full, its last CAPTURE_TAIL_MAX bytes move to the front */
  size_t tail_length;
};

void capture_init(struct capture *self);
void capture_release(struct capture *self);

/* Adds the text of a line and, unless it is partial, a "\n". Aborts when out of memory. */
void capture_add(struct capture *self, bool from_stdout, const char *text, size_t length,
                 bool partial);

/* Returns room, at least CAPTURE_CONTENT_READ bytes, to read what goes into outputContent alone;
   `length` bytes were written there. */
#define CAPTURE_CONTENT_READ ((size_t)64 * 1024)
char *capture_content_space(struct capture *self, size_t *size);
void capture_content_filled(struct capture *self, size_t length);

/* Returns the beginning of stdout, which ends with a line or a piece of one; NULL when there was
   none. Valid until the next call that adds. */
const char *capture_head(const struct capture *self, size_t *length);

/* Returns the end of both streams, without the last "\n", cut at a UTF-8 boundary; NULL when there
   was no output. Valid until the next call that adds. */
const char *capture_tail(const struct capture *self, size_t *length);

#endif
