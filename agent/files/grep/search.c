#include "agent/files/grep/search.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/path.h"
#include "agent/files/access/regular_file.h"
#include "agent/files/glob/glob.h"
#include "agent/files/grep/line_matcher.h"
#include "agent/files/grep/match_list.h"
#include "agent/files/grep/named_file.h"
#include "agent/files/ignore/ignore.h"
#include "agent/files/tree/walk.h"
#include "base/memory.h"
#include "base/utf16.h"
#include "base/utf8.h"

/* --- which entries below the root are looked at --- */

struct selection {
  const struct search *search;
  struct globs *glob; /* NULL: none */
  bool is_negated;
  char *reference;    /* from the root; NULL: it is not below */
  struct buffer path; /* lexical, of the root with a "/", then of the entry; empty without a use */
  size_t root;        /* bytes of the former */
  struct ignore *ignore; /* NULL: ignore files and hidden names make no difference */
  size_t hidden_files;   /* that they have left out */
  size_t hidden_directories;
};

static int selection_init(struct selection *self, const struct search *search,
                          struct error *error) {
  *self = (struct selection){.search = search};
  if (search->glob == NULL)
    return 0;
  self->is_negated = search->glob[0] == '!';
  self->glob = globs_new();
  return globs_add(self->glob, search->glob + self->is_negated, error);
}

/* The root is this directory. */
static void selection_enter(struct selection *self, int root) {
  const struct search *search = self->search;
  self->reference = walk_reference(search->repository, search->path);
  if (search->respects_ignores)
    self->ignore = ignore_new(root, search->path, search->home, search->config);
  if (self->glob == NULL || search->repository == NULL)
    return;
  char *path = path_lexical(search->repository, search->path);
  buffer_add_string(&self->path, path);
  if (strcmp(path, "/") != 0)
    buffer_add(&self->path, "/", 1);
  self->root = self->path.length;
  free(path);
}

static void selection_release(struct selection *self) {
  ignore_free(self->ignore);
  buffer_release(&self->path);
  free(self->reference);
  globs_free(self->glob);
}

static bool matches_below_repository(struct selection *self, const struct walk_entry *entry) {
  if (self->root == 0)
    return false;
  self->path.length = self->root;
  buffer_add(&self->path, entry->path, entry->length + 1); /* with the NUL */
  const char *path = self->path.bytes;
  /* Of what is elsewhere it is the path with its "/", which only "**" and "*" match. */
  const char *below = path_below(path, self->search->repository);
  path = below != NULL ? below : path;
  return globs_judge(self->glob, path, strlen(path), entry->kind == WALK_DIRECTORY) == GLOBS_MATCH;
}

/* What the glob says. */
enum verdict { SILENT, TAKEN, LEFT_OUT };

static enum verdict judge_by_glob(struct selection *self, const struct walk_entry *entry) {
  bool is_directory = entry->kind == WALK_DIRECTORY;
  if (self->glob == NULL)
    return SILENT;
  if (self->is_negated)
    return matches_below_repository(self, entry) ? LEFT_OUT : SILENT;
  if (globs_judge(self->glob, entry->path, entry->length, is_directory) == GLOBS_MATCH ||
      matches_below_repository(self, entry))
    return TAKEN;
  return is_directory ? SILENT : LEFT_OUT;
}

/* Of each entry of the walk, in its order. A directory that is not taken is to be skipped. */
static bool selection_takes(struct selection *self, const struct walk_entry *entry) {
  if (self->reference != NULL && strcmp(self->reference, entry->path) == 0)
    return false;
  bool is_directory = entry->kind == WALK_DIRECTORY;
  enum verdict verdict = judge_by_glob(self, entry);
  if (verdict == LEFT_OUT || self->ignore == NULL || (verdict == TAKEN && !is_directory))
    return verdict != LEFT_OUT;
  /* A directory is judged in any case: what is in it may be asked for. */
  bool hides = ignore_hides(self->ignore, entry);
  if (!hides || verdict == TAKEN)
    return true;
  self->hidden_directories += is_directory;
  self->hidden_files += entry->kind == WALK_FILE;
  return false;
}

/* --- the text of one file --- */

/* The file that is being searched, from its start to its end. */
struct searched_file {
  const char *path;
  size_t path_length;
  const char *text;
  size_t length;
  size_t shown;   /* offset up to which lines were shown or are left out */
  size_t number;  /* of the line that starts at `counted` */
  size_t counted; /* offset */
};

/* A search under way. Once its result is cut, no further file is searched. */
struct file_search {
  const struct search *search;
  struct line_matcher *pattern;
  struct match_list list;
  struct search_result result;
};

static size_t number_of(struct searched_file *self, size_t start) {
  self->number += memscan_count(self->text + self->counted, start - self->counted, '\n');
  self->counted = start;
  return self->number;
}

