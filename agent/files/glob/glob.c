#include "agent/files/glob/glob.h"

#include <stdlib.h>
#include <string.h>

#include "agent/files/glob/glob_names.h"
#include "agent/files/glob/glob_text.h"
#include "base/memory.h"

/*
 * A glob is compiled to its alternatives without braces, these to components, these to tokens, and
 * matched like that. No automaton is needed, since at both levels a star that has found the first
 * place for what stands between it and the next star never has to find another one: a later place
 * leaves less of the path for the rest. So only the last star is ever tried again.
 */

struct component {
  struct glob_name name;
  bool is_globstar; /* a "**" */
};

struct alternative {
  size_t component; /* index of the first */
  size_t components;
  bool only_directories;
  int last_byte; /* in which every path that fits ends, or -1 */
};

struct glob {
  struct glob_names names;
  struct component *components;
  struct alternative *alternatives;
  size_t component_count;
  size_t alternative_count;
  bool is_of_name; /* no "/" in it */
};

/* A "/", which may be escaped. */
static bool is_slash(const char *text) {
  return text[0] == '/' || (text[0] == '\\' && text[1] == '/');
}

static int add_component(struct glob *self, const char *text, size_t length, struct error *error) {
  struct component *component = &self->components[self->component_count++];
  component->is_globstar = length == 2 && memcmp(text, "**", 2) == 0;
  return glob_names_add(&self->names, &component->name, text, length, error);
}

static int add_alternative(struct glob *self, const char *text, struct error *error) {
  if (text[0] == '.' && text[1] == '/')
    text++;
  if (text[0] == '/')
    text++;
  struct alternative alternative = {.component = self->component_count, .last_byte = -1};
  size_t start = 0, at = 0;
  for (; text[at] != '\0'; at += glob_text_unit(text + at)) {
    if (!is_slash(text + at))
      continue;
    if (add_component(self, text + start, at - start, error) != 0)
      return -1;
    start = at + glob_text_unit(text + at);
  }
  /* What is behind the last slash is a component unless it is nothing. */
  if (start == at)
    alternative.only_directories = self->component_count > alternative.component;
  else if (add_component(self, text + start, at - start, error) != 0)
    return -1;
  alternative.components = self->component_count - alternative.component;
  if (alternative.components > 0)
    alternative.last_byte =
        glob_names_last_byte(&self->names, &self->components[self->component_count - 1].name);
  self->alternatives[self->alternative_count++] = alternative;
  return 0;
}

struct glob *glob_new(const char *text, struct error *error) {
  struct glob_texts texts;
  if (glob_text_check(text, error) != 0 || glob_text_expand(text, &texts, error) != 0)
    return NULL;
  struct glob *self = memory_allocate(sizeof *self);
  *self = (struct glob){.is_of_name = strchr(text, '/') == NULL};
  glob_names_init(&self->names, texts.length);
  self->components = memory_allocate(texts.length * sizeof *self->components);
  self->alternatives = memory_allocate(texts.length * sizeof *self->alternatives);
  int result = 0;
  for (size_t at = 0; result == 0 && at < texts.length; at += strlen(texts.text + at) + 1)
    result = add_alternative(self, texts.text + at, error);
  free(texts.text);
  if (result != 0) {
    glob_free(self);
    return NULL;
  }
  return self;
}

void glob_free(struct glob *self) {
  if (self == NULL)
    return;
  glob_names_release(&self->names);
  free(self->components);
  free(self->alternatives);
  free(self);
}

/* The slash behind the component that begins at `at`, or the end. */
static size_t component_end(const char *path, size_t length, size_t at) {
  const char *slash = memchr(path + at, '/', length - at);
  return slash == NULL ? length : (size_t)(slash - path);
}

/* As glob_names_fits, by components; `at` is behind the length when there is none left. */
static bool fits_path(const struct glob *self, const struct alternative *alternative,
                      const char *path, size_t length) {
  const struct component *component = self->components + alternative->component;
  const struct component *end = component + alternative->components;
  const struct component *behind_star = NULL;
  size_t star_at = 0;
  for (size_t at = 0; at <= length;) {
    if (component < end && component->is_globstar) {
      behind_star = ++component;
      star_at = at;
      if (component == end)
        return true;
      continue;
    }
    size_t stop = component_end(path, length, at);
    if (component < end && glob_names_fits(&self->names, &component->name, path + at, stop - at)) {
      component++;
      at = stop + 1;
    } else if (behind_star != NULL) {
      star_at = component_end(path, length, star_at) + 1;
      at = star_at;
      component = behind_star;
    } else {
      return false;
    }
  }
  return component == end;
}

bool glob_matches(const struct glob *self, const char *path, size_t length, bool is_directory) {
  if (length == 0)
    return false;
  if (self->is_of_name) {
    const char *slash = memrchr(path, '/', length);
    if (slash != NULL) {
      length -= (size_t)(slash + 1 - path);
      path = slash + 1;
    }
  }
  int last = length > 0 ? (unsigned char)path[length - 1] : -1;
  for (size_t i = 0; i < self->alternative_count; i++) {
    const struct alternative *alternative = &self->alternatives[i];
    if (alternative->last_byte >= 0 && alternative->last_byte != last)
      continue;
    if ((is_directory || !alternative->only_directories) &&
        fits_path(self, alternative, path, length))
      return true;
  }
  return false;
}
