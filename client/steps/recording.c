/* Both formats are written while the events arrive. A page says at its beginning how the step
   ended, so space is reserved there and filled last. */
#include "client/steps/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/decimal.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "base/write_all.h"
#include "client/screen/terminal.h"

/* Bytes per write. */
#define CHUNK 65536

/* Bytes that a page reserves for its title and header, which are filled last. Each of their seven
   texts is cut to TEXT_MAX bytes, and one byte may become six ("&quot;"). */
#define HEADER_CAPACITY 6144
#define TEXT_MAX 100

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\""
    " content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
    "<link rel=\"icon\" href=\"data:,\">\n"
    "<style>\n"
    ":root{color-scheme:dark}\n"
    "body{margin:0;display:flex;flex-direction:column;height:100vh;background:#111;color:#ddd;"
    "font:14px/1.4 system-ui,sans-serif}\n"
    "header{padding:.6em 1em;border-bottom:1px solid #444;overflow-wrap:anywhere}\n"
    "h1{margin:0;font-size:1.1em}\n"
    "p{margin:.2em 0 0;color:#bbb}\n"
    "pre{flex:1;min-height:0;margin:0;padding:.6em 1em;overflow:auto;"
    "font:13px/1.45 ui-monospace,monospace;tab-size:8}\n"
    "pre>span{unicode-bidi:isolate}\n"
    "pre>span::before{display:inline-block;min-width:18ch;text-align:right;color:#999;"
    "font-style:normal;white-space:pre;user-select:none}\n"
    ".o::before{content:attr(data-t) \" out \xE2\x94\x82 \"}\n"
    ".e::before{content:attr(data-t) \" ERR \xE2\x94\x83 \"}\n"
    ".e{color:#ffb4a8;font-style:italic}\n"
    "em{color:#e5c07b}\n"
    ".b{font-weight:bold}\n";

/* The colors of xterm, with lighter black and blue for a black background. */
static const char *const colors[16] = {
    "#666", "#e06c75", "#7ec699", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ccc",
    "#888", "#ff7b86", "#a5e3b8", "#ffdb8a", "#8cc8ff", "#e2a3f5", "#7fdbe6", "#fff"};

/* --- texts ------------------------------------------------------------------------------------ */

/* Counts the bytes at the beginning that need no escape. */
static size_t plain_prefix(const char *text, size_t length) {
  size_t at = 0;
  while (at < length && text[at] >= ' ' && text[at] <= '~' && strchr("&<>\"", text[at]) == NULL)
    at++;
  return at;
}

static void add_escaped(struct buffer *out, const char *text, size_t length) {
  static const char specials[] = "&<>\"";
  static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
  for (size_t at = 0, piece; at < length; at += piece) {
    piece = plain_prefix(text + at, length - at);
    if (piece > 0) {
      buffer_add(out, text + at, piece);
      continue;
    }
    const enum terminal_piece what = terminal_next(text + at, length - at, &piece);
    const char *special = memchr(specials, text[at], sizeof specials - 1);
    if (what == PIECE_COLOR) /* add_colored handles the visible ones */
      piece = 1;
    if (what != PIECE_TEXT || text[at] == '\n')
      buffer_add_string(out, UTF8_REPLACEMENT);
    else if (special != NULL)
      buffer_add_string(out, entities[special - specials]);
    else
      buffer_add(out, text + at, piece);
  }
}

static void add_short(struct buffer *out, const char *markup, const char *text) {
  size_t length = strlen(text);
  buffer_add_string(out, markup);
  add_escaped(out, text, length > TEXT_MAX ? utf8_cut(text, TEXT_MAX) : length);
  buffer_add_string(out, length > TEXT_MAX ? "…" : "");
}

/* Adds "12.345". Each event has one, and printf(3) would take most of the time. */
static void add_seconds(struct buffer *out, int64_t ms) {
  uint64_t time_ms = ms > 0 ? (uint64_t)ms : 0;
  char *at = buffer_space(out, DECIMAL_LENGTH_MAX + 4), *end = decimal_write(at, time_ms / 1000);
  *end++ = '.';
  end = decimal_write_padded(end, time_ms % 1000, 3);
  out->length += (size_t)(end - at);
}

/* --- the file --------------------------------------------------------------------------------- */

static int fail(struct recording *self, struct error *error) {
  return error_set(error, "cannot write %.150s: %s", self->path, strerror(errno));
}