/* Whether one more match is within the head limit; otherwise the answer ends here. */
static bool has_room(struct file_search *self) {
  self->result.is_cut |= self->result.matches == self->search->head_limit;
  return !self->result.is_cut;
}

static void show(struct file_search *self, struct searched_file *file,
                 const struct matched_line *line, bool is_match) {
  if (match_list_line(&self->list, number_of(file, line->start), file->text + line->start,
                      line->end - line->start, is_match))
    self->result.matches += is_match;
  else
    self->result.is_cut = true;
  file->shown = line->next;
}

/* Shows lines of context that start before `limit`. */
static void show_context(struct file_search *self, struct searched_file *file, size_t lines,
                         size_t limit) {
  for (; lines > 0 && file->shown < limit && !self->result.is_cut; lines--) {
    struct matched_line line;
    matched_line_from(&line, file->text, file->length, file->shown);
    show(self, file, &line, false);
  }
}

/* The start of the first of `lines` lines before this one that were not shown yet. */
static size_t start_before(const struct searched_file *file, size_t start, size_t lines) {
  for (; lines > 0 && start > file->shown; lines--) {
    const char *newline = memrchr(file->text + file->shown, '\n', start - 1 - file->shown);
    start = newline == NULL ? file->shown : (size_t)(newline - file->text) + 1;
  }
  return start;
}

static size_t number_at(const struct searched_file *file, const struct matched_line *line) {
  return 1 + memscan_count(file->text, line->start, '\n');
}

static void skip_line(struct file_search *self, const struct searched_file *file,
                      const struct matched_line *line) {
  struct search_result *result = &self->result;
  if (result->skipped++ > 0)
    return;
  int max = (int)sizeof result->first - 16; /* leaves room for the number */
  int length = file->path_length < (size_t)max ? (int)file->path_length : max;
  (void)snprintf(result->first, sizeof result->first, "%.*s:%zu", length, file->path,
                 number_at(file, line));
}

