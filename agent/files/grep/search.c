#include "agent/files/grep/search.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/line_range.h"
#include "agent/files/access/path.h"
#include "agent/files/access/regular_file.h"
#include "agent/files/grep/line_matcher.h"
#include "agent/files/grep/search_scope.h"
#include "agent/files/tree/walk.h"
#include "base/descriptor.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/utf8.h"

/* A search in progress, which ends when its result is cut. */
struct file_search {
  const struct search *search;
  struct line_matcher *pattern;
  struct buffer *answer;
  bool has_entries;
  struct buffer written; /* the path of the current file, as in the answer */
  struct search_result result;
  struct search_scope *scope;
};

/* --- the answer --- */

#define ELLIPSIS "\xE2\x80\xA6"

static void add_either(struct file_search *self, const char *json, const char *lines) {
  buffer_add_string(self->answer, self->search->as_lines ? lines : json);
}

/* Begins an entry. Returns false, and ends the answer, if it is long enough. */
static bool open_entry(struct file_search *self) {
  if (self->answer->length >= SEARCH_ANSWER_MAX) {
    self->result.is_cut = true;
    return false;
  }
  add_either(self, self->has_entries ? ",{\"path\":" : "{\"path\":", self->has_entries ? "\n" : "");
  buffer_add(self->answer, self->written.bytes, self->written.length);
  self->has_entries = true;
  return true;
}

/* Returns the length in bytes of the first `characters` characters, or of the whole text. */
static size_t cut(const char *text, size_t length, size_t characters) {
  if (length <= characters)
    return length;
  size_t at = 0;
  for (; characters > 0 && at < length; characters--) {
    size_t size = utf8_sequence(text + at, length - at);
    at += size > 0 ? size : utf8_broken(text + at, length - at);
  }
  return at;
}

/* How many of the shown characters of a long line begin at the match, if there are as many. */
#define SHOWN_FROM_MATCH 160

static size_t step_back(const char *text, size_t at, size_t characters) {
  for (; characters > 0 && at > 0; characters--) {
    size_t first = at > 4 ? at - 4 : 0;
    for (at--; at > first && ((unsigned char)text[at] & 0xC0) == 0x80;)
      at--;
  }
  return at;
}

/* Returns where the shown part of a line begins: with the match in it, and no NUL before that. */
static size_t shown_from(const char *text, size_t length, const struct matched_line *line) {
  size_t start = 0;
  if (line->match_end > cut(text, length, SEARCH_LINE_SHOWN)) {
    size_t behind = 0;
    for (size_t at = line->match_start; at < length && behind < SHOWN_FROM_MATCH; behind++)
      at += cut(text + at, length - at, 1);
    start = step_back(text, line->match_start, SEARCH_LINE_SHOWN - behind);
  }
  const char *nul = memrchr(text + start, '\0', line->match_start - start);
  return nul != NULL ? (size_t)(nul - text) + 1 : start;
}

static void add_text_as_line(struct file_search *self, const char *text, size_t length,
                             const struct matched_line *line) {
  size_t start = line != NULL ? shown_from(text, length, line) : 0;
  size_t shown = cut(text + start, length - start, SEARCH_LINE_SHOWN);
  size_t before_nul = strnlen(text + start, shown);
  buffer_add_string(self->answer, start > 0 ? ELLIPSIS : "");
  buffer_add(self->answer, text + start, before_nul);
  bool is_cut = before_nul == shown && start + shown < length;
  buffer_add_string(self->answer, is_cut ? ELLIPSIS : "");
}

static void add_text_as_json(struct file_search *self, const char *text, size_t length) {
  size_t shown = cut(text, length, SEARCH_LINE_SHOWN);
  buffer_add_json(self->answer, text, shown);
  if (shown < length) {
    self->answer->length--; /* within the quotes */
    buffer_add_string(self->answer, ELLIPSIS "\"");
  }
}

/* --- the text of one file --- */