static int write_out(struct recording *self, size_t least, struct error *error) {
  if (self->text.length < least)
    return 0;
  if (write_all(self->file.fd, self->text.bytes, self->text.length) != 0)
    return fail(self, error);
  self->text.length = 0;
  return 0;
}

static bool is_same_file(const struct recording *other, int directory, const char *name) {
  struct stat theirs, ours;
  return strcmp(other->file.name, name) == 0 && fstat(other->directory, &theirs) == 0 &&
         fstat(directory, &ours) == 0 && theirs.st_dev == ours.st_dev &&
         theirs.st_ino == ours.st_ino;
}

/* Only a regular file is replaced; a link is followed. */
static int open_beside(struct recording *self, const char *path, const struct recording *other,
                       struct error *error) {
  struct stat status;
  char *real = realpath(path, NULL);
  self->path = real != NULL ? real : memory_copy(path, strlen(path));
  bool is_there = stat(self->path, &status) == 0 || lstat(self->path, &status) == 0;
  if (is_there && !S_ISREG(status.st_mode))
    return error_set(error, "cannot write %.150s: it is %s", path,
                     printable_file_kind(status.st_mode));
  const char *slash = strrchr(self->path, '/'), *name = slash != NULL ? slash + 1 : self->path;
  char *directory = slash == NULL         ? memory_copy(".", 1)
                    : slash == self->path ? memory_copy("/", 1)
                                          : memory_copy(self->path, (size_t)(slash - self->path));
  self->directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  free(directory);
  if (self->directory >= 0 && other != NULL && is_same_file(other, self->directory, name))
    return error_set(error, "cannot write %.150s: it is already being written", path);
  if (self->directory < 0 || staged_file_begin(&self->file, self->directory, name, 0666) != 0)
    return fail(self, error);
  return 0;
}

static void begin_page(struct buffer *out, size_t *header_at) {
  buffer_add_string(out, page_head);
  for (int i = 0; i < 16; i++)
    buffer_add_format(out, ".f%d{color:%s}.k%d{background:%s}\n", i, colors[i], i, colors[i]);
  buffer_add_string(out, "@media print{body{height:auto;background:#fff;color:#000}"
                         "pre{overflow:visible;white-space:pre-wrap}}\n"
                         "</style>\n");
  *header_at = out->length;
  memset(buffer_space(out, HEADER_CAPACITY), ' ', HEADER_CAPACITY);
  out->length += HEADER_CAPACITY;
  buffer_add_string(out,
                    "\n<p>Seconds since the beginning; <b>out</b> is standard output, <b>ERR</b> "
                    "standard error.</p>\n</header>\n<pre tabindex=\"0\">\n");
}

int recording_begin(struct recording *self, enum recording_format format, const char *path,
                    const struct recording *other, const char *job, const char *id,
                    struct error *error) {
  *self = RECORDING_NONE;
  self->format = format;
  self->job = job;
  self->id = id;
  for (int i = 0; i < 2; i++)
    self->sgr[i] = (struct sgr){.color = -1, .background = -1};
  if (open_beside(self, path, other, error) != 0)
    return -1;
  if (format == RECORDING_PAGE)
    begin_page(&self->text, &self->header_at);
  return 0;
}

/* --- colors ----------------------------------------------------------------------------------- */

static bool set_color(int *color, int value, int dark, int bright) {
  if (value >= dark && value < dark + 8)
    *color = value - dark;
  else if (value >= bright && value < bright + 8)
    *color = value - bright + 8;
  else if (value == dark + 9)
    *color = -1;
  else
    return false;
  return true;
}

/* Parses the rest of 38;5;N or 38;2;R;G;B, and returns how many numbers belong to it. */
static size_t parse_extended(int *color, const int *values, size_t count) {
  if (count > 1 && values[0] == 5 && values[1] >= 0 && values[1] < 16)
    *color = values[1];
  return count == 0 ? 0 : values[0] == 5 ? (count > 1 ? 2 : 1) : values[0] == 2 ? 4 : 0;
}

static void apply_numbers(struct sgr *sgr, const int *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int value = values[i];
    if (value == 0)
      *sgr = (struct sgr){.color = -1, .background = -1};
    else if (value == 1 || value == 22)
      sgr->bold = value == 1;
    else if (value == 38 || value == 48)
      i += parse_extended(value == 38 ? &sgr->color : &sgr->background, values + i + 1,
                          count - i - 1);
    else if (!set_color(&sgr->color, value, 30, 90))
      (void)set_color(&sgr->background, value, 40, 100);
  }
}

