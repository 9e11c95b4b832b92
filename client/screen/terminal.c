#include "client/screen/terminal.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "client/exit_code.h"

#define BUFFER_SIZE ((size_t)64 * 1024)

void terminal_init(struct terminal *self, enum terminal_colors colors, bool quiet) {
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  const bool is_wanted =
      (no_color == NULL || no_color[0] == '\0') && (term == NULL || strcmp(term, "dumb") != 0);
  *self = (struct terminal){.quiet = quiet};
  for (int i = 0; i < 2; i++) {
    self->is_tty[i] = isatty(i == 0 ? STDOUT_FILENO : STDERR_FILENO);
    self->has_colors[i] =
        colors == TERMINAL_ALWAYS || (colors == TERMINAL_AUTO && is_wanted && self->is_tty[i]);
  }
}

/* musl buffers 1 KiB of stdout and nothing of stderr. */
void terminal_buffer(void) {
  static char out[BUFFER_SIZE], err[BUFFER_SIZE];
  (void)setvbuf(stdout, out, _IOFBF, sizeof out);
  (void)setvbuf(stderr, err, _IOFBF, sizeof err);
}

int terminal_width(const struct terminal *self) {
  const char *columns = getenv("COLUMNS");
  struct winsize size = {0};
  int width = columns != NULL ? (int)strtol(columns, NULL, 10) : 0;
  if (width <= 0 && self->is_tty[0] && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
    width = size.ws_col;
  return width > 0 ? width : 80;
}

const char *terminal_color(const struct terminal *self, bool to_stderr, enum terminal_color color) {
  static const char *const sequences[] = {"\x1b[0m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[2m"};
  return self->has_colors[to_stderr] ? sequences[color] : "";
}

/* Returns the length of the color sequence at the beginning of the text; 0: there is none. */
static size_t color_sequence(const char *text, size_t length) {
  size_t at = 2;
  if (length < 3 || text[0] != '\x1b' || text[1] != '[')
    return 0;
  while (at < length &&
         ((text[at] >= '0' && text[at] <= '9') || text[at] == ';' || text[at] == ':'))
    at++;
  return at < length && text[at] == 'm' ? at + 1 : 0;
}

static bool is_control(const char *text, size_t sequence) {
  unsigned char byte = (unsigned char)*text;
  if (sequence == 1)
    return (byte < 0x20 && byte != '\t' && byte != '\n') || byte == 0x7F;
  return sequence == 0 || (byte == 0xC2 && (unsigned char)text[1] < 0xA0);
}

enum terminal_piece terminal_next(const char *text, size_t length, size_t *piece) {
  size_t sequence = utf8_sequence(text, length);
  *piece = color_sequence(text, length);
  if (*piece > 0)
    return PIECE_COLOR;
  *piece = sequence > 0 ? sequence : 1;
  return is_control(text, sequence) ? PIECE_CONTROL : PIECE_TEXT;
}

static const char reset[] = "\x1b[0m";

static void put_visible(FILE *out, bool *is_colored, const char *text, size_t length) {
  for (size_t at = 0, piece; at < length; at += piece) {
    const enum terminal_piece kind = terminal_next(text + at, length - at, &piece);
    if (kind == PIECE_COLOR)
      *is_colored = piece + 1 != sizeof reset || memcmp(text + at, reset, piece) != 0;
    if (kind == PIECE_CONTROL)
      (void)fputs(UTF8_REPLACEMENT, out);
    else
      (void)fwrite(text + at, 1, piece, out);
  }
}

void terminal_reset_colors(struct terminal *self) {
  for (int i = 0; i < 2; i++) {
    if (self->is_colored[i])
      (void)fputs(reset, i == 0 ? stdout : stderr);
    self->is_colored[i] = false;
  }
}

int terminal_put(struct terminal *self, bool to_stderr, const char *bytes, size_t length) {
  FILE *out = to_stderr ? stderr : stdout;
  terminal_status(self, "");
  if (self->is_tty[to_stderr])
    put_visible(out, &self->is_colored[to_stderr], bytes, length);
  else if (length == 1)
    (void)putc(*bytes, out);
  else
    (void)fwrite(bytes, 1, length, out);
  return ferror(out) ? -1 : 0;
}

int terminal_put_json(struct terminal *self, const char *json, size_t length) {
  for (const char *at = json, *end = json + length, *stop; at < end; at = stop + (stop < end)) {
    stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop != NULL ? stop : end;
    if (terminal_put(self, false, at, (size_t)(stop - at)) != 0)
      return -1;
    if (stop < end)
      (void)terminal_put(self, false, " ", 1);
  }
  return terminal_put(self, false, "\n", 1);
}

int terminal_flush(struct terminal *self) {
  (void)self;
  return fflush(stdout) != 0 || fflush(stderr) != 0 || ferror(stdout) ? -1 : 0;
}

bool terminal_reader_is_gone(void) {
  struct pollfd out = {.fd = STDOUT_FILENO};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/* An agent's message may quote the step, and a name from Redis may hold anything. On a terminal, a
   message is therefore one line without colors of its own. */
__attribute__((format(printf, 4, 0))) static void put_message(struct terminal *self,
                                                              enum terminal_color color,
                                                              const char *head, const char *format,
                                                              va_list arguments) {
  char text[2048];
  struct buffer line = {0};
  terminal_status(self, "");
  terminal_reset_colors(self);
  (void)fflush(stdout);
  (void)vsnprintf(text, sizeof text, format, arguments);
  buffer_add_string(&line, color != COLOR_NONE ? terminal_color(self, true, color) : "");
  buffer_add_string(&line, head);
  if (self->is_tty[1])
    printable_add(&line, text, strlen(text));
  else
    buffer_add_string(&line, text);
  buffer_add_string(&line, color != COLOR_NONE ? terminal_color(self, true, COLOR_NONE) : "");
  buffer_add_string(&line, "\n");
  (void)fwrite(line.bytes, 1, line.length, stderr);
  (void)fflush(stderr);
  buffer_release(&line);
}

void terminal_error(struct terminal *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  put_message(self, COLOR_NONE, "sandbox: ", format, arguments);
  va_end(arguments);
}

int terminal_fail(struct terminal *self, const struct error *error) {
  terminal_error(self, "%s", error->text);
  return EXIT_CLIENT;
}

void terminal_say(struct terminal *self, enum terminal_color color, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!self->quiet)
    put_message(self, color, "", format, arguments);
  va_end(arguments);
}

void terminal_skip_key(struct terminal *self) {
  if (self->is_tty[1] && !self->quiet && !self->has_status)
    (void)fputs(" ", stderr);
}

void terminal_status(struct terminal *self, const char *text) {
  bool shows = text[0] != '\0';
  if (!self->is_tty[1] || self->quiet || (!shows && !self->has_status))
    return;
  const size_t length = strlen(text), columns = (size_t)terminal_width(self) - 1;
  struct buffer line = {0};
  printable_add(&line, text, length > columns ? utf8_cut(text, columns) : length);
  (void)fflush(stdout);
  (void)fprintf(stderr, "\r\x1b[K%.*s", (int)line.length, line.length > 0 ? line.bytes : "");
  (void)fflush(stderr);
  buffer_release(&line);
  self->has_status = shows;
}