struct searched_file {
  const char *path;
  size_t path_length;
  const char *text;
  size_t length;
  size_t shown;   /* offset up to which lines were shown or skipped */
  size_t number;  /* of the line that starts at `counted` */
  size_t counted; /* offset */
};

/* Ends the answer if the head limit is reached. Returns whether there may be one more match. */
static bool check_limit(struct file_search *self) {
  self->result.is_cut |= self->result.matches == self->search->head_limit;
  return !self->result.is_cut;
}

static void show(struct file_search *self, struct searched_file *file,
                 const struct matched_line *line, bool is_match) {
  const char *separator = is_match ? ":" : "-";
  file->shown = line->next;
  if (!open_entry(self))
    return;
  add_either(self, ",\"line\":", separator);
  file->number += line_range_newlines(file->text + file->counted, line->start - file->counted);
  file->counted = line->start;
  buffer_add_number(self->answer, file->number);
  add_either(self, ",\"text\":", separator);
  const char *text = file->text + line->start;
  if (self->search->as_lines)
    add_text_as_line(self, text, line->end - line->start, is_match ? line : NULL);
  else
    add_text_as_json(self, text, line->end - line->start);
  add_either(self, is_match ? ",\"kind\":\"match\"}" : ",\"kind\":\"context\"}", "");
  self->result.matches += is_match;
}

static void show_context(struct file_search *self, struct searched_file *file, size_t lines,
                         size_t limit) {
  for (; lines > 0 && file->shown < limit && !self->result.is_cut; lines--) {
    struct matched_line line;
    matched_line_from(&line, file->text, file->length, file->shown);
    show(self, file, &line, false);
  }
}

/* Returns where the lines before this one begin, at most `lines` that were not shown. */
static size_t start_before(const struct searched_file *file, size_t start, size_t lines) {
  for (; lines > 0 && start > file->shown; lines--) {
    const char *newline = memrchr(file->text + file->shown, '\n', start - 1 - file->shown);
    start = newline == NULL ? file->shown : (size_t)(newline - file->text) + 1;
  }
  return start;
}

static size_t number_at(const struct searched_file *file, const struct matched_line *line) {
  return 1 + line_range_newlines(file->text, line->start);
}

static int next_line(struct file_search *self, const struct searched_file *file, size_t from,
                     struct matched_line *line, struct error *error) {
  struct search_gap *skipped = &self->result.skipped;
  for (;; from = line->next) {
    int found = line_matcher_next(self->pattern, from, line, error);
    if (found >= 0 || line->end - line->start <= SEARCH_LINE_MAX ||
        skipped->count == SEARCH_SKIPPED_MAX)
      return found;
    if (skipped->count++ == 0)
      (void)error_set(&skipped->first, "%.*s:%zu", (int)file->path_length, file->path,
                      number_at(file, line));
  }
}

static int add_lines(struct file_search *self, struct searched_file *file,
                     struct matched_line *line, struct error *error) {
  size_t after = 0; /* lines of context after the last match */
  for (size_t at = 0;; at = line->next) {
    int found = next_line(self, file, at, line, error);
    if (found < 0)
      return -1;
    show_context(self, file, after, found ? line->start : file->length);
    if (found == 0 || !check_limit(self))
      return 0;
    file->shown = start_before(file, line->start, self->search->context_before);
    show_context(self, file, self->search->context_before, line->start);
    if (!self->result.is_cut)
      show(self, file, line, true);
    if (self->result.is_cut)
      return 0;
    after = self->search->context_after;
  }
}

/* Adds the file itself, for SEARCH_FILES and SEARCH_COUNTS. */
static int add_file(struct file_search *self, struct searched_file *file, struct matched_line *line,
                    struct error *error) {
  int found = next_line(self, file, 0, line, error);
  if (found <= 0 || !check_limit(self))
    return found < 0 ? -1 : 0;
  size_t count = 0;
  if (self->search->output == SEARCH_COUNTS) {
    for (; found > 0; count++)
      found = next_line(self, file, line->next, line, error);
    if (found < 0)
      return -1;
  }
  if (!open_entry(self))
    return 0;
  if (count > 0) {
    add_either(self, ",\"count\":", ":");
    buffer_add_number(self->answer, count);
  }
  add_either(self, "}", "");
  self->result.matches++;
  return 0;
}

