#include "agent/files/access/text_edit.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent/files/access/atomic_file.h"
#include "agent/files/access/line_range.h"
#include "base/utf8.h"

/* The most lines that an error names. */
#define LINES_NAMED 10

/* --- flat text, in which every "\r\n" is a "\n": only flat texts are compared --- */

/* Adds the bytes with line endings `ending` instead of `old`. */
static void add_with_ending(struct buffer *to, const char *bytes, size_t length, const char *old,
                            const char *ending) {
  for (const char *found;
       length > 0 && (found = memmem(bytes, length, old, strlen(old))) != NULL;) {
    buffer_add(to, bytes, (size_t)(found - bytes));
    buffer_add_string(to, ending);
    length -= (size_t)(found - bytes) + strlen(old);
    bytes = found + strlen(old);
  }
  buffer_add(to, bytes, length);
}

/* One edit, with flat texts. */
struct editing {
  const struct text_edit *edit;
  struct buffer text, old, replacement;
};

/* Returns the offset of the next occurrence of the old text, or SIZE_MAX. */
static size_t find(const struct editing *self, size_t from) {
  const char *found = self->text.length == 0
                          ? NULL
                          : memmem(self->text.bytes + from, self->text.length - from,
                                   self->old.bytes, self->old.length);
  return found != NULL ? (size_t)(found - self->text.bytes) : SIZE_MAX;
}

static size_t next(const struct editing *self, size_t match) {
  return find(self, match + self->old.length);
}

/* --- folded text, in which texts that look alike are equal --- */

/* A model that quotes a file often differs from it in white space, which is removed, including
   no-break and zero-width spaces; in quotes and dashes, of which typographic ones become ' " and -;
   and in Latin letters from U+00C0 to U+017F and U+1E00 to U+1EFF, which lose their marks, composed
   or combining. Everything else is kept, including bytes that are not UTF-8. */
#define LATIN_FIRST 0xC0
#define VIETNAMESE_FIRST 0x1E00

/* The base letter of each character by Unicode's canonical decompositions; a blank if it has
   none. */
static const char latin[] = "AAAAAA CEEEEIIII NOOOOO  UUUUY  aaaaaa ceeeeiiii nooooo  uuuuy y"
                            "AaAaAaCcCcCcCcDd  EeEeEeEeEeGgGgGgGgHh  IiIiIiIiI   JjKk LlLlLl "
                            "   NnNnNn   OoOoOo  RrRrRrSsSsSsSsTtTt  UuUuUuUuUuUuWwYyYZzZzZz ";
static const char vietnamese[] = "AaBbBbBbCcDdDdDdDdDdEeEeEeEeEeFfGgHhHhHhHhHhIiIiKkKkKkLlLlLlLlMm"
                                 "MmMmNnNnNnNnOoOoOoOoPpPpRrRrRrRrSsSsSsSsSsTtTtTtTtUuUuUuUuUuVvVv"
                                 "WwWwWwWwWwXxXxYyZzZzZzhtwy      AaAaAaAaAaAaAaAaAaAaAaAaEeEeEeEe"
                                 "EeEeEeEeIiIiOoOoOoOoOoOoOoOoOoOoOoOoUuUuUuUuUuUuUuYyYyYyYy      ";

static bool is_removed(unsigned character) {
  return (character >= '\t' && character <= '\r') || character == ' ' || character == 0x85 ||
         character == 0xA0 || (character >= 0x300 && character <= 0x36F) ||
         (character >= 0x2000 && character <= 0x200D) || character == 0x2028 ||
         character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x2060 ||
         character == 0x3000 || character == 0xFEFF;
}

static char plain_of(unsigned character) {
  if (character == 0xB4 || (character >= 0x2018 && character <= 0x201B) || character == 0x2032)
    return '\'';
  if (character == 0xAB || character == 0xBB || (character >= 0x201C && character <= 0x201F) ||
      character == 0x2033)
    return '"';
  if ((character >= 0x2010 && character <= 0x2015) || character == 0x2212)
    return '-';
  char letter = ' ';
  if (character >= LATIN_FIRST && character < LATIN_FIRST + sizeof latin - 1)
    letter = latin[character - LATIN_FIRST];
  if (character >= VIETNAMESE_FIRST && character < VIETNAMESE_FIRST + sizeof vietnamese - 1)
    letter = vietnamese[character - VIETNAMESE_FIRST];
  return letter != ' ' ? letter : 0;
}

