#ifndef AGENT_ENGINE_LINES_H
#define AGENT_ENGINE_LINES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes of one output stream -> its lines. "\n", "\r\n" and a lone "\r" each end a line. A lone
 * "\r" ends its line at once (a progress bar moves as it is drawn): a "\n" that follows it later is
 * swallowed. Pure: the caller moves the bytes.
 *
 *   for (;;) {
 *     while (line_splitter_next(&splitter, &line))   -- use the line before the next call
 *       …
 *     space = line_splitter_space(&splitter, &size);
 *     n = read(fd, space, size);
 *     n > 0 ? line_splitter_filled(&splitter, n) : line_splitter_end(&splitter);
 *   }
 *
 * The caller may stop between two lines for as long as it likes: what is not yet taken stays.
 * One buffer per splitter, allocated at the first use; it begins with LINE_SPLITTER_FIRST_READ,
 * which is enough for most commands, and grows to a little over LINE_MAX_PIECE and no further,
 * since a line that does not end is handed out in pieces.
 */
#define LINE_SPLITTER_FIRST_READ ((size_t)1024)
#define LINE_SPLITTER_READ ((size_t)64 * 1024)

/*
 * The longest piece, in bytes. A line up to this long comes whole. Of a longer one, pieces of this
 * length (or up to three bytes less, so that no UTF-8 sequence is cut) come as partial until so
 * much or less is left: that is the last piece, never partial and never empty.
 */
#define LINE_MAX_PIECE ((size_t)256 * 1024)

struct line_splitter {
  char *buffer;
  size_t capacity;
  size_t read;          /* how much room to make */
  size_t start;         /* first byte not yet handed out */
  size_t scanned;       /* up to here there is no line end */
  size_t end;           /* behind the last byte */
  bool swallow_newline; /* the last line ended in "\r" */
  bool ended;
};

struct line {
  const char *text; /* inside the splitter's buffer, valid until the next call */
  size_t length;
  bool partial; /* more of this line follows */
};

void line_splitter_init(struct line_splitter *self);
void line_splitter_release(struct line_splitter *self);

/* Room to read into: at least LINE_SPLITTER_READ bytes once the first room was filled, before that
   LINE_SPLITTER_FIRST_READ. To be called when line_splitter_next has returned false. Aborts when
   out of memory. */
char *line_splitter_space(struct line_splitter *self, size_t *size);

/* So many bytes were put there. */
void line_splitter_filled(struct line_splitter *self, size_t length);

/* No more bytes will come: what is left is the last line, unless it is empty. */
void line_splitter_end(struct line_splitter *self);

/* The next line, or false when more bytes are needed (or, after the end, when all was handed out).
 */
bool line_splitter_next(struct line_splitter *self, struct line *line);

#endif