static void note_gap(struct search_gap *self, const char *path, size_t length) {
  if (self->count++ == 0)
    (void)error_set(&self->first, "%.*s", (int)length, path);
}

/* The text is followed by MEMSCAN_SLACK readable bytes. With `is_text`, it is searched even if it
   has a NUL. Returns -1 if a line can be neither matched in bounded time nor skipped. */
static int search_text(struct file_search *self, const char *path, size_t path_length,
                       const char *text, size_t length, bool is_text, struct error *error) {
  if (utf8_is_marked(text, length)) {
    text += UTF8_MARK_LENGTH;
    length -= UTF8_MARK_LENGTH;
  }
  struct searched_file file = {
      .path = path, .path_length = path_length, .text = text, .length = length, .number = 1};
  struct matched_line line = {.start = 0};
  struct error reason;
  line_matcher_begin(self->pattern, text, length, is_text);
  self->written.length = 0;
  if (self->search->as_lines)
    printable_add(&self->written, path, path_length);
  else
    buffer_add_json(&self->written, path, path_length);
  int (*add)(struct file_search *, struct searched_file *, struct matched_line *, struct error *) =
      self->search->output == SEARCH_CONTENT ? add_lines : add_file;
  if (add(self, &file, &line, &reason) == 0) {
    if (self->result.matches == 0 && line_matcher_misses_return(self->pattern))
      note_gap(&self->result.returns, path, path_length);
    return 0;
  }
  return error_set(error, "%s: %.*s:%zu", reason.text, (int)path_length, path,
                   number_at(&file, &line));
}

/* --- files --- */

static const int open_flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;

/* Converts UTF-16 to UTF-8, and reserves the space behind the text. */
static void finish_text(struct buffer *text) {
  size_t length = text->length;
  bool is_utf16 = utf16_is_marked(text->bytes, length);
  (void)buffer_space(text, (is_utf16 ? UTF16_DECODED_MAX(length) - length : 0) + MEMSCAN_SLACK);
  if (is_utf16)
    text->length = utf16_decode(text->bytes, length, utf16_is_big_endian(text->bytes, length));
}

/* Reads a text, or nothing if the file is not searched. Returns -1 with errno if reading fails.
   Files of unknown size are read one byte beyond the limit, to notice those that are too large. */
static int fill(int fd, struct buffer *text, bool *is_large) {
  struct stat file;
  if (fstat(fd, &file) != 0)
    return -1;
  if (!S_ISREG(file.st_mode))
    return 0;
  *is_large = file.st_size > SEARCH_FILE_MAX;
  size_t size = file.st_size > 0 ? (size_t)file.st_size : SEARCH_FILE_MAX + 1;
  if (!*is_large && regular_file_fill(fd, -1, size, text) != 0)
    return -1;
  *is_large |= text->length > SEARCH_FILE_MAX;
  if (*is_large)
    text->length = 0;
  else
    finish_text(text);
  return 0;
}

/* Notes the full path of the first entry that could not be read; `below` is below the root. */
static void note_unread(struct file_search *self, const char *below) {
  struct error *first = &self->result.first_unread;
  struct error error;
  if (first->text[0] != '\0')
    return;
  char *path = memory_format("%s/%s", self->search->path, below);
  char *full = path_full(path, &error);
  (void)error_set(first, "%s", full != NULL ? full : path);
  free(full);
  free(path);
}

static void count_unread(struct file_search *self, const struct walk *walk) {
  const char *first;
  self->result.unread_directories = walk_unread(walk, &first);
  if (self->result.unread_directories > 0)
    note_unread(self, first);
}

