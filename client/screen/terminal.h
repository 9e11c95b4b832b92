#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* Writes to standard output and standard error. The output of steps goes to either; messages of the
   client go to standard error. Nobody trusts what steps print and what Redis holds, so no control
   character of theirs reaches a terminal.

   Nothing here waits for a reader, except terminal_drain: bytes stay in memory until they can be
   written, so that signals, and the connections to Redis, are served meanwhile. */
enum terminal_colors { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER };

enum terminal_color { COLOR_NONE, COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_DIM };

struct terminal_stream {
  int fd;
  bool is_socket;
  size_t piece_max;    /* a write of more bytes may block */
  struct buffer bytes; /* of these, `written` were written */
  size_t written;
  int64_t stuck_ms; /* monotonic: since when no byte can be written; INT64_MAX: not stuck */
  bool is_colored;  /* the output of a step has set colors */
  int failure;      /* errno of the first failed write; 0: none; EPIPE: nobody reads it */
};

struct terminal {
  bool is_tty[2], has_colors[2]; /* of standard output and standard error */
  bool quiet;                    /* only errors are shown */
  bool has_status;               /* a status line is shown */
  bool is_one_file; /* both are the same file: the first stream has the bytes of both, in order */
  struct terminal_stream streams[2];
  bool hurries; /* after a signal: a reader that reads nothing for a second counts as gone */
};

void terminal_init(struct terminal *self);

/* TERMINAL_AUTO, the default: a terminal has colors, unless NO_COLOR is set or TERM is "dumb". */
void terminal_set_colors(struct terminal *self, enum terminal_colors colors);

/* Returns the number of columns: COLUMNS, the terminal's width, or 80. */
int terminal_width(const struct terminal *self);

/* Writes a step's bytes. On a terminal, control characters become U+FFFD, except tabs, line ends
   and color sequences (SGR). Returns 0, or -1 if they cannot be written. */
int terminal_put(struct terminal *self, bool to_stderr, const char *bytes, size_t length);

/* Ends the colors that the output of a step has set. Messages do it, too. */
void terminal_reset_colors(struct terminal *self);

/* Writes one JSON value as a line of standard output. A line end inside it becomes a space, because
   text from Redis may not be JSON. Returns 0, or -1 as terminal_put does. */
int terminal_put_json(struct terminal *self, const char *json, size_t length);

/* Splits the output of a step: says what the text begins with, and how many bytes that has. */
enum terminal_piece {
  PIECE_TEXT,    /* a character */
  PIECE_COLOR,   /* a sequence that sets colors (SGR) */
  PIECE_CONTROL, /* another control character or a byte that is not UTF-8; shown as U+FFFD */
};
enum terminal_piece terminal_next(const char *text, size_t length, size_t *piece);

/* Writes an escape sequence of the client, or another text that is trusted. */
void terminal_put_raw(struct terminal *self, bool to_stderr, const char *text);

/* Writes as much of the output as is possible without waiting. Returns 0, or -1 if it cannot be
   written. */
int terminal_flush(struct terminal *self);

/* Returns the descriptor that must become writable before the rest can be written, or -1. */
int terminal_behind(const struct terminal *self);

/* Waits until everything is written. Returns 0, or -1 if it cannot be written. */
int terminal_drain(struct terminal *self);

/* Whether the reader of standard output is gone, and not, for example, its disk full. */
bool terminal_reader_is_gone(void);

/* Writes "sandbox: …" as a line to standard error, even if `quiet` is set. */
void terminal_error(struct terminal *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes an error like that. Returns EXIT_CLIENT. */
int terminal_fail(struct terminal *self, const struct error *error);

/* Writes a line to standard error, unless `quiet` is set. */
void terminal_say(struct terminal *self, enum terminal_color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Separates the next message from the "^C" that the terminal has echoed. */
void terminal_skip_key(struct terminal *self);

/* Shows a line, without control characters, on a terminal until the next output; "" removes it. */
void terminal_status(struct terminal *self, const char *text);

/* Returns the sequence that sets a color on standard output or standard error, or resets it
   (COLOR_NONE). Returns "" if there are no colors. */
const char *terminal_color(const struct terminal *self, bool to_stderr, enum terminal_color color);