/* Adds the folded text, as far as that takes up to `max` bytes. Returns the line where it ends. */
static size_t add_folded(struct buffer *to, const struct buffer *text, size_t max) {
  size_t line = 1;
  for (size_t at = 0; at < text->length;) {
    const char *bytes = text->bytes + at;
    const size_t length = utf8_sequence(bytes, text->length - at);
    const unsigned character = length > 0 ? utf8_decode(bytes, length) : 0;
    const char plain = plain_of(character);
    if (plain != 0)
      buffer_add(to, &plain, 1);
    else if (!is_removed(character))
      buffer_add(to, bytes, length > 0 ? length : 1);
    if (to->length > max)
      break;
    line += *bytes == '\n';
    at += length > 0 ? length : 1;
  }
  return line;
}

/* --- checking --- */

/* Writes the lines of the occurrences, "1, 4", and "…" if there are too many. */
static void name_lines(const struct editing *self, char *out, size_t size) {
  size_t used = 0, line = 1, counted = 0, named = 0;
  for (size_t at = find(self, 0); at != SIZE_MAX && used < size; at = next(self, at)) {
    line += line_range_newlines(self->text.bytes + counted, at - counted);
    counted = at;
    const char *separator = named > 0 ? ", " : "";
    if (named++ == LINES_NAMED) {
      (void)snprintf(out + used, size - used, ", …");
      return;
    }
    used += (size_t)snprintf(out + used, size - used, "%s%zu", separator, line);
  }
}

/* Returns the first line of a text that looks like the old one, or 0. */
static size_t find_alike(const struct editing *self) {
  struct buffer text = {0}, old = {0};
  (void)add_folded(&text, &self->text, SIZE_MAX);
  (void)add_folded(&old, &self->old, SIZE_MAX);
  const char *found = text.length > 0 && old.length > 0
                          ? memmem(text.bytes, text.length, old.bytes, old.length)
                          : NULL;
  const size_t offset = found != NULL ? (size_t)(found - text.bytes) : 0;
  text.length = 0;
  const size_t line = found != NULL ? add_folded(&text, &self->text, offset) : 0;
  buffer_release(&text);
  buffer_release(&old);
  return line;
}

static int reject_missing(const struct editing *self, bool first, const char *name,
                          struct error *error) {
  const char *where = first ? "in the file" : "(an earlier edit may have changed it)";
  const size_t line = find_alike(self);
  return line == 0 ? error_set(error, "%sold_string not found %s", name, where)
                   : error_set(error,
                               "%sold_string not found %s; line %zu has it with other white space, "
                               "quotes, dashes or Unicode normalization",
                               name, where, line);
}

static int check(const struct editing *self, size_t occurrences, bool first, const char *name,
                 struct error *error) {
  if (occurrences == 0)
    return reject_missing(self, first, name, error);
  if (occurrences == 1 || self->edit->all) {
    /* A short text may occur often, and its replacement may be long. */
    size_t kept = self->text.length - occurrences * self->old.length;
    bool fits = kept + occurrences * self->replacement.length <= ATOMIC_FILE_MAX;
    return fits ? 0 : error_set(error, "%scontent exceeds 10 MB limit", name);
  }
  char lines[LINES_NAMED * 24];
  name_lines(self, lines, sizeof lines);
  return error_set(error,
                   "%sold_string matches %zu times at lines %s — add surrounding context to make "
                   "it unique, or set replace_all",
                   name, occurrences, lines);
}

/* --- replacing --- */

/* Returns the offset `flat_bytes` further in the original text, in front of the "\r" of a
   line ending. */
static size_t advance(const struct buffer *text, size_t at, size_t flat_bytes) {
  for (; flat_bytes > 0; flat_bytes--, at++)
    if (text->bytes[at] == '\r' && at + 1 < text->length && text->bytes[at + 1] == '\n')
      at++;
  return at;
}

