#include "agent/files/grep/file_search.h"

#include <stdio.h>
#include <string.h>

#include "agent/files/access/line_range.h"

/* A text on its way into the answer, from the start to the end. */
struct page {
  const char *path;
  size_t path_length;
  const char *text;
  size_t length;
  size_t shown;   /* up to here it was shown, or is not going to be */
  size_t number;  /* of the line that starts at */
  size_t counted; /* this offset */
};

void file_search_init(struct file_search *self, const struct search *asked,
                      struct line_matcher *pattern, struct buffer *content) {
  *self = (struct file_search){.asked = asked, .pattern = pattern};
  match_json_begin(&self->list, content);
}

void file_search_finish(struct file_search *self, struct search_result *result) {
  match_json_end(&self->list);
  *result = self->result;
}

static size_t number_of(struct page *self, size_t start) {
  self->number += memscan_count(self->text + self->counted, start - self->counted, '\n');
  self->counted = start;
  return self->number;
}

/* Whether one more may be shown; else the answer ends in front of it. */
static bool has_room(struct file_search *self) {
  self->result.is_cut |= self->result.matches == self->asked->head_limit;
  return !self->result.is_cut;
}

static void show(struct file_search *self, struct page *page, const struct matched_line *line,
                 bool is_match) {
  if (match_json_line(&self->list, number_of(page, line->start), page->text + line->start,
                      line->end - line->start, is_match))
    self->result.matches += is_match;
  else
    self->result.is_cut = true;
  page->shown = line->next;
}

/* Lines of context up to this offset. */
static void show_context(struct file_search *self, struct page *page, size_t lines, size_t limit) {
  for (; lines > 0 && page->shown < limit && !self->result.is_cut; lines--) {
    struct matched_line line;
    matched_line_from(&line, page->text, page->length, page->shown);
    show(self, page, &line, false);
  }
}

/* Where so many lines in front of this one start, without what was shown. */
static size_t start_before(const struct page *page, size_t start, size_t lines) {
  for (; lines > 0 && start > page->shown; lines--) {
    const char *newline = memrchr(page->text + page->shown, '\n', start - 1 - page->shown);
    start = newline == NULL ? page->shown : (size_t)(newline - page->text) + 1;
  }
  return start;
}

static size_t number_at(const struct page *page, const struct matched_line *line) {
  return 1 + memscan_count(page->text, line->start, '\n');
}

static void pass_over(struct file_search *self, const struct page *page,
                      const struct matched_line *line) {
  struct search_result *result = &self->result;
  if (result->passed_over++ > 0)
    return;
  int most = (int)sizeof result->first - 16; /* for the number */
  int length = page->path_length < (size_t)most ? (int)page->path_length : most;
  (void)snprintf(result->first, sizeof result->first, "%.*s:%zu", length, page->path,
                 number_at(page, line));
}

static int next_line(struct file_search *self, const struct page *page, size_t from,
                     struct matched_line *line, struct error *error) {
  for (;;) {
    int found = line_matcher_next(self->pattern, from, line, error);
    if (found >= 0 || line->end - line->start <= SEARCH_LINE_MAX ||
        self->result.passed_over == SEARCH_PASSED_MAX)
      return found;
    pass_over(self, page, line);
    from = line->next;
  }
}

static int add_lines(struct file_search *self, struct page *page, struct matched_line *line,
                     struct error *error) {
  size_t after = 0; /* a match */
  for (size_t at = 0;; at = line->next) {
    int found = next_line(self, page, at, line, error);
    if (found < 0)
      return -1;
    show_context(self, page, after, found ? line->start : page->length);
    if (found == 0 || !has_room(self))
      return 0;
    page->shown = start_before(page, line->start, self->asked->context_before);
    show_context(self, page, self->asked->context_before, line->start);
    if (!self->result.is_cut)
      show(self, page, line, true);
    if (self->result.is_cut)
      return 0;
    after = self->asked->context_after;
  }
}

/* The file itself, once. */
static int add_file(struct file_search *self, const struct page *page, struct matched_line *line,
                    struct error *error) {
  int found = next_line(self, page, 0, line, error);
  if (found <= 0 || !has_room(self))
    return found < 0 ? -1 : 0;
  size_t count = 0;
  if (self->asked->output == SEARCH_COUNTS) {
    for (; found > 0; count++)
      found = next_line(self, page, line->next, line, error);
    if (found < 0)
      return -1;
  }
  if (self->asked->output == SEARCH_COUNTS ? match_json_count(&self->list, count)
                                           : match_json_path(&self->list))
    self->result.matches++;
  else
    self->result.is_cut = true;
  return 0;
}

int file_search_run(struct file_search *self, const char *path, size_t path_length,
                    const char *text, size_t length, struct error *error) {
  if (line_range_is_marked(text, length)) {
    text += LINE_RANGE_MARK_LENGTH;
    length -= LINE_RANGE_MARK_LENGTH;
  }
  struct page page = {
      .path = path, .path_length = path_length, .text = text, .length = length, .number = 1};
  struct matched_line line = {.start = 0};
  struct error reason;
  line_matcher_begin(self->pattern, text, length);
  match_json_file(&self->list, path, path_length);
  int result = self->asked->output == SEARCH_CONTENT ? add_lines(self, &page, &line, &reason)
                                                     : add_file(self, &page, &line, &reason);
  if (result == 0)
    return 0;
  return error_set(error, "%s: %.*s:%zu", reason.text, (int)path_length, path,
                   number_at(&page, &line));
}