/* Parses "ESC [ 1 ; 31 m". Numbers with colons are ignored. */
static void apply_sequence(struct sgr *sgr, const char *text, size_t length) {
  int values[32];
  size_t count = 0;
  const char *at = text + 2, *end = text + length - 1;
  for (; at <= end && count < 32; at++) {
    const char *stop = at;
    while (*stop != ';' && *stop != 'm')
      stop++;
    values[count++] = memchr(at, ':', (size_t)(stop - at)) != NULL ? -1 : (int)strtol(at, NULL, 10);
    at = stop;
  }
  apply_numbers(sgr, values, count);
}

static bool is_plain(const struct sgr *sgr) {
  return !sgr->bold && sgr->color < 0 && sgr->background < 0;
}

static void open_color(struct buffer *out, const struct sgr *sgr) {
  const char *space = "";
  if (is_plain(sgr))
    return;
  buffer_add_string(out, "<span class=\"");
  if (sgr->bold)
    buffer_add_string(out, "b"), space = " ";
  if (sgr->color >= 0)
    buffer_add_format(out, "%sf%d", space, sgr->color), space = " ";
  if (sgr->background >= 0)
    buffer_add_format(out, "%sk%d", space, sgr->background);
  buffer_add_string(out, "\">");
}

static void close_color(struct buffer *out, const struct sgr *sgr) {
  buffer_add_string(out, is_plain(sgr) ? "" : "</span>");
}

static void add_colored(struct buffer *out, struct sgr *sgr, const char *text, size_t length) {
  size_t plain = 0, piece;
  open_color(out, sgr);
  for (size_t at = 0; at < length; at += piece) {
    if (terminal_next(text + at, length - at, &piece) != PIECE_COLOR)
      continue;
    add_escaped(out, text + plain, at - plain);
    close_color(out, sgr);
    apply_sequence(sgr, text + at, piece);
    open_color(out, sgr);
    plain = at + piece;
  }
  add_escaped(out, text + plain, length - plain);
  close_color(out, sgr);
}

/* --- events ----------------------------------------------------------------------------------- */

/* A player shows the title without escaping it. */
static void begin_cast(struct recording *self) {
  const char *const words[] = {self->job, self->id, self->command};
  struct buffer title = {0};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    buffer_add_string(&title, i > 0 && words[i][0] != '\0' ? " " : "");
    printable_add(&title, words[i], strlen(words[i]));
  }
  buffer_add_format(
      &self->text, "{\"version\":2,\"width\":80,\"height\":24,\"timestamp\":%" PRId64 ",\"title\":",
      self->first_ms / 1000);
  buffer_add_json(&self->text, title.bytes, title.length);
  buffer_add_string(&self->text, "}\n");
  buffer_release(&title);
}

static void add_cast(struct recording *self, const char *text, size_t length) {
  buffer_add_string(&self->text, "[");
  add_seconds(&self->text, self->now_ms - self->first_ms);
  buffer_add_string(&self->text, ",\"o\",");
  buffer_add_json(&self->text, text, length);
  buffer_add_string(&self->text, "]\n");
}

static void end_line(struct recording *self) {
  if (self->line != LINE_CLOSED && self->format == RECORDING_PAGE)
    buffer_add_string(&self->text, "</span>\n");
  else if (self->line != LINE_CLOSED)
    add_cast(self, "\r\n", 2);
  self->line = LINE_CLOSED;
}

static void add_page_line(struct recording *self, const struct event_view *view, bool is_new) {
  const bool is_stderr = self->line == LINE_STDERR;
  if (is_new) {
    buffer_add_string(&self->text,
                      is_stderr ? "<span class=\"e\" data-t=\"" : "<span class=\"o\" data-t=\"");
    add_seconds(&self->text, self->now_ms - self->first_ms);
    buffer_add_string(&self->text, "\">");
  }
  add_colored(&self->text, &self->sgr[is_stderr], view->line, view->line_length);
  if (!view->partial)
    end_line(self);
}

