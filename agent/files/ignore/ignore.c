#include "agent/files/ignore/ignore.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "agent/files/access/regular_file.h"
#include "agent/files/glob/glob.h"
#include "base/buffer.h"
#include "base/descriptor.h"
#include "base/memory.h"

/* There is a level for each directory from "/" to that of the last entry. The rules of git's files
   count only in a repository, and not above it. */
enum kind { RGIGNORE, IGNORE, GITIGNORE, EXCLUDE, GLOBAL, KINDS };

#define NOWHERE SIZE_MAX

static const char *const names[] = {
    [RGIGNORE] = ".rgignore", [IGNORE] = ".ignore", [GITIGNORE] = ".gitignore"};
static const char exclude[] = "info/exclude"; /* in git's directory */

struct level {
  struct globs *rules[KINDS]; /* NULL for none */
  size_t text;                /* bytes of their files, without the global one */
  size_t start;               /* the offset, in a full path, of the part below the directory */
  size_t repository;          /* the level of the repository that it is in, or NOWHERE */
};

/* Those above the root, whose path has fewer bytes than PATH_MAX, and those of the walk. */
#define DEPTH_MAX (PATH_MAX / 2 + WALK_DEPTH_MAX)

struct ignore {
  struct globs *global;
  struct level *levels;
  size_t count;
  size_t base;        /* levels above the root */
  struct buffer path; /* the full path of the root with a "/", then that of the entry */
  size_t root;        /* bytes of the root's path */
  size_t text;        /* bytes of all files */
  size_t unused;
  struct error first_unused; /* the path of the first one */
};

/* --- files --- */

#define CONFIG_MAX ((size_t)256 * 1024)

enum found { FILE_NONE, FILE_READ, FILE_UNREADABLE };

static const int reading = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
static const int looking = O_PATH | O_DIRECTORY | O_CLOEXEC;

/* Reads a regular file of at most `max` bytes into an empty buffer; a longer one is unreadable. */
static enum found read_file(int at, const char *path, size_t max, struct buffer *text) {
  struct stat file;
  /* Most directories have no such file, and anything but a regular file must not be opened. EACCES,
     as in the home directory of another user, does not mean that there is one. */
  if (fstatat(at, path, &file, 0) != 0)
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES
               ? FILE_NONE
               : FILE_UNREADABLE;
  if (!S_ISREG(file.st_mode))
    return FILE_NONE;
  int fd = openat(at, path, reading);
  if (fd < 0)
    return errno == ENOENT ? FILE_NONE : FILE_UNREADABLE;
  bool is_read = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                 regular_file_fill(fd, -1, max + 1, text) == 0 && text->length <= max;
  descriptor_close(fd);
  return is_read ? FILE_READ : FILE_UNREADABLE;
}

/* --- git's directories and its global file --- */

/* Returns the text of a file that is not empty, to be freed, or NULL. */
static char *text_of(int at, const char *path, size_t max) {
  struct buffer text = {0};
  if (read_file(at, path, max, &text) != FILE_READ || text.length == 0)
    buffer_release(&text);
  else
    buffer_add(&text, "", 1);
  return text.bytes;
}

/* Returns the first line of such a file. */
static char *first_line(int at, const char *path) {
  char *text = text_of(at, path, PATH_MAX + 64);
  if (text != NULL)
    text[strcspn(text, "\r\n")] = '\0';
  return text;
}

/* Opens the directory that a `.git` file names or, for a worktree, the directory that all of them
   share. */
static int open_named(int directory) {
  static const char prefix[] = "gitdir: ";
  char *line = first_line(directory, ".git");
  int named = -1;
  if (line != NULL && strncmp(line, prefix, sizeof prefix - 1) == 0)
    named = openat(directory, line + sizeof prefix - 1, looking);
  free(line);
  char *common = named >= 0 ? first_line(named, "commondir") : NULL;
  if (common == NULL)
    return named;
  int shared = openat(named, common, looking);
  free(common);
  descriptor_close(named);
  return shared;
}

