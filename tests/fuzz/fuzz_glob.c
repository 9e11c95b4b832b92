/* The first line is a glob; each other line is a path, that of a directory if it ends in "/". Short
   ones are compared with the simplest matcher, which tries everything and gets the expanded braces.
   Longer ones only have to end. */
#include "agent/files/glob/glob.h"
#include "tests/fuzz/fuzz.h"

#define PLAIN_MAX 64

/* Indexed by `begins` and the rest of glob and path: combinations that failed, so that trying
   everything ends. */
static bool in_vain[2][PLAIN_MAX + 1][PLAIN_MAX + 1];

/* Whether the byte is in glob[0..length), a bracket expression. */
static bool in_brackets(const char *glob, size_t length, unsigned char byte) {
  const unsigned char *end = (const unsigned char *)glob + length - 1;
  const unsigned char *at = (const unsigned char *)glob + 1;
  bool negated = *at == '!' || *at == '^';
  at += negated;
  bool found = false;
  while (at < end) {
    at += *at == '\\';
    unsigned char first = *at++;
    unsigned char last = first;
    if (*at == '-' && at + 1 < end) {
      at++;
      at += *at == '\\';
      last = *at++;
    }
    found = found || (first <= byte && byte <= last);
  }
  return found != negated;
}

static bool plain(const char *glob, const char *path, bool begins);

/* `glob` follows a "**" that is a whole component. */
static bool plain_globstar(const char *glob, const char *path) {
  if (*glob == '\0')
    return *path != '\0';
  glob += *glob == '\\' ? 2 : 1;
  for (;;) {
    if (plain(glob, path, true))
      return true;
    path = strchr(path, '/');
    if (path == NULL)
      return false;
    path++;
  }
}

static bool plain_untried(const char *glob, const char *path, bool begins) {
  if (*glob == '\0')
    return *path == '\0';
  if (begins && strncmp(glob, "**", 2) == 0 &&
      (glob[2] == '\0' || glob[2] == '/' || strncmp(glob + 2, "\\/", 2) == 0))
    return plain_globstar(glob + 2, path);
  if (*glob == '*') {
    for (;; path++) {
      if (plain(glob + 1, path, false))
        return true;
      if (*path == '\0' || *path == '/')
        return false;
    }
  }
  if (*path == '\0')
    return false;
  size_t unit = glob_text_unit(glob);
  if (*glob == '?')
    return *path != '/' && plain(glob + 1, path + 1, false);
  if (*glob == '[')
    return *path != '/' && in_brackets(glob, unit, (unsigned char)*path) &&
           plain(glob + unit, path + 1, false);
  glob += *glob == '\\';
  return *glob == *path && plain(glob + 1, path + 1, *glob == '/');
}

/* `begins`: glob is where a component begins. */
static bool plain(const char *glob, const char *path, bool begins) {
  bool *vain = &in_vain[begins][strlen(glob)][strlen(path)];
  *vain = *vain || !plain_untried(glob, path, begins);
  return !*vain;
}

/* One of the globs that the braces expand to, without the part in front of it. */
static bool plain_one(const char *one, const char *path, bool is_directory) {
  char glob[PLAIN_MAX + 1];
  size_t length = strlen(one);
  memcpy(glob, one, length + 1);
  size_t last = 0; /* the start of the last unit */
  for (size_t at = 0; at < length; at += glob_text_unit(glob + at))
    last = at;
  if (length > 0 && glob[length - 1] == '/' && (length - last == 1 || glob[last] == '\\')) {
    if (!is_directory)
      return false;
    glob[last] = '\0';
  }
  memset(in_vain, 0, sizeof in_vain);
  return glob[0] != '\0' && plain(glob, path, true);
}

static bool plain_any(const char *text, const struct buffer *texts, const char *path,
                      bool is_directory) {
  const char *first = strchr(text, '/');
  const char *slash = first == NULL || first[1] == '\0' ? strrchr(path, '/') : NULL;
  for (size_t at = 0; at < texts->length; at += strlen(texts->bytes + at) + 1) {
    const char *one = texts->bytes + at;
    one += strncmp(one, "./", 2) == 0;
    one += *one == '/';
    if (plain_one(one, slash == NULL ? path : slash + 1, is_directory))
      return true;
  }
  return false;
}

/* A path as glob.h requires it: without slashes at its ends, and without double slashes. */
static bool is_path(const char *path, size_t length) {
  return length > 0 && path[0] != '/' && path[length - 1] != '/' && strstr(path, "//") == NULL;
}

/* A file that matches is below each of its directories. */
static void check_directories(const struct globs *globs, const char *path) {
  for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++)
    demand(globs_reach(globs, path, (size_t)(slash - path)) != GLOBS_NOT_BELOW);
}

static void check_path(const struct globs *globs, const char *text, const struct buffer *texts,
                       char *path) {
  size_t length = strlen(path);
  bool is_directory = length > 0 && path[length - 1] == '/';
  length -= is_directory;
  bool fits = globs_classify(globs, path, length, is_directory) == GLOBS_MATCH;
  path[length] = '\0';
  if (is_path(path, length) && fits)
    check_directories(globs, path);
  if (is_path(path, length) && strlen(text) <= PLAIN_MAX && length <= PLAIN_MAX)
    demand(fits == plain_any(text, texts, path, is_directory));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  demand(text != NULL);
  if (size > 0)
    memcpy(text, data, size);
  text[size] = '\0';
  char *rest = text;
  char *line = strsep(&rest, "\n");
  struct error error = {.text = ""};
  struct globs *globs = globs_new();
  int result = globs_add(globs, line, &error);
  demand((result == 0) == (error.text[0] == '\0'));
  if (result == 0) {
    struct buffer texts = {0};
    demand(glob_text_check(line, &error) == 0 && glob_text_expand(line, &texts, &error) == 0);
    demand(texts.length <= GLOB_EXPANDED_MAX);
    for (char *path; (path = strsep(&rest, "\n")) != NULL;)
      check_path(globs, line, &texts, path);
    buffer_release(&texts);
  }
  globs_free(globs);
  free(text);
  return 0;
}
