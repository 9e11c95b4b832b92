#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Splits output into lines, or into pieces of raw output. Each execution has one splitter for each
 * stream. The hard part is a line that is longer than memory may be, and a sequence of bytes that
 * one read has cut.
 */

/*
 * The bounds of `piece_max`, in bytes. A line of up to `piece_max` bytes arrives whole. A longer
 * one arrives in partial pieces of this length, or up to three bytes less so that no UTF-8 sequence
 * is cut, and a last piece that is neither partial nor empty. The upper bound fits into Redis'
 * proto-max-bulk-len (512 MiB) even if each byte becomes the six of \u0000.
 */
#define LINE_BYTES_MIN ((size_t)1024)
#define LINE_BYTES_DEFAULT ((size_t)1024 * 1024)
#define LINE_BYTES_MAX ((size_t)64 * 1024 * 1024)

/* The most bytes of a piece of raw output. */
#define LINE_RAW_BYTES ((size_t)32 * 1024)

/*
 * Splits the bytes of one output stream into lines, without I/O: the caller reads. "\n", "\r\n" and
 * a lone "\r" end a line. A "\r" ends its line at once, so that a progress bar is visible while it
 * is drawn; a "\n" that follows is skipped, also if it comes later. A UTF-8 byte order mark at the
 * beginning of the stream is dropped.
 *
 * The caller may stop between two lines; the rest stays. The buffer, allocated at the first use,
 * begins with LINE_SPLITTER_FIRST_READ bytes, which is enough for short output,
 * and grows to at most `piece_max` + LINE_SPLITTER_READ + `before`. After a long line it shrinks to
 * LINE_SPLITTER_KEPT.
 */
#define LINE_SPLITTER_FIRST_READ ((size_t)128)
#define LINE_SPLITTER_READ ((size_t)64 * 1024)
#define LINE_SPLITTER_KEPT ((size_t)256 * 1024)

struct line_splitter {
  size_t piece_max;
  char *buffer;
  size_t capacity;
  size_t read;          /* how many bytes of space to make */
  size_t start;         /* offset of the next line */
  size_t scanned;       /* offset; no line ends before it */
  size_t end;           /* offset behind the last byte */
  bool raw;             /* any bytes are a piece */
  bool begun;           /* the beginning was checked for a byte order mark */
  bool swallow_newline; /* the last line ended in "\r" */
  bool ended;
};

struct line {
  const char *text; /* in the splitter's buffer, valid until the next call */
  size_t length;
  bool partial; /* more of this line follows */
  bool is_raw;  /* it is a piece of raw output */
};

void line_splitter_init(struct line_splitter *self, size_t piece_max);
void line_splitter_release(struct line_splitter *self);

/* Splits off pieces of up to LINE_RAW_BYTES as they come, with all of their bytes. To be called
   before anything is read. */
void line_splitter_set_raw(struct line_splitter *self);

/* Returns space for `before` bytes and, behind them, `size` bytes to read into: at least
   LINE_SPLITTER_FIRST_READ, and LINE_SPLITTER_READ after the space was full often enough. To be
   called only after line_splitter_next returned false. */
char *line_splitter_space(struct line_splitter *self, size_t before, size_t *size);

/* Takes the `length` bytes that the caller has written to the space; `was_full`: the read filled
   it. */
void line_splitter_filled(struct line_splitter *self, size_t length, bool was_full);

/* Notes that no more bytes follow: the rest, unless it is empty, is the last line. */
void line_splitter_end(struct line_splitter *self);

/* Returns the next line; false if more bytes are needed, or if none is left after the end. */
bool line_splitter_next(struct line_splitter *self, struct line *line);
