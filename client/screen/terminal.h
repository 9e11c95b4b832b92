#ifndef CLIENT_SCREEN_TERMINAL_H
#define CLIENT_SCREEN_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Standard output and standard error, as people see them. What steps print is for either; what the
 * client itself says goes to standard error.
 */
enum terminal_colors { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER };

enum terminal_color { COLOR_NONE, COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_DIM };

struct terminal {
  bool out_is_tty, err_is_tty;
  bool out_colors, err_colors; /* NO_COLOR and what is no terminal have none */
  bool quiet;                  /* says nothing that is not an error */
  bool has_status;             /* a status line is shown */
};

/* Before anything is written. */
void terminal_buffer(void);

void terminal_init(struct terminal *self, enum terminal_colors colors, bool quiet);

/* In columns: COLUMNS, the terminal's, or 80. */
int terminal_width(const struct terminal *self);

/* Writes bytes of a step to standard output (or error). On a terminal control characters become
   U+FFFD, except tabs and colour sequences (SGR), so that a step moves no cursor and sets no title;
   elsewhere they stay. Returns 0, or -1 when nobody reads it. */
int terminal_put(struct terminal *self, bool to_stderr, const char *bytes, size_t length);

/* Writes one JSON value as a line of standard output. What comes from Redis may not be JSON, so
   line ends within it become spaces. Returns what terminal_put returns. */
int terminal_put_json(struct terminal *self, const char *json, size_t length);

/* What a step has printed, in pieces: at the beginning of the text there is one of `piece`
   bytes. */
enum terminal_piece {
  PIECE_TEXT,    /* a character */
  PIECE_COLOR,   /* a sequence that sets colours (SGR) */
  PIECE_CONTROL, /* a control character but tab and line end, or what is not UTF-8: shown as U+FFFD */
};
enum terminal_piece terminal_next(const char *text, size_t length, size_t *piece);

/* Buffered output leaves. Returns 0, or -1 when nobody reads it, or it could not be written. */
int terminal_flush(struct terminal *self);

/* Nobody reads standard output any more; it is not that its disk is full. */
bool terminal_reader_is_gone(void);

/* "sandbox: …" and a line end, on standard error, whatever `quiet` says. */
void terminal_error(struct terminal *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A line on standard error, unless it is quiet. */
void terminal_say(struct terminal *self, enum terminal_color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The terminal has shown a key that interrupts ("^C"): what is said next stands behind it. */
void terminal_see_key(struct terminal *self);

/* Shows a line that the next output replaces, on a terminal; "" takes it away. Control characters
   become U+FFFD. */
void terminal_status(struct terminal *self, const char *text);

/* The sequence that begins a color on standard output (or error), or ends it (COLOR_NONE); ""
   without colors. */
const char *terminal_color(const struct terminal *self, bool to_stderr, enum terminal_color color);

#endif
