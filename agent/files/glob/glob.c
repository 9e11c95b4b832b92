#include "agent/files/glob/glob.h"

#include <stdlib.h>
#include <string.h>

#include "agent/files/glob/glob_text.h"
#include "agent/files/glob/wildcard.h"
#include "base/memory.h"

/* One of the globs without braces that the glob stands for. */
struct alternative {
  const char *text; /* in the texts */
  size_t length;
  bool only_directories;
};

struct glob {
  char *texts;
  bool is_of_name; /* no "/" in it, except at its end */
  size_t count;
  struct alternative alternatives[];
};

/* The glob without the "/" at its ends. */
static struct alternative read_alternative(const char *text) {
  text += text[0] == '.' && text[1] == '/';
  text += text[0] == '/';
  struct alternative self = {.text = text, .length = strlen(text)};
  size_t last = 0; /* unit */
  for (size_t at = 0; at < self.length; at += glob_text_unit(text + at))
    last = at;
  const char *end = text + last;
  if (strcmp(end, "/") == 0 || strcmp(end, "\\/") == 0) {
    self.only_directories = true;
    self.length = last;
  }
  return self;
}

static size_t count_texts(const struct glob_texts *texts) {
  size_t count = 0;
  for (size_t at = 0; at < texts->length; at += strlen(texts->text + at) + 1)
    count++;
  return count;
}

struct glob *glob_new(const char *text, struct error *error) {
  struct glob_texts texts;
  if (glob_text_check(text, error) != 0 || wildcard_check(text, strlen(text), error) != 0 ||
      glob_text_expand(text, &texts, error) != 0)
    return NULL;
  size_t count = count_texts(&texts);
  struct glob *self = memory_allocate(sizeof *self + count * sizeof *self->alternatives);
  self->texts = texts.text;
  const char *slash = strchr(text, '/');
  self->is_of_name = slash == NULL || slash[1] == '\0';
  self->count = 0;
  for (const char *one = texts.text; self->count < count; one += strlen(one) + 1)
    self->alternatives[self->count++] = read_alternative(one);
  return self;
}

void glob_free(struct glob *self) {
  if (self == NULL)
    return;
  free(self->texts);
  free(self);
}

bool glob_matches(const struct glob *self, const char *path, size_t length, bool is_directory) {
  const char *slash = self->is_of_name && length > 0 ? memrchr(path, '/', length) : NULL;
  if (slash != NULL) {
    length -= (size_t)(slash + 1 - path);
    path = slash + 1;
  }
  for (size_t i = 0; i < self->count; i++) {
    const struct alternative *one = &self->alternatives[i];
    if ((is_directory || !one->only_directories) && one->length > 0 && length > 0 &&
        wildcard_matches(one->text, one->length, path, length))
      return true;
  }
  return false;
}
