#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/mask.h"
#include "base/memory.h"
#include "base/utf8.h"

/* Adds a byte as \x1b or \u009b. printf(3) would be slow: with --verbose, all output comes here. */
static void add_hex(struct buffer *out, const char *prefix, char byte) {
  static const char digits[] = "0123456789abcdef";
  const char hex[] = {digits[(unsigned char)byte >> 4], digits[(unsigned char)byte & 0xF]};
  buffer_add_string(out, prefix);
  buffer_add(out, hex, sizeof hex);
}

static void add_escaped(struct buffer *out, const char *text, size_t length) {
  for (const char *end = text + length; text < end;) {
    size_t character = utf8_sequence(text, (size_t)(end - text));
    if (character == 0 || (unsigned char)*text < 0x20)
      add_hex(out, "\\x", *text);
    else if (*text == 0x7f || (*text == '\xC2' && (unsigned char)text[1] < 0xA0))
      /* JSON allows U+007F to U+009F in a string, but some terminals obey them. The last byte is
         the number of the character. */
      add_hex(out, "\\u00", text[character - 1]);
    else
      buffer_add(out, text, character);
    text += character > 0 ? character : 1;
  }
}

static void add_field(struct buffer *out, const char *name, const char *value, size_t max) {
  buffer_add_string(out, name);
  add_escaped(out, value, strnlen(value, max));
  buffer_add_string(out, " ");
}

static void add_time(struct buffer *out, bool with_date) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  struct tm utc;
  (void)gmtime_r(&now.tv_sec, &utc);
  if (with_date)
    buffer_add_format(out, "%04d-%02d-%02dT", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
  buffer_add_format(out, "%02d:%02d:%02d.%03ld", utc.tm_hour, utc.tm_min, utc.tm_sec,
                    now.tv_nsec / 1000000);
}

static void add_member(struct buffer *out, const char *name, const char *value) {
  struct buffer json = {0};
  buffer_add_json(&json, value, strlen(value));
  buffer_add_format(out, "%s\"%s\":", out->length > 0 ? "," : "{", name);
  add_escaped(out, json.bytes, json.length);
  buffer_release(&json);
}

static void add_object(const struct log *self, struct buffer *out, enum log_level level,
                       const char *step_id, const char *message) {
  static const char levels[][6] = {"debug", "info", "warn", "error"};
  buffer_add_string(out, "{\"time\":\"");
  add_time(out, true);
  buffer_add_format(out, "Z\",\"level\":\"%s\"", levels[level]);
  if (self->job != NULL)
    add_member(out, "job", self->job);
  if (step_id != NULL)
    add_member(out, "step", step_id);
  add_member(out, "message", message);
  if (self->traceparent != NULL)
    add_member(out, "traceparent", self->traceparent);
  buffer_add_string(out, "}");
}

/* The descriptor may be shared with other processes and must not be made non-blocking. If poll(2)
   says that it is writable, a write of at most PIPE_BUF bytes does not block. */
static bool write_all(const struct log *self, const char *text, size_t length) {
  struct pollfd descriptor = {.fd = self->fd, .events = POLLOUT};
  while (length > 0) {
    int64_t left_ms = self->wait_until_ms > 0 ? self->wait_until_ms - clock_monotonic_ms() : 0;
    left_ms = left_ms < 0 ? 0 : left_ms < INT_MAX ? left_ms : INT_MAX;
    if (poll(&descriptor, 1, (int)left_ms) <= 0)
      return false;
    ssize_t written = write(self->fd, text, length < PIPE_BUF ? length : PIPE_BUF);
    if (written <= 0)
      return true; /* there is nowhere to report it */
    text += written;
    length -= (size_t)written;
  }
  return true;
}

/* Writes the line, after one that says how many were dropped if there were any. */
static void write_line(const struct log *self, struct buffer *line) {
  bool noted = self->dropped == NULL || *self->dropped == 0;
  if (!noted) {
    char note[64];
    struct buffer text = {0};
    (void)snprintf(note, sizeof note, "... %lu lines of the log were dropped", *self->dropped);
    if (self->format == LOG_JSON)
      add_object(self, &text, LOG_WARN, NULL, note);
    else
      buffer_add_string(&text, note);
    buffer_add_string(&text, "\n");
    noted = write_all(self, text.bytes, text.length);
    buffer_release(&text);
    *self->dropped *= !noted;
  }
  buffer_add_string(line, "\n");
  if ((!noted || !write_all(self, line->bytes, line->length)) && self->dropped != NULL)
    ++*self->dropped;
  buffer_release(line);
}

/* Masks the message and adds it to the line, or to an object, and writes that. */
__attribute__((format(printf, 5, 0))) static void
write_message(const struct log *self, enum log_level level, const char *step_id,
              struct buffer *line, const char *format, va_list arguments) {
  char *text = memory_format_list(format, arguments);
  mask_string(self->masker, text, false);
  if (self->format == LOG_JSON)
    add_object(self, line, level, step_id, text);
  else
    add_escaped(line, text, strlen(text));
  free(text);
  write_line(self, line);
}

void log_line(const struct log *self, enum log_level level, const char *step_id, const char *format,
              ...) {
  enum { JOB_MAX = 128, STEP_MAX = 8 };
  static const char levels[][7] = {"DEBUG ", "INFO  ", "WARN  ", "ERROR "};
  if (level < self->least)
    return;
  struct buffer line = {0};
  if (self->format == LOG_TEXT) {
    add_time(&line, false);
    buffer_add_format(&line, " %s", levels[level]);
    if (self->job != NULL)
      add_field(&line, "job=", self->job, JOB_MAX);
    if (step_id != NULL)
      add_field(&line, "step=", step_id, STEP_MAX);
  }
  va_list arguments;
  va_start(arguments, format);
  write_message(self, level, step_id, &line, format, arguments);
  va_end(arguments);
}

void log_plain(const struct log *self, const char *format, ...) {
  struct buffer line = {0};
  va_list arguments;
  va_start(arguments, format);
  write_message(self, LOG_INFO, NULL, &line, format, arguments);
  va_end(arguments);
}
