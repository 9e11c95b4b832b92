#include "agent/files/grep/file_search.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

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

void file_search_init(struct file_search *self, const struct search *what,
                      struct line_matcher *pattern, struct buffer *content) {
  *self = (struct file_search){.search = what, .pattern = pattern};
  match_list_begin(&self->list, content, what->as_lines);
}

void file_search_finish(struct file_search *self, struct search_result *result) {
  match_list_end(&self->list);
  *result = self->result;
}

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

int file_search_run(struct file_search *self, const char *path, size_t path_length,
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
