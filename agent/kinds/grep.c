#include <stdlib.h>
#include <string.h>

#include "agent/files/grep/search.h"
#include "agent/kinds/kind.h"

struct grep {
  struct search search; /* without what `work` sets */
  char *pattern, *glob;
  bool search_hidden;
};

/* The forms of "directory" and "file" for a number. */
#define DIRECTORIES(COUNT) ((COUNT) == 1 ? "directory" : "directories")
#define FILES(COUNT) ((COUNT) == 1 ? "file" : "files")

static void warn_gap(struct output *output, const struct search_gap *gap, const char *one,
                     const char *several) {
  if (gap->count == 1)
    kind_warn(output, "grep ", "did not search 1 %s: %s", one, gap->first.text);
  else if (gap->count > 1)
    kind_warn(output, "grep ", "did not search %zu %s, the first: %s", gap->count, several,
              gap->first.text);
}

/* Says what was not searched, because an empty answer must not look like a proof of absence. */
static void warn_gaps(const struct search *self, const struct search_result *result,
                      struct output *output) {
  if (self->glob != NULL && result->files == 0)
    kind_warn(output, "grep ",
              self->glob[0] == '!' ? "found no file that the glob '%s' does not leave out"
                                   : "found no file that matches the glob '%s'",
              self->glob);
  warn_gap(output, &result->excluded, "directory that is always left out",
           "directories that are always left out");
  warn_gap(output, &result->large, "file over 1,000,000 bytes", "files over 1,000,000 bytes");
  warn_gap(output, &result->binary, "file that contains NUL bytes", "files that contain NUL bytes");
  warn_gap(output, &result->links, "symbolic link", "symbolic links");
  warn_gap(output, &result->returns,
           "file for \\r at the end of its lines, where the pattern matches",
           "files for \\r at the end of their lines, where the pattern matches");
}

/* Adds the warnings. Fails if nothing was found and part of what was asked for could not be
   searched. */
static int report(const struct search *self, const struct search_result *result,
                  struct output *output, struct error *error) {
  struct error skipped = {.text = ""}, unread = {.text = ""};
  bool has_skipped = result->skipped.count > 0;
  bool has_unread = result->unread_directories + result->unread_files > 0;
  if (has_skipped)
    (void)error_set(&skipped,
                    "passed over %zu lines that are too long for the pattern, the first in %s",
                    result->skipped.count, result->skipped.first.text);
  if (has_unread)
    (void)error_set(&unread, "%zu %s and %zu %s could not be read, the first: %s",
                    result->unread_directories, DIRECTORIES(result->unread_directories),
                    result->unread_files, FILES(result->unread_files), result->first_unread.text);
  if (result->matches == 0 && (has_skipped || has_unread))
    return error_set(error, "nothing found, but %s%s%s%s", has_skipped ? "grep " : "", skipped.text,
                     has_skipped && has_unread ? "; " : "", unread.text);
  if (result->is_cut)
    kind_warn_cut(output, "grep ", result->matches, "matches");
  if (has_skipped)
    kind_warn(output, "grep ", "%s", skipped.text);
  if (has_unread)
    kind_warn(output, "", "%s", unread.text);
  if (result->hidden_directories + result->hidden_files > 0)
    kind_warn(output, "grep ", "left out %zu %s and %zu %s that are hidden or ignored",
              result->hidden_directories, DIRECTORIES(result->hidden_directories),
              result->hidden_files, FILES(result->hidden_files));
  if (result->matches == 0 && !result->is_cut)
    warn_gaps(self, result, output);
  if (result->unused_ignores.count > 0)
    kind_warn(output, "grep ", "could not use %zu ignore files, the first: %s",
              result->unused_ignores.count, result->unused_ignores.first.text);
  return 0;
}

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct grep *self = step->fields;
  char *repository = kind_repository(step);
  struct search search = self->search;
  search.path = step->target;
  search.pattern = self->pattern;
  search.glob = self->glob;
  search.repository = repository;
  search.respects_ignores = !self->search_hidden;
  search.home = getenv("HOME");
  search.config = getenv("XDG_CONFIG_HOME");
  search.as_lines = output->for_model;
  struct search_result result;
  int found = search_run(&search, &output->content, &result, error);
  free(repository);
  if (found != 0)
    return -1;
  if (output->for_model && output->content.length == 0)
    buffer_add_string(&output->content, "(no matches)");
  return report(&search, &result, output, error);
}

static const struct step_choice outputs[] = {[SEARCH_CONTENT] = {"content", 0},
                                             [SEARCH_FILES] = {"filesWithMatches", 1},
                                             [SEARCH_COUNTS] = {"count", 2},
                                             {0}};

static const struct step_field fields[] = {
    STEP_FIELD("pattern", text, struct grep, pattern, .required = true, .minimum = 1),
    STEP_FIELD("glob", text, struct grep, glob),
    STEP_FIELD("headLimit", count, struct grep, search.head_limit, .fallback = 1000),
    STEP_FIELD("contextBefore", count, struct grep, search.context_before),
    STEP_FIELD("contextAfter", count, struct grep, search.context_after),
    STEP_FIELD("prefixPaths", flag, struct grep, search.prefix_paths),
    STEP_FIELD("searchHidden", flag, struct grep, search_hidden, .fallback = true),
    STEP_FIELD("outputMode", choice, struct grep, search.output, .choices = outputs)};

const struct kind grep_kind = {KIND_WIRE("grep", 5, "path", struct grep), .work = work,
                               .has_content = true, .read_only = true};
