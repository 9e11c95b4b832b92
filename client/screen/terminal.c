#include "client/screen/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "client/exit_code.h"

/* After a signal, a reader that has read nothing for this time is not waited for. */
#define HURRY_MS 1000

/* Another program may write to the same pipe or terminal, and fill it between poll(2) and write(2).
   So that a write never blocks, the file is opened again: O_NONBLOCK of the descriptor that this
   program got would also concern the other programs that have it. If that is not possible, as for a
   pipe of another user, PIPE_BUF bytes are written at a time: a pipe that is writable takes them,
   unless another program is faster. */
static void open_stream(struct terminal_stream *self, int fd) {
  char path[32];
  struct stat status = {0};
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  (void)fstat(fd, &status);
  const bool is_file = S_ISREG(status.st_mode), is_socket = S_ISSOCK(status.st_mode);
  const bool was_closed = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY; /* main.c opened it */
  const int opened = is_file || is_socket || was_closed
                         ? -1
                         : open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  const bool blocks = opened < 0 && !is_file && !is_socket;
  *self = (struct terminal_stream){.fd = opened >= 0 ? opened : fd,
                                   .is_socket = is_socket,
                                   .stuck_ms = INT64_MAX,
                                   .piece_max = blocks ? PIPE_BUF : SIZE_MAX};
}

static bool is_one_file(void) {
  struct stat out, err;
  return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
         out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

void terminal_init(struct terminal *self) {
  *self = (struct terminal){.is_one_file = is_one_file()};
  for (int i = 0; i < 2; i++) {
    const int fd = i == 0 ? STDOUT_FILENO : STDERR_FILENO;
    self->is_tty[i] = isatty(fd);
    open_stream(&self->streams[i], fd);
  }
  terminal_set_colors(self, TERMINAL_AUTO);
}

static struct terminal_stream *stream_of(struct terminal *self, bool to_stderr) {
  return &self->streams[to_stderr && !self->is_one_file];
}

void terminal_set_colors(struct terminal *self, enum terminal_colors colors) {
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  const bool is_wanted =
      (no_color == NULL || no_color[0] == '\0') && (term == NULL || strcmp(term, "dumb") != 0);
  for (int i = 0; i < 2; i++)
    self->has_colors[i] =
        colors == TERMINAL_ALWAYS || (colors == TERMINAL_AUTO && is_wanted && self->is_tty[i]);
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

static void put_visible(struct terminal_stream *out, const char *text, size_t length) {
  for (size_t at = 0, piece; at < length; at += piece) {
    const enum terminal_piece kind = terminal_next(text + at, length - at, &piece);
    if (kind == PIECE_COLOR)
      out->is_colored = piece + 1 != sizeof reset || memcmp(text + at, reset, piece) != 0;
    if (kind == PIECE_CONTROL)
      buffer_add_string(&out->bytes, UTF8_REPLACEMENT);
    else
      buffer_add(&out->bytes, text + at, piece);
  }
}

void terminal_reset_colors(struct terminal *self) {
  for (int i = 0; i < 2; i++) {
    if (self->streams[i].is_colored)
      terminal_put_raw(self, i == 1, reset);
    self->streams[i].is_colored = false;
  }
}

int terminal_put(struct terminal *self, bool to_stderr, const char *bytes, size_t length) {
  struct terminal_stream *stream = stream_of(self, to_stderr);
  terminal_status(self, "");
  if (self->is_tty[to_stderr])
    put_visible(stream, bytes, length);
  else
    buffer_add(&stream->bytes, bytes, length);
  return stream->failure != 0 ? -1 : 0;
}

void terminal_put_raw(struct terminal *self, bool to_stderr, const char *text) {
  buffer_add_string(&stream_of(self, to_stderr)->bytes, text);
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

/* --- writing ---------------------------------------------------------------------------------- */

static bool is_behind(const struct terminal_stream *self) {
  return self->written < self->bytes.length;
}

/* Returns the number of bytes that were written; 0: it would block; -1: an error. */
static ssize_t write_piece(struct terminal_stream *self) {
  struct pollfd out = {.fd = self->fd, .events = POLLOUT};
  const size_t left = self->bytes.length - self->written;
  const size_t size = left < self->piece_max ? left : self->piece_max;
  const char *bytes = self->bytes.bytes + self->written;
  if (poll(&out, 1, 0) <= 0)
    return 0;
  const ssize_t count = self->is_socket ? send(self->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                                        : write(self->fd, bytes, size);
  return count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : count;
}

/* Discards the bytes if they cannot be written. */
static int flush_stream(struct terminal *self, struct terminal_stream *stream) {
  const int64_t now_ms = clock_monotonic_ms();
  ssize_t count = 1;
  while (is_behind(stream) && (count = write_piece(stream)) > 0) {
    stream->written += (size_t)count;
    stream->stuck_ms = now_ms;
  }
  if (count > 0)
    stream->stuck_ms = INT64_MAX;
  else if (stream->stuck_ms > now_ms)
    stream->stuck_ms = now_ms;
  const bool is_gone = self->hurries && now_ms - stream->stuck_ms > HURRY_MS;
  const int failure = count < 0 ? errno : is_gone ? EPIPE : 0;
  stream->failure = stream->failure == 0 ? failure : stream->failure;
  if (failure != 0 || !is_behind(stream))
    stream->bytes.length = stream->written = 0;
  return failure != 0 ? -1 : 0;
}

int terminal_flush(struct terminal *self) {
  const int out = flush_stream(self, &self->streams[0]);
  const int err = flush_stream(self, &self->streams[1]);
  return out != 0 || err != 0 || self->streams[0].failure != 0 ? -1 : 0;
}

int terminal_behind(const struct terminal *self) {
  for (int i = 0; i < 2; i++)
    if (is_behind(&self->streams[i]))
      return self->streams[i].fd;
  return -1;
}

int terminal_drain(struct terminal *self) {
  int result = 0;
  do {
    struct pollfd out = {.fd = terminal_behind(self), .events = POLLOUT};
    (void)poll(&out, 1, out.fd < 0 ? 0 : self->hurries ? HURRY_MS + 1 : -1);
    result |= terminal_flush(self);
  } while (terminal_behind(self) >= 0);
  for (int i = 0; i < 2; i++)
    buffer_release(&self->streams[i].bytes);
  return result;
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
  struct buffer *out = &stream_of(self, true)->bytes;
  terminal_status(self, "");
  terminal_reset_colors(self);
  (void)vsnprintf(text, sizeof text, format, arguments);
  buffer_add_string(out, color != COLOR_NONE ? terminal_color(self, true, color) : "");
  buffer_add_string(out, head);
  if (self->is_tty[1])
    printable_add(out, text, strlen(text));
  else
    buffer_add_string(out, text);
  buffer_add_string(out, color != COLOR_NONE ? terminal_color(self, true, COLOR_NONE) : "");
  buffer_add_string(out, "\n");
  (void)terminal_flush(self);
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
    terminal_put_raw(self, true, " ");
}

void terminal_status(struct terminal *self, const char *text) {
  bool shows = text[0] != '\0';
  struct terminal_stream *stream = stream_of(self, true);
  if (!self->is_tty[1] || self->quiet || (shows ? is_behind(stream) : !self->has_status))
    return;
  const size_t length = strlen(text), columns = (size_t)terminal_width(self) - 1;
  terminal_put_raw(self, true, "\r\x1b[K");
  printable_add(&stream->bytes, text, length > columns ? utf8_cut(text, columns) : length);
  (void)terminal_flush(self);
  self->has_status = shows;
}
