#pragma once

#include <stdint.h>

/*
 * Writes the log to stderr, one line for each fact, or one JSON object with LOG_JSON:
 *   12:00:00.123 INFO  job=pipe-42 step=11111111 exit=0 in 12ms `git status`
 *   {"time":"2026-05-05T12:00:00.123Z","level":"info","job":"pipe-42","step":"1…","message":"…"}
 *
 * Control characters below U+0020 and bytes that are not UTF-8 become \xNN; those from U+007F to
 * U+009F become \u00NN. A fact therefore stays one line, a command cannot control the reader's
 * terminal, and JSON within a line stays valid. Secrets are masked first (mask.h).
 *
 * The log never delays the agent: if a full pipe does not take a line at once, the line is dropped
 * and counted, and a later line reports the count. While the agent shuts down, lines wait.
 */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

enum log_format { LOG_TEXT, LOG_JSON };

struct masker;

struct log {
  enum log_level least; /* lower levels are not written */
  const char *job;      /* NULL until it is known */
  int fd;
  int64_t wait_until_ms;  /* until when lines wait, on the monotonic clock; 0 if they do not */
  unsigned long *dropped; /* lines since the last one that was written; NULL: not counted */
  enum log_format format;
  const char *traceparent; /* the trace that the lines belong to, for LOG_JSON; NULL: none */
  struct masker *masker;   /* NULL: nothing is masked */
};

/* `step_id` may be NULL; a text line has its first eight bytes. */
void log_line(const struct log *self, enum log_level level, const char *step_id, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

/* Writes a line without time, level and job, whatever `least` is, for readers that expect another
   program's log. With LOG_JSON it is an object like any other line. */
void log_plain(const struct log *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
