#include "base/log.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/utf8.h"

#define LEVEL_LENGTH 5

static const char level_names[][LEVEL_LENGTH + 1] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
static_assert(sizeof level_names / sizeof *level_names == LOG_ERROR + 1, "each level has a name");

/* Formats into `buffer`, or, when that is too small, into memory that the caller frees. */
__attribute__((format(printf, 3, 0))) static char *
format_text(char *buffer, size_t size, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(buffer, size, format, arguments);
  char *text = buffer;
  if (length >= 0 && (size_t)length >= size) {
    text = memory_allocate((size_t)length + 1);
    (void)vsnprintf(text, (size_t)length + 1, format, again);
  }
  va_end(again);
  return text;
}

/* The most bytes that one byte is written as: DEL is \u007f. */
#define ESCAPED_MAX 6

static char *put_hex(char *out, const char *prefix, unsigned char value) {
  static const char digits[] = "0123456789abcdef";
  size_t length = strlen(prefix);
  memcpy(out, prefix, length);
  out += length;
  *out++ = digits[value >> 4];
  *out++ = digits[value & 15];
  return out;
}

/* U+007F to U+009F, which JSON allows in a string and some terminals take for controls. */
static bool is_late_control(const char *character) {
  unsigned char first = (unsigned char)character[0];
  return first == 0x7f || (first == 0xC2 && (unsigned char)character[1] < 0xA0);
}

static char *put_escaped(char *out, const char *text, size_t length) {
  const char *end = text + length;
  while (text < end) {
    size_t character = utf8_sequence(text, (size_t)(end - text));
    if (character == 0 || (unsigned char)*text < 0x20) {
      out = put_hex(out, "\\x", (unsigned char)*text++);
      continue;
    }
    if (is_late_control(text)) { /* its last byte is its number */
      out = put_hex(out, "\\u00", (unsigned char)text[character - 1]);
    } else {
      memcpy(out, text, character);
      out += character;
    }
    text += character;
  }
  return out;
}

static char *put_field(char *out, const char *name, const char *value, size_t max) {
  size_t length = strlen(name);
  memcpy(out, name, length);
  out = put_escaped(out + length, value, strnlen(value, max));
  *out++ = ' ';
  return out;
}

static size_t put_time(char *out, size_t size) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  struct tm utc;
  (void)gmtime_r(&now.tv_sec, &utc);
  return (size_t)snprintf(out, size, "%02d:%02d:%02d.%03ld ", utc.tm_hour, utc.tm_min, utc.tm_sec,
                          now.tv_nsec / 1000000);
}

/* Whether a write of up to PIPE_BUF bytes would not block. */
static bool has_room(const struct log *self) {
  int64_t left_ms = self->wait_until_ms > 0 ? self->wait_until_ms - clock_monotonic_ms() : 0;
  if (left_ms < 0)
    left_ms = 0;
  struct pollfd descriptor = {.fd = self->fd, .events = POLLOUT};
  return poll(&descriptor, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) > 0;
}

/* The descriptor may be shared with others, so that it must not be made non-blocking. */
static bool write_all(const struct log *self, const char *text, size_t length) {
  while (length > 0) {
    if (!has_room(self))
      return false;
    ssize_t written = write(self->fd, text, length < PIPE_BUF ? length : PIPE_BUF);
    if (written <= 0)
      return true; /* there is nowhere to report it */
    text += written;
    length -= (size_t)written;
  }
  return true;
}

static bool write_note(const struct log *self) {
  char note[64];
  int length =
      snprintf(note, sizeof note, "... %lu lines of the log were dropped\n", *self->dropped);
  if (!write_all(self, note, (size_t)length))
    return false;
  *self->dropped = 0;
  return true;
}

static void write_line(const struct log *self, const char *line, size_t length) {
  bool noted = self->dropped == NULL || *self->dropped == 0 || write_note(self);
  if ((!noted || !write_all(self, line, length)) && self->dropped != NULL)
    ++*self->dropped;
}

void log_line(const struct log *self, enum log_level level, const char *step_id, const char *format,
              ...) {
  if (level < self->least)
    return;
  enum { JOB_MAX = 128, STEP_MAX = 8, HEAD_SIZE = 64 + ESCAPED_MAX * (JOB_MAX + STEP_MAX) };
  char formatted[1024];
  va_list arguments;
  va_start(arguments, format);
  char *text = format_text(formatted, sizeof formatted, format, arguments);
  va_end(arguments);
  size_t length = strlen(text);
  char line_buffer[HEAD_SIZE + ESCAPED_MAX * sizeof formatted + 1];
  char *line =
      text == formatted ? line_buffer : memory_allocate(HEAD_SIZE + ESCAPED_MAX * length + 1);
  char *end = line + put_time(line, HEAD_SIZE);
  memcpy(end, level_names[level], LEVEL_LENGTH);
  end += LEVEL_LENGTH;
  *end++ = ' ';
  if (self->job != NULL)
    end = put_field(end, "job=", self->job, JOB_MAX);
  if (step_id != NULL)
    end = put_field(end, "step=", step_id, STEP_MAX);
  end = put_escaped(end, text, length);
  *end++ = '\n';
  CHECK((size_t)(end - line) <= HEAD_SIZE + ESCAPED_MAX * length + 1);
  write_line(self, line, (size_t)(end - line));
  if (text != formatted) {
    free(text);
    free(line);
  }
}

void log_plain(const struct log *self, const char *format, ...) {
  char formatted[1024];
  va_list arguments;
  va_start(arguments, format);
  char *text = format_text(formatted, sizeof formatted, format, arguments);
  va_end(arguments);
  size_t length = strlen(text);
  char *line = memory_allocate(ESCAPED_MAX * length + 1);
  char *end = put_escaped(line, text, length);
  *end++ = '\n';
  write_line(self, line, (size_t)(end - line));
  free(line);
  if (text != formatted)
    free(text);
}