static int next_line(struct file_search *self, const struct searched_file *file, size_t from,
                     struct matched_line *line, struct error *error) {
  for (;;) {
    int found = line_matcher_next(self->pattern, from, line, error);
    if (found >= 0 || line->end - line->start <= SEARCH_LINE_MAX ||
        self->result.skipped == SEARCH_SKIPPED_MAX)
      return found;
    skip_line(self, file, line);
    from = line->next;
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
    if (found == 0 || !has_room(self))
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

/* For SEARCH_FILES and SEARCH_COUNTS: adds the file itself, once. */
static int add_file(struct file_search *self, const struct searched_file *file,
                    struct matched_line *line, struct error *error) {
  int found = next_line(self, file, 0, line, error);
  if (found <= 0 || !has_room(self))
    return found < 0 ? -1 : 0;
  size_t count = 0;
  if (self->search->output == SEARCH_COUNTS) {
    for (; found > 0; count++)
      found = next_line(self, file, line->next, line, error);
    if (found < 0)
      return -1;
  }
  if (self->search->output == SEARCH_COUNTS ? match_list_count(&self->list, count)
                                            : match_list_path(&self->list))
    self->result.matches++;
  else
    self->result.is_cut = true;
  return 0;
}

/* The text is followed by MEMSCAN_SLACK readable bytes; `is_text`: it is searched though it has a NUL.
   -1 when a line cannot be matched in bounded time and may not be skipped. */
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
  match_list_file(&self->list, path, path_length);
  int result = self->search->output == SEARCH_CONTENT ? add_lines(self, &file, &line, &reason)
                                                      : add_file(self, &file, &line, &reason);
  if (result == 0)
    return 0;
  return error_set(error, "%s: %.*s:%zu", reason.text, (int)path_length, path,
                   number_at(&file, &line));
}

/* --- files --- */

static const int open_flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;

/* One byte more than the limit, which tells a file that is too large. */
static const size_t read_max = SEARCH_FILE_MAX + 1;
static const size_t buffer_size = UTF16_DECODED_MAX(SEARCH_FILE_MAX) + MEMSCAN_SLACK;

/* Reads a file, and decodes UTF-16. Returns the length of the text; 0 too for what is not searched;
   -1 with errno where reading fails. A file whose size is known needs no second read to find its
   end. */
static ssize_t fill(int fd, char *buffer) {
  struct stat file;
  if (fstat(fd, &file) != 0)
    return -1;
  if (!S_ISREG(file.st_mode) || file.st_size > SEARCH_FILE_MAX)
    return 0;
  size_t filled = 0;
  ssize_t n = 1;
  while (n != 0 && filled < read_max && (filled == 0 || filled != (size_t)file.st_size)) {
    n = read(fd, buffer + filled, read_max - filled);
    if (n > 0)
      filled += (size_t)n;
    else if (n < 0 && errno != EINTR)
      return -1;
  }
  if (filled == read_max)
    return 0;
  bool is_big_endian;
  return (ssize_t)(utf16_is_marked(buffer, filled, &is_big_endian)
                       ? utf16_decode(buffer, filled, is_big_endian)
                       : filled);
}

/* What every path begins with. */
static void add_prefix(const struct search *search, struct buffer *path) {
  size_t length = strlen(search->path);
  if (!search->prefix_paths || strcmp(search->path, ".") == 0)
    return;
  buffer_add(path, search->path, length);
  if (search->path[length - 1] != '/')
    buffer_add(path, "/", 1);
}

/* Notes the full path of the first thing that could not be read; `below` is relative to the root. */
static void note_unread(struct file_search *self, const char *below) {
  struct error *first = &self->result.first_unread;
  struct error error;
  char *path;
  if (first->text[0] != '\0')
    return;
  if (asprintf(&path, "%s/%s", self->search->path, below) < 0)
    memory_exhausted("a path");
  char *full = path_full(path, &error);
  (void)error_set(first, "%s", full != NULL ? full : path);
  free(full);
  free(path);
}

/* The directories that the walk could not read so far. */
static void count_unread(struct file_search *self, const struct walk *walk) {
  if (walk_unread(walk) > 0)
    note_unread(self, walk_first_unread(walk));
  self->result.unread_directories = walk_unread(walk);
}

/* Returns the length of its text; 0 too where it is not searched. */
static size_t read_entry(struct file_search *self, const struct walk_entry *entry, char *buffer) {
  int fd = openat(entry->parent, entry->name, open_flags);
  ssize_t filled = fd >= 0 ? fill(fd, buffer) : -1;
  int reason = errno;
  if (fd >= 0)
    (void)close(fd);
  if (filled >= 0)
    return (size_t)filled;
  /* Otherwise it has vanished, or is something else by now. */
  if (reason != ENOENT && reason != ENOTDIR && reason != ELOOP) {
    note_unread(self, entry->path);
    self->result.unread_files++;
  }
  return 0;
}

/* `path` has the prefix. */
static int search_below(struct file_search *self, struct walk *walk, struct selection *selection,
                        struct buffer *path, char *buffer, struct error *error) {
  struct walk_entry entry;
  const size_t prefix = path->length;
  while (!self->result.is_cut && walk_next(walk, &entry)) {
    count_unread(self, walk);
    if (!selection_takes(selection, &entry)) {
      walk_skip(walk);
      continue;
    }
    size_t filled = entry.kind == WALK_FILE ? read_entry(self, &entry, buffer) : 0;
    if (filled == 0)
      continue;
    path->length = prefix;
    buffer_add(path, entry.path, entry.length);
    if (search_text(self, path->bytes, path->length, buffer, filled, false, error) != 0)
      return -1;
  }
  count_unread(self, walk);
  return 0;
}

static void count_hidden(struct search_result *result, const struct selection *selection) {
  result->hidden_directories = selection->hidden_directories;
  result->hidden_files = selection->hidden_files;
  if (selection->ignore == NULL)
    return;
  const char *first;
  result->unused_ignores = ignore_unused(selection->ignore, &first);
  (void)error_set(&result->first_unused, "%s", first);
}

static int search_directory(struct file_search *self, const char *path, struct selection *selection,
                            struct error *error) {
  struct walk *walk = walk_new(path, walk_default_excludes, true, error);
  if (walk == NULL)
    return -1;
  struct buffer prefixed = {0};
  char *buffer = memory_allocate(buffer_size);
  selection_enter(selection, walk_root(walk));
  add_prefix(self->search, &prefixed);
  int result = search_below(self, walk, selection, &prefixed, buffer, error);
  count_hidden(&self->result, selection);
  free(buffer);
  buffer_release(&prefixed);
  walk_free(walk);
  return result;
}

static int search_file(struct file_search *self, int fd, const char *path, struct error *error) {
  struct named_file file;
  if (named_file_read(&file, fd, path, error) != 0)
    return -1;
  const char *slash = strrchr(path, '/');
  const char *name = slash == NULL || self->search->prefix_paths ? path : slash + 1;
  int result = search_text(self, name, strlen(name), file.text, file.length, true, error);
  named_file_release(&file);
  return result;
}

static int search_root(struct file_search *self, const char *path, struct selection *selection,
                       struct error *error) {
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
  return S_ISDIR(file.st_mode) ? search_directory(self, path, selection, error)
                               : error_set(error, "%s", reason.text);
}

int search_run(const struct search *self, struct buffer *content, struct search_result *result,
               struct error *error) {
  struct selection selection;
  struct line_matcher *pattern = NULL;
  int found = selection_init(&selection, self, error);
  if (found == 0 && (pattern = line_matcher_new(self->pattern, error)) == NULL)
    found = -1;
  if (found == 0) {
    struct file_search search = {.search = self, .pattern = pattern};
    match_list_begin(&search.list, content, self->as_lines);
    found = search_root(&search, self->path, &selection, error);
    match_list_end(&search.list);
    *result = search.result;
  }
  line_matcher_free(pattern);
  selection_release(&selection);
  return found;
}