/* Opens the directory that has info/exclude: `.git`, or the one that a `.git` file names. Returns
   -1 if there is none. */
static int open_git_directory(int directory, bool *is_repository) {
  struct stat file;
  *is_repository = fstatat(directory, ".git", &file, 0) == 0;
  if (!*is_repository)
    return -1;
  return S_ISREG(file.st_mode) ? open_named(directory) : openat(directory, ".git", looking);
}

/* A line `excludesFile = value` of a git configuration: whether the value begins with "~", and the
   path behind that. */
static const char excludes_file[] =
    "(*LF)(?im)^[ \\t]*excludesfile[ \\t]*=[ \\t]*(\"?)(~?)(/.*?)\\1[ \\t\\r]*$";

/* Returns the excludesFile of a git configuration, whose path it frees. */
static char *excludes_of(char *path, const char *home) {
  int reason;
  size_t offset;
  char *value = NULL, *text = text_of(AT_FDCWD, path, CONFIG_MAX);
  pcre2_code *code =
      pcre2_compile((PCRE2_SPTR)excludes_file, PCRE2_ZERO_TERMINATED, 0, &reason, &offset, NULL);
  pcre2_match_data *found = pcre2_match_data_create(4, NULL);
  if (code == NULL || found == NULL)
    memory_exhausted("a pattern");
  if (text != NULL && pcre2_match(code, (PCRE2_SPTR)text, strlen(text), 0, 0, found, NULL) > 0) {
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(found);
    bool is_in_home = ends[4] < ends[5];
    if (!is_in_home || home != NULL)
      value =
          memory_format("%s%.*s", is_in_home ? home : "", (int)(ends[7] - ends[6]), text + ends[6]);
  }
  pcre2_match_data_free(found);
  pcre2_code_free(code);
  free(text);
  free(path);
  return value;
}

static char *joined(const char *directory, const char *path) {
  return memory_format("%s/%s", directory, path);
}

/* Returns the path of git's global ignore file, which may not exist, to be freed, or NULL. */
static char *global_path(const char *home, const char *config) {
  home = home != NULL && home[0] == '/' ? home : NULL;
  char *directory = home != NULL ? joined(home, ".config/git") : NULL;
  if (config != NULL && config[0] == '/') {
    free(directory);
    directory = joined(config, "git");
  }
  char *path = home != NULL ? excludes_of(joined(home, ".gitconfig"), home) : NULL;
  if (path == NULL && directory != NULL)
    path = excludes_of(joined(directory, "config"), home);
  if (path == NULL && directory != NULL)
    path = joined(directory, "ignore");
  free(directory);
  return path;
}

/* --- levels --- */

/* Returns the rules of the file `name` below the descriptor `directory`, or NULL. Adds the bytes of
   the file to `*bytes`; `start` is as in the level. */
static struct globs *read_rules(struct ignore *self, int directory, const char *name, size_t start,
                                size_t *bytes) {
  struct buffer text = {0};
  struct globs *rules = NULL;
  size_t max = IGNORE_TEXT_MAX - self->text;
  enum found file = read_file(directory, name, max < GLOBS_FILE_MAX ? max : GLOBS_FILE_MAX, &text);
  bool is_too_long = file == FILE_UNREADABLE;
  if (file == FILE_READ)
    rules = globs_of_ignore_file(text.bytes, text.length, &is_too_long);
  if (is_too_long && self->unused++ == 0)
    (void)error_set(&self->first_unused, "%.*s%s%s", (int)start, self->path.bytes,
                    strcmp(name, exclude) == 0 ? ".git/" : "", name);
  if (rules != NULL) {
    self->text += text.length;
    *bytes += text.length;
  }
  buffer_release(&text);
  return rules;
}

