#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdint.h>

/*
 * stderr, one line per fact:
 *   12:00:00.123 INFO  job=pipe-42 step=11111111 exit=0 in 12ms `git status`
 * Times are UTC. Control characters below U+0020, and bytes that are not UTF-8, are shown as \xNN,
 * those from U+007F to U+009F as \u00NN: a fact stays a line, a command cannot write to the
 * terminal of who reads the log, and JSON, which has the former escaped, stays JSON that means the
 * same. One write(2) per line, of a long one per PIPE_BUF bytes.
 *
 * Nobody waits for who reads it: a line that a full pipe would not take at once is dropped, and
 * counted in a line of its own as soon as there is room. Last words may wait: all that is said with
 * one `wait_until_ms` together, however much it is, waits until then and not longer.
 */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log {
  enum log_level least; /* lines below are not written */
  const char *job;      /* NULL before it is known */
  int fd;
  int64_t wait_until_ms;  /* monotonic (agent/clock.h): lines wait for a reader; 0: not at all */
  unsigned long *dropped; /* lines, since the last one that was not; NULL: not counted */
};

/* `step_id` may be NULL; its first eight bytes are shown. */
void log_line(const struct log *self, enum log_level level, const char *step_id, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

#endif
