#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdint.h>

/*
 * The log on stderr, one line per fact:
 *   12:00:00.123 INFO  job=pipe-42 step=11111111 exit=0 in 12ms `git status`
 * Times are UTC. Control characters below U+0020, and bytes that are not UTF-8, are written as
 * \xNN, those from U+007F to U+009F as \u00NN. So a fact stays one line, a command cannot control
 * the reader's terminal, and JSON in a line keeps its meaning: it has escaped those below U+0020
 * itself. Each line is one write(2), a long one a write per PIPE_BUF bytes.
 *
 * Secrets are masked in a message (base/mask.h) before anything else is done with it.
 *
 * The log never delays the agent: a line that a full pipe does not take at once is dropped, and
 * counted in a line of its own as soon as there is room. At the end of the agent's life lines may
 * wait: all lines with the same `wait_until_ms` wait until then together, however many they are.
 *
 * With LOG_JSON a line is an object, and a step's id is whole:
 *   {"time":"2026-05-05T12:00:00.123Z","level":"info","job":"pipe-42","step":"1…","message":"…"}
 */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct masker;

enum log_format { LOG_TEXT, LOG_JSON };

struct log {
  enum log_level least; /* lines below are not written */
  const char *job;      /* NULL before it is known */
  int fd;
  int64_t wait_until_ms;  /* monotonic (base/clock.h): lines wait for a reader; 0: they do not */
  unsigned long *dropped; /* how many since the last line that was not; NULL: not counted */
  enum log_format format;
  const char *traceparent; /* of what the lines are about, for LOG_JSON; NULL: none */
  struct masker *masker;   /* of what is written; NULL: nothing is masked */
};

/* `step_id` may be NULL; the line has its first eight bytes. */
void log_line(const struct log *self, enum log_level level, const char *step_id, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

/* A line without time, level and job, whatever `least` is: where another program's log is to be
   read. With LOG_JSON an object as all lines. */
void log_plain(const struct log *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