/* Adds the level of a directory; `start` is the length of its path with the "/". */
static void push(struct ignore *self, int directory, size_t start) {
  const size_t above = self->count > 0 ? self->levels[self->count - 1].repository : NOWHERE;
  struct level *level = &self->levels[self->count];
  bool is_repository;
  int git = open_git_directory(directory, &is_repository);
  *level = (struct level){.start = start, .repository = is_repository ? self->count : above};
  for (int kind = RGIGNORE; kind <= GITIGNORE; kind++)
    level->rules[kind] = read_rules(self, directory, names[kind], start, &level->text);
  if (git >= 0)
    level->rules[EXCLUDE] = read_rules(self, git, exclude, start, &level->text);
  descriptor_close(git);
  level->rules[GLOBAL] = is_repository ? self->global : NULL;
  self->count++;
}

static void pop(struct ignore *self) {
  struct level *level = &self->levels[--self->count];
  self->text -= level->text;
  for (int kind = RGIGNORE; kind <= EXCLUDE; kind++)
    globs_free(level->rules[kind]);
}

/* --- above the root --- */

/* Returns the path of an open directory without links, by its descriptor. */
static char *real_path(int directory, const char *path) {
  char self[64], target[PATH_MAX];
  (void)snprintf(self, sizeof self, "/proc/self/fd/%d", directory);
  ssize_t length = readlink(self, target, sizeof target);
  if (length > 0 && (size_t)length < sizeof target && target[0] == '/')
    return memory_copy(target, (size_t)length);
  return realpath(path, NULL); /* /proc is not mounted */
}

/* Pushes "/" and the directories between it and the root, whose path is `path`, unless one can no
   longer be entered. */
static void push_above(struct ignore *self, char *path) {
  int directory = open("/", looking);
  for (char *name = path + 1; directory >= 0 && *name != '\0';) {
    push(self, directory, (size_t)(name - path));
    size_t length = strcspn(name, "/");
    char after = name[length];
    name[length] = '\0';
    int below = openat(directory, name, looking | O_NOFOLLOW);
    name[length] = after;
    name += length + (after != '\0');
    descriptor_close(directory);
    directory = below;
  }
  descriptor_close(directory);
  self->base = self->count;
}

struct ignore *ignore_new(int root, const char *path, const char *home, const char *config) {
  struct ignore *self = memory_zeros(sizeof *self);
  char *real = real_path(root, path);
  buffer_add_string(&self->path, real != NULL ? real : "/");
  if (self->path.bytes[self->path.length - 1] != '/')
    buffer_add(&self->path, "/", 1);
  self->root = self->path.length;
  self->levels = memory_allocate(DEPTH_MAX * sizeof *self->levels);
  char *global = global_path(home, config);
  size_t bytes = 0;
  if (global != NULL)
    self->global = read_rules(self, AT_FDCWD, global, 0, &bytes);
  if (real != NULL)
    push_above(self, real);
  free(global);
  free(real);
  return self;
}

void ignore_free(struct ignore *self) {
  if (self == NULL)
    return;
  while (self->count > 0)
    pop(self);
  globs_free(self->global);
  buffer_release(&self->path);
  free(self->levels);
  free(self);
}

size_t ignore_unused(const struct ignore *self, struct error *first) {
  *first = self->first_unused;
  return self->unused;
}

/* --- matching --- */

bool ignore_hides(struct ignore *self, const struct walk_entry *entry) {
  self->path.length = self->root;
  buffer_add(&self->path, entry->path, entry->length);
  size_t depth = self->base + (size_t)entry->depth;
  while (self->count > depth + 1)
    pop(self);
  if (self->count == depth)
    push(self, entry->parent, self->root + (size_t)(entry->name - entry->path));
  for (int kind = 0; kind < KINDS; kind++) {
    const size_t end = kind < GITIGNORE ? 0 : self->levels[depth].repository;
    for (size_t i = depth + 1; i-- > end;) {
      const struct level *level = &self->levels[i];
      enum globs_verdict verdict =
          globs_classify(level->rules[kind], self->path.bytes + level->start,
                         self->path.length - level->start, entry->type == DT_DIR);
      if (verdict != GLOBS_SILENT)
        return verdict == GLOBS_MATCH;
    }
  }
  return entry->name[0] == '.';
}
