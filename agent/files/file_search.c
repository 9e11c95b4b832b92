#include "agent/files/file_search.h"

#include <string.h>

#include "agent/files/text_slice.h"

/* A text on its way into the answer, from the start to the end. */
struct page {
  const char *text;
  size_t length;
  size_t shown;   /* up to here it was shown, or is not going to be */
  size_t number;  /* of the line that starts at */
  size_t counted; /* this offset */
};

void file_search_init(struct file_search *self, const struct search *asked, struct pattern *pattern,
                      struct text *content) {
  *self = (struct file_search){.asked = asked, .pattern = pattern};
  match_list_begin(&self->list, content);
}

void file_search_finish(struct file_search *self, struct search_result *result) {
  match_list_end(&self->list);
  *result = (struct search_result){.matches = self->matches, .is_cut = self->is_cut};
}

static size_t number_of(struct page *self, size_t start) {
  self->number += byte_scan_count(self->text + self->counted, start - self->counted, '\n');
  self->counted = start;
  return self->number;
}

/* Whether one more may be shown; else the answer ends in front of it. */
static bool has_room(struct file_search *self) {
  self->is_cut |= self->matches == self->asked->head_limit;
  return !self->is_cut;
}

static void show(struct file_search *self, struct page *page, const struct line *line,
                 bool is_match) {
  if (match_list_line(&self->list, number_of(page, line->start), page->text + line->start,
                      line->end - line->start, is_match))
    self->matches += is_match;
  else
    self->is_cut = true;
  page->shown = line->next;
}

/* Lines of context up to this offset. */
static void show_context(struct file_search *self, struct page *page, size_t lines, size_t limit) {
  for (; lines > 0 && page->shown < limit && !self->is_cut; lines--) {
    struct line line;
    line_from(&line, page->text, page->length, page->shown);
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

static int add_lines(struct file_search *self, const char *text, size_t length, struct line *line,
                     struct error *error) {
  struct page page = {.text = text, .length = length, .number = 1};
  size_t after = 0; /* a match */
  for (size_t at = 0;; at = line->next) {
    int found = pattern_next(self->pattern, at, line, error);
    if (found < 0)
      return -1;
    show_context(self, &page, after, found ? line->start : length);
    if (found == 0 || !has_room(self))
      return 0;
    page.shown = start_before(&page, line->start, self->asked->context_before);
    show_context(self, &page, self->asked->context_before, line->start);
    if (!self->is_cut)
      show(self, &page, line, true);
    if (self->is_cut)
      return 0;
    after = self->asked->context_after;
  }
}

/* The file itself, once. */
static int add_file(struct file_search *self, struct line *line, struct error *error) {
  int found = pattern_next(self->pattern, 0, line, error);
  if (found <= 0 || !has_room(self))
    return found < 0 ? -1 : 0;
  size_t count = 0;
  if (self->asked->output == SEARCH_COUNTS) {
    for (; found > 0; count++)
      found = pattern_next(self->pattern, line->next, line, error);
    if (found < 0)
      return -1;
  }
  if (self->asked->output == SEARCH_COUNTS ? match_list_count(&self->list, count)
                                           : match_list_path(&self->list))
    self->matches++;
  else
    self->is_cut = true;
  return 0;
}

int file_search_run(struct file_search *self, const char *path, size_t path_length,
                    const char *text, size_t length, struct error *error) {
  if (text_slice_is_marked(text, length)) {
    text += TEXT_SLICE_MARK_LENGTH;
    length -= TEXT_SLICE_MARK_LENGTH;
  }
  struct line line = {.start = 0};
  struct error reason;
  pattern_begin(self->pattern, text, length);
  match_list_file(&self->list, path, path_length);
  int result = self->asked->output == SEARCH_CONTENT ? add_lines(self, text, length, &line, &reason)
                                                     : add_file(self, &line, &reason);
  if (result == 0)
    return 0;
  size_t number = 1 + byte_scan_count(text, line.start, '\n');
  return error_set(error, "%s: %.*s:%zu", reason.text, (int)path_length, path, number);
}