/* A player must not move the cursor or set a title. */
static void add_cast_line(struct recording *self, const struct event_view *view) {
  struct buffer text = {0};
  for (size_t at = 0, piece; at < view->line_length; at += piece) {
    if (terminal_next(view->line + at, view->line_length - at, &piece) == PIECE_CONTROL)
      buffer_add_string(&text, UTF8_REPLACEMENT);
    else
      buffer_add(&text, view->line + at, piece);
  }
  if (!view->partial) {
    buffer_add_string(&text, "\r\n");
    self->line = LINE_CLOSED;
  }
  add_cast(self, text.length > 0 ? text.bytes : "", text.length);
  buffer_release(&text);
}

static void add_line(struct recording *self, const struct event_view *view) {
  const enum recording_line line = view->kind == STEP_EVENT_STDERR ? LINE_STDERR : LINE_STDOUT;
  const bool is_new = self->line != line;
  if (is_new)
    end_line(self);
  self->line = line;
  if (self->format == RECORDING_PAGE)
    add_page_line(self, view, is_new);
  else
    add_cast_line(self, view);
}

static void add_note(struct recording *self, const char *text) {
  end_line(self);
  if (self->format == RECORDING_PAGE) {
    buffer_add_format(&self->text, "<em>%s</em>\n", text);
  } else {
    add_cast(self, text, strlen(text));
    add_cast(self, "\r\n", 2);
  }
}

int recording_add(struct recording *self, const struct event_view *view, const char *note,
                  struct error *error) {
  int64_t time_ms;
  if (event_read_time(view, &time_ms))
    self->now_ms = time_ms;
  if (!self->has_begun) {
    self->first_ms = self->now_ms;
    if (view->kind == STEP_EVENT_STARTED)
      (void)snprintf(
          self->command, sizeof self->command, "%.*s",
          (int)utf8_cut(view->line, view->line_length < TEXT_MAX ? view->line_length : TEXT_MAX),
          view->line);
    if (self->format == RECORDING_CAST)
      begin_cast(self);
  }
  self->has_begun = true;
  if (note != NULL)
    add_note(self, note);
  if (view->kind == STEP_EVENT_STDOUT || view->kind == STEP_EVENT_STDERR)
    add_line(self, view);
  return write_out(self, CHUNK, error);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void add_when(struct recording *self, struct buffer *out) {
  char when[48];
  struct tm tm;
  time_t seconds = (time_t)(self->first_ms / 1000);
  if (!self->has_begun || gmtime_r(&seconds, &tm) == NULL)
    return;
  (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
  buffer_add_format(out, " · <time datetime=\"%s\">%s</time> · ", when, when);
  add_seconds(out, self->now_ms - self->first_ms);
  buffer_add_string(out, " s");
}

static int fill_header(struct recording *self, const char *outcome, struct error *error) {
  struct buffer text = {0};
  add_short(&text, "<title>", self->job);
  add_short(&text, " · ", self->id);
  add_short(&text, " · ", outcome);
  add_short(&text, "</title>\n</head>\n<body>\n<header>\n<h1>", self->job);
  add_short(&text, "</h1>\n<p>step <code>", self->id);
  add_short(&text, self->command[0] != '\0' ? "</code> · " : "</code>", self->command);
  add_short(&text, " · <b>", outcome);
  buffer_add_string(&text, "</b>");
  add_when(self, &text);
  buffer_add_string(&text, "</p>");
  CHECK(text.length <= HEADER_CAPACITY);
  ssize_t length = pwrite(self->file.fd, text.bytes, text.length, (off_t)self->header_at);
  if (length >= 0 && (size_t)length < text.length)
    errno = ENOSPC;
  int result = length == (ssize_t)text.length ? 0 : fail(self, error);
  buffer_release(&text);
  return result;
}

int recording_finish(struct recording *self, const char *outcome, struct error *error) {
  end_line(self);
  if (self->format == RECORDING_PAGE)
    buffer_add_string(&self->text, "</pre>\n</body>\n</html>\n");
  if (write_out(self, 1, error) != 0 ||
      (self->format == RECORDING_PAGE && fill_header(self, outcome, error) != 0))
    return -1;
  return staged_file_commit(&self->file) == 0 ? 0 : fail(self, error);
}

void recording_release(struct recording *self) {
  staged_file_release(&self->file);
  if (self->directory >= 0)
    close(self->directory);
  free(self->path);
  buffer_release(&self->text);
  *self = RECORDING_NONE;
}
