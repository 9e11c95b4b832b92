#ifndef AGENT_ENGINE_CAPTURE_H
#define AGENT_ENGINE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What a StepResult tells of the output: the beginning of stdout (outputContent) and the end of
 * both streams in the order in which they were read (errorMessage). Bounded whatever the command
 * prints.
 */

/* outputContent at the most, in bytes before JSON (the contract's 1,000,000). */
#define CAPTURE_HEAD_MAX ((size_t)1000000)

/* The same of a kind that makes it itself (capture_content_space): more than any of them makes.
 */
#define CAPTURE_CONTENT_MAX ((size_t)32 * 1024 * 1024)

/* errorMessage at the most, in bytes before JSON (the contract's 8 KiB). */
#define CAPTURE_TAIL_MAX ((size_t)8192)

struct capture {
  char *head;
  size_t head_length;
  size_t head_capacity;
  bool head_cut;
  char *tail; /* when it is full, what errorMessage may need moves to the front */
  size_t tail_length;
};

void capture_init(struct capture *self);
void capture_release(struct capture *self);

/* Adds a line's text and, unless it goes on, a "\n". Aborts when out of memory. */
void capture_add(struct capture *self, bool from_stdout, const char *text, size_t length,
                 bool partial);

/* Room, at least CAPTURE_CONTENT_READ bytes, to read what goes into outputContent alone; and so
   many bytes were put there. */
#define CAPTURE_CONTENT_READ ((size_t)64 * 1024)
char *capture_content_space(struct capture *self, size_t *size);
void capture_content_filled(struct capture *self, size_t length);

/* Stdout's beginning, cut at a UTF-8 boundary; NULL when there was none. Valid until the next add.
 */
const char *capture_head(const struct capture *self, size_t *length);

/* The end of both, without the last "\n", beginning at a UTF-8 boundary; NULL when there was no
   output. Valid until the next add. */
const char *capture_tail(const struct capture *self, size_t *length);

#endif
