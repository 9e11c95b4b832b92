#ifndef AGENT_ENGINE_LINES_H
#define AGENT_ENGINE_LINES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The longest piece in bytes, chosen by the owner of a splitter within these bounds. A line of up
 * to this length comes whole. A longer one comes in partial pieces of this length, or up to three
 * bytes less so that no UTF-8 sequence is cut, and a last piece, which is neither partial nor
 * empty. The upper bound leaves room in what Redis takes (proto-max-bulk-len, 512 MiB) for each
 * byte of a line as the six of \u0000.
 */
#define LINE_BYTES_MIN ((size_t)1024)
#define LINE_BYTES_DEFAULT ((size_t)1024 * 1024)
#define LINE_BYTES_MAX ((size_t)64 * 1024 * 1024)

/*
 * Splits the bytes of one output stream into lines. "\n", "\r\n" and a lone "\r" each end a line. A
 * lone "\r" ends its line at once, so that a progress bar is seen as it is drawn; a "\n" that
 * follows it later is swallowed. A UTF-8 byte order mark at the beginning of the stream is dropped.
 * Does no I/O: the caller reads.
 *
 *   for (;;) {
 *     while (line_splitter_next(&splitter, &line))
 *       use the line before the next call
 *     space = line_splitter_space(&splitter, 0, &size);
 *     n = read(fd, space, size);
 *     n > 0 ? line_splitter_filled(&splitter, n, n == size) : line_splitter_end(&splitter);
 *   }
 *
 * The caller may stop between two lines: what is not taken stays. Each splitter has one buffer,
 * allocated at the first use. It begins with LINE_SPLITTER_FIRST_READ bytes, enough for a command
 * that says little, and grows to a piece + LINE_SPLITTER_READ and what is to be in front of it, no
 * further. What a long line needed beyond
 * LINE_SPLITTER_KEPT is given back when the line was handed out.
 */
#define LINE_SPLITTER_FIRST_READ ((size_t)128)
#define LINE_SPLITTER_READ ((size_t)64 * 1024)
#define LINE_SPLITTER_KEPT ((size_t)256 * 1024)

struct line_splitter {
  size_t piece_max;
  char *buffer;
  size_t capacity;
  size_t read;          /* bytes of room to make */
  size_t start;         /* offset of the first byte that was not handed out */
  size_t scanned;       /* offset; before it there is no line end */
  size_t end;           /* offset after the last byte */
  bool begun;           /* what the stream begins with was looked at: a byte order mark or not */
  bool swallow_newline; /* the last line ended in "\r" */
  bool ended;
};

struct line {
  const char *text; /* inside the splitter's buffer, valid until the next call */
  size_t length;
  bool partial; /* more of this line follows */
};

/* `piece_max`: from LINE_BYTES_MIN to LINE_BYTES_MAX. */
void line_splitter_init(struct line_splitter *self, size_t piece_max);
void line_splitter_release(struct line_splitter *self);

/* Returns room for `before` bytes and behind them for `size` bytes, to read into: at least
   LINE_SPLITTER_FIRST_READ bytes, LINE_SPLITTER_READ once the room was full often enough. Only
   after line_splitter_next has returned false. Aborts when out of memory. */
char *line_splitter_space(struct line_splitter *self, size_t before, size_t *size);

/* `length` bytes were written there; `was_full`: as many were read as there was room for. */
void line_splitter_filled(struct line_splitter *self, size_t length, bool was_full);

/* No more bytes follow: what is left, unless it is empty, is the last line. */
void line_splitter_end(struct line_splitter *self);

/* Fills in the next line. False when more bytes are needed, or after the end when none is left. */
bool line_splitter_next(struct line_splitter *self, struct line *line);

#endif