static void read_entry(struct file_search *self, const struct walk_entry *entry,
                       const struct buffer *path, struct buffer *text) {
  bool is_large = false;
  int fd = openat(entry->parent, entry->name, open_flags);
  int result = fd >= 0 ? fill(fd, text, &is_large) : -1;
  descriptor_close(fd);
  if (is_large)
    note_gap(&self->result.large, path->bytes, path->length);
  if (result == 0)
    return;
  text->length = 0;
  /* Otherwise it has vanished, or is something else by now. */
  if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
    note_unread(self, entry->path);
    self->result.unread_files++;
  }
}

static bool count_entry(struct file_search *self, const struct walk_entry *entry,
                        const struct buffer *path) {
  enum search_scope_verdict verdict = search_scope_classify(self->scope, entry);
  bool is_directory = entry->type == DT_DIR, is_file = entry->type == DT_REG;
  if (verdict == SEARCH_SCOPE_EXCLUDED)
    note_gap(&self->result.excluded, path->bytes, path->length);
  if (verdict == SEARCH_SCOPE_TAKEN && entry->type == DT_LNK)
    note_gap(&self->result.links, path->bytes, path->length);
  self->result.hidden_directories += verdict == SEARCH_SCOPE_HIDDEN && is_directory;
  self->result.hidden_files += verdict == SEARCH_SCOPE_HIDDEN && is_file;
  self->result.files += verdict == SEARCH_SCOPE_TAKEN && is_file;
  return verdict == SEARCH_SCOPE_TAKEN;
}

static int search_below(struct file_search *self, struct walk *walk, struct buffer *path,
                        struct error *error) {
  struct walk_entry entry;
  struct buffer text = {0};
  int result = 0;
  const size_t prefix = path->length;
  /* Reserve the most that a file may take, so that the buffer never moves. */
  (void)buffer_space(&text, UTF16_DECODED_MAX(SEARCH_FILE_MAX) + MEMSCAN_SLACK);
  while (result == 0 && !self->result.is_cut && walk_next(walk, &entry)) {
    count_unread(self, walk);
    path->length = prefix;
    buffer_add(path, entry.path, entry.length);
    if (!count_entry(self, &entry, path)) {
      walk_skip(walk);
      continue;
    }
    text.length = 0;
    if (entry.type == DT_REG)
      read_entry(self, &entry, path, &text);
    if (text.length == 0)
      continue;
    result = search_text(self, path->bytes, path->length, text.bytes, text.length, false, error);
    /* Binary files matter only as long as nothing was found. */
    if (self->result.matches == 0 && memchr(text.bytes, '\0', text.length) != NULL)
      note_gap(&self->result.binary, path->bytes, path->length);
  }
  count_unread(self, walk);
  buffer_release(&text);
  return result;
}

static int search_directory(struct file_search *self, const char *path, struct error *error) {
  struct walk *walk = walk_new(path, true, error);
  if (walk == NULL)
    return -1;
  struct buffer prefixed = {0};
  search_scope_enter(self->scope, walk_root(walk));
  if (self->search->prefix_paths && strcmp(path, ".") != 0) {
    buffer_add_string(&prefixed, path);
    if (prefixed.bytes[prefixed.length - 1] != '/')
      buffer_add(&prefixed, "/", 1);
  }
  int result = search_below(self, walk, &prefixed, error);
  struct search_gap *unused = &self->result.unused_ignores;
  unused->count = search_scope_unused_ignores(self->scope, &unused->first);
  buffer_release(&prefixed);
  walk_free(walk);
  return result;
}

/* --- a file that the search names --- */

static int fail_to_read(struct error *error, const char *path, const char *why) {
  return path_fail(error, AT_FDCWD, path, "cannot read file (%s)", why);
}

#define SHORTER "it became shorter meanwhile"

/* A mapping has lost its file's end, and there is no way back into the search. */
static void end_at_bus_error(int number) {
  static const char text[] = "cannot read file (" SHORTER ")\n";
  (void)number;
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(1);
}