/* Returns 1 if the first line ending is "\r\n", 0 if it is "\n", -1 if there is none. */
static int ends_with_crlf(const char *bytes, size_t length) {
  const char *newline = length > 0 ? memchr(bytes, '\n', length) : NULL;
  return newline == NULL ? -1 : newline > bytes && newline[-1] == '\r';
}

static void replace(const struct editing *self, struct buffer *text) {
  struct buffer edited = {0};
  size_t from = 0, flat_from = 0; /* behind the previous occurrence, in both texts */
  int text_crlf = ends_with_crlf(text->bytes, text->length);
  for (size_t match = find(self, 0); match != SIZE_MAX; match = next(self, match)) {
    size_t begin = advance(text, from, match - flat_from);
    size_t end = advance(text, begin, self->old.length);
    buffer_add(&edited, text->bytes + from, begin - from);
    int crlf = ends_with_crlf(text->bytes + begin, end - begin);
    if (crlf == -1)
      crlf = text_crlf;
    add_with_ending(&edited, self->replacement.bytes, self->replacement.length, "\n",
                    crlf == 1 ? "\r\n" : "\n");
    from = end;
    flat_from = match + self->old.length;
  }
  buffer_add(&edited, text->bytes + from, text->length - from);
  buffer_release(text);
  *text = edited;
}

/* --- the report --- */

static void report_lines(struct buffer *report, const char *sign, const struct buffer *flat) {
  if (flat->length == 0)
    return;
  const char *at = flat->bytes, *end = at + flat->length;
  for (size_t shown = 0; at < end && shown < TEXT_EDIT_LINES_MAX; shown++) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    const char *stop = newline != NULL ? newline : end;
    buffer_add_string(report, sign);
    buffer_add(report, at, (size_t)(stop - at));
    buffer_add(report, "\n", 1);
    at = newline != NULL ? newline + 1 : end;
  }
  if (at == end)
    return;
  size_t more = line_range_newlines(at, (size_t)(end - at)) + (end[-1] != '\n');
  buffer_add_format(report, "%s... (%zu more line%s)\n", sign, more, more == 1 ? "" : "s");
}

static void report_edit(const struct editing *self, size_t occurrences, struct buffer *report) {
  buffer_add_format(report, "\n\n@ line %zu",
                    line_range_newlines(self->text.bytes, find(self, 0)) + 1);
  if (self->edit->all)
    buffer_add_format(report, " (%zu occurrence%s)", occurrences, occurrences == 1 ? "" : "s");
  buffer_add_string(report, ":\n");
  report_lines(report, "- ", &self->old);
  report_lines(report, "+ ", &self->replacement);
}

static int apply(const struct text_edit *edit, bool first, const char *name, struct buffer *text,
                 struct buffer *report, struct error *error) {
  if (edit->old.length == 0)
    return error_set(error, "%sold_string is required", name);
  struct editing editing = {.edit = edit};
  add_with_ending(&editing.text, text->bytes, text->length, "\r\n", "\n");
  add_with_ending(&editing.old, edit->old.text, edit->old.length, "\r\n", "\n");
  add_with_ending(&editing.replacement, edit->new.text, edit->new.length, "\r\n", "\n");
  size_t occurrences = 0;
  for (size_t at = find(&editing, 0); at != SIZE_MAX; at = next(&editing, at))
    occurrences++;
  bool is_same = editing.old.length == editing.replacement.length &&
                 memcmp(editing.old.bytes, editing.replacement.bytes, editing.old.length) == 0;
  int result = is_same ? error_set(error, "%sold_string and new_string are identical", name)
                       : check(&editing, occurrences, first, name, error);
  if (result == 0) {
    report_edit(&editing, occurrences, report);
    replace(&editing, text);
  }
  buffer_release(&editing.text);
  buffer_release(&editing.old);
  buffer_release(&editing.replacement);
  return result;
}

int text_edit_apply(const struct text_edit *edits, size_t count, struct buffer *text,
                    struct buffer *report, struct error *error) {
  for (size_t i = 0; i < count; i++) {
    char name[40] = "";
    if (count > 1)
      (void)snprintf(name, sizeof name, "edits[%zu]: ", i);
    if (apply(&edits[i], i == 0, name, text, report, error) != 0)
      return -1;
  }
  return 0;
}