static int search_named(struct file_search *self, const char *path, const char *text, size_t length,
                        struct error *error) {
  const char *slash = strrchr(path, '/');
  const char *name = slash == NULL || self->search->prefix_paths ? path : slash + 1;
  return search_text(self, name, strlen(name), text, length, true, error);
}

/* Maps the file over a longer anonymous mapping, so that it is followed by readable bytes. */
static int search_mapping(struct file_search *self, int fd, size_t size, const char *path,
                          struct error *error) {
  const size_t mapped = size + MEMSCAN_SLACK;
  int result;
  char *mapping = mmap(NULL, mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return fail_to_read(error, path, strerror(errno));
  if (mmap(mapping, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
    result = fail_to_read(error, path, strerror(errno));
  } else {
    (void)madvise(mapping, size, MADV_SEQUENTIAL);
    (void)signal(SIGBUS, end_at_bus_error);
    result = search_named(self, path, mapping, size, error);
  }
  (void)munmap(mapping, mapped);
  return result;
}

/* Reads to the end, because the size of a file of /proc is unknown, and another may grow. Reserves
   memory for a large file only if it is one. */
static int search_copy(struct file_search *self, int fd, size_t size, const char *path,
                       struct error *error) {
  struct buffer copy = {0};
  int result = regular_file_fill(fd, -1, SEARCH_FILE_MAX + 1, &copy);
  if (result == 0 && copy.length > SEARCH_FILE_MAX)
    result = regular_file_fill(fd, -1, SEARCH_COPY_MAX - SEARCH_FILE_MAX, &copy);
  if (result != 0)
    result = fail_to_read(error, path, strerror(errno));
  else if (copy.length > SEARCH_COPY_MAX)
    result = size > SEARCH_FILE_MAX
                 ? path_fail(error, AT_FDCWD, path, "UTF-16 file exceeds 64 MiB limit")
                 : fail_to_read(error, path, "it has no end");
  else if (size > SEARCH_FILE_MAX && copy.length < size)
    result = fail_to_read(error, path, SHORTER);
  if (result == 0) {
    finish_text(&copy);
    result = search_named(self, path, copy.bytes, copy.length, error);
  }
  buffer_release(&copy);
  return result;
}

static int search_file(struct file_search *self, int fd, const char *path, struct error *error) {
  struct stat file;
  char mark[2];
  self->result.files = 1;
  if (fstat(fd, &file) != 0)
    return fail_to_read(error, path, strerror(errno));
  const size_t size = (size_t)file.st_size;
  const bool is_utf16 =
      pread(fd, mark, sizeof mark, 0) == sizeof mark && utf16_is_marked(mark, sizeof mark);
  return (size > SEARCH_FILE_MAX && !is_utf16 ? search_mapping : search_copy)(self, fd, size, path,
                                                                              error);
}

static int search_root(struct file_search *self, const char *path, struct error *error) {
  struct error reason;
  int fd = regular_file_open(AT_FDCWD, path, &reason);
  if (fd >= 0) {
    int result = search_file(self, fd, path, error);
    (void)close(fd);
    return result;
  }
  struct stat file = {0};
  if (stat(path, &file) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
    return path_fail(error, AT_FDCWD, path, "path not found");
  return S_ISDIR(file.st_mode) ? search_directory(self, path, error)
                               : error_set(error, "%s", reason.text);
}

int search_run(const struct search *self, struct buffer *content, struct search_result *result,
               struct error *error) {
  struct file_search search = {.search = self, .answer = content};
  search.scope = search_scope_new(self, error);
  if (search.scope != NULL)
    search.pattern = line_matcher_new(self->pattern, error);
  int found = search.pattern != NULL ? 0 : -1;
  if (found == 0) {
    add_either(&search, "[", "");
    found = search_root(&search, self->path, error);
    add_either(&search, "]", "");
  }
  *result = search.result;
  line_matcher_free(search.pattern);
  search_scope_free(search.scope);
  buffer_release(&search.written);
  return found;
}
