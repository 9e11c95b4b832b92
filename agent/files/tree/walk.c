#include "agent/files/tree/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/files/access/path.h"
#include "base/descriptor.h"
#include "base/memory.h"
#include "base/printable.h"

/* An unsorted walk reads names in portions of this many bytes. */
#define PORTION ((size_t)4096)

/* The longest name in bytes. Most file systems allow 255; FUSE allows 1024 (FUSE_NAME_MAX). */
#define NAME_LENGTH_MAX 1024

/* A directory on the way to the current entry. Its names are read in portions; each is stored as a
   byte with the type, the name and a NUL. */
struct walk_level {
  DIR *directory;
  size_t path; /* length of its path with the slash */
  char *names;
  size_t size; /* bytes of names */
  size_t capacity;
  const char **order;
  size_t count, next;
  bool is_read; /* to the end */
};

struct walk {
  bool sorted;
  bool enter;   /* the last entry is a directory to enter next */
  int depth;    /* open levels */
  size_t names; /* bytes of names and their order in all levels */
  size_t unread;
  char *first_unread; /* or NULL */
  struct walk_level levels[WALK_DEPTH_MAX];
  char path[WALK_DEPTH_MAX * (NAME_MAX + 1) + NAME_LENGTH_MAX];
};

static const int reading = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

/* `name` is an entry of `parent`, or "."; links are not followed. Returns NULL with errno. */
static DIR *open_below(int parent, const char *name) {
  int fd = openat(parent, name, reading | O_NOFOLLOW);
  if (fd < 0)
    return NULL;
  DIR *directory = fdopendir(fd);
  if (directory == NULL)
    descriptor_close(fd);
  return directory;
}

/* Opens the path of a step. Follows symbolic links. Returns NULL with an error of path_fail. */
static DIR *open_root(const char *path, struct error *error) {
  int fd = open(path, reading);
  DIR *directory = fd >= 0 ? open_below(fd, ".") : NULL;
  int reason = errno;
  struct stat file;
  descriptor_close(fd);
  if (directory != NULL)
    return directory;
  /* ENOTDIR: either this is no directory, or a component of the path is none. */
  if (reason == ENOTDIR && stat(path, &file) == 0)
    (void)path_fail(error, AT_FDCWD, path, "is %s, not a directory",
                    printable_file_kind(file.st_mode));
  else if (reason == ENOENT || reason == ENOTDIR)
    (void)path_fail(error, AT_FDCWD, path, "directory not found");
  else
    (void)path_fail(error, AT_FDCWD, path, "cannot read directory (%s)", strerror(reason));
  return NULL;
}

static void push(struct walk *self, DIR *directory, size_t path) {
  self->levels[self->depth++] = (struct walk_level){.directory = directory, .path = path};
}

static void report_unread(struct walk *self, size_t length) {
  if (self->unread++ == 0 && self->first_unread == NULL)
    self->first_unread = memory_copy(self->path, length);
}

static size_t cost(const struct walk_level *level) {
  return level->size + level->count * sizeof *level->order;
}

static void pop(struct walk *self) {
  struct walk_level *level = &self->levels[--self->depth];
  self->names -= cost(level);
  closedir(level->directory);
  free(level->names);
  free(level->order);
}

const char *const walk_default_excludes[] = {
    ".git",  "node_modules", "bin",      "obj",        ".vs",    ".idea",       "dist", "build",
    ".next", ".nuxt",        "coverage", ".terraform", "vendor", "__pycache__", NULL};

bool walk_is_excluded(const char *name) {
  for (const char *const *exclude = walk_default_excludes; *exclude != NULL; exclude++)
    if (strcmp(*exclude, name) == 0)
      return true;
  return false;
}

char *walk_reference(const char *repository, const char *root) {
  if (repository == NULL)
    return NULL;
  char *reference = path_lexical(repository, WALK_REFERENCE);
  char *start = path_lexical(repository, root);
  const char *below = path_below(reference, start);
  char *copy = below != NULL && below[0] != '\0' ? memory_copy(below, strlen(below)) : NULL;
  free(reference);
  free(start);
  return copy;
}

struct walk *walk_new(const char *path, bool sorted, struct error *error) {
  DIR *directory = open_root(path, error);
  if (directory == NULL)
    return NULL;
  struct walk *self = memory_allocate(sizeof *self);
  /* The rest is large, and written before it is read. */
  memset(self, 0, offsetof(struct walk, levels));
  self->sorted = sorted;
  push(self, directory, 0);
  return self;
}

void walk_free(struct walk *self) {
  if (self == NULL)
    return;
  while (self->depth > 0)
    pop(self);
  free(self->first_unread);
  free(self);
}

void walk_restart(struct walk *self) {
  while (self->depth > 1)
    pop(self);
  rewinddir(self->levels[0].directory);
  self->levels[0].next = self->levels[0].count;
  self->levels[0].is_read = self->enter = false;
  self->sorted = true;
  self->unread = 0;
}

int walk_root(const struct walk *self) {
  return dirfd(self->levels[0].directory);
}

size_t walk_unread(const struct walk *self, const char **first) {
  *first = self->first_unread;
  return self->unread;
}

void walk_skip(struct walk *self) {
  self->enter = false;
}

static void keep_name(struct walk *self, struct walk_level *level, unsigned char type,
                      const char *name) {
  size_t length = strlen(name) + 1;
  if (level->capacity - level->size < length + 1) {
    level->capacity = 2 * level->capacity + PORTION;
    level->names = memory_resize(level->names, level->capacity);
  }
  level->names[level->size] = (char)type;
  memcpy(level->names + level->size + 1, name, length);
  level->size += length + 1;
  level->count++;
  self->names += length + 1 + sizeof *level->order;
}

static int by_name(const void *one, const void *other) {
  return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* Called after all names of the portion are stored, which then no longer move. */
static void put_in_order(const struct walk *self, struct walk_level *level) {
  level->order = memory_resize(level->order, level->count * sizeof *level->order);
  const char *name = level->names + 1;
  for (size_t i = 0; i < level->count; i++, name += strlen(name) + 2)
    level->order[i] = name;
  if (self->sorted)
    qsort(level->order, level->count, sizeof *level->order, by_name);
}

/* Returns the next name and its type, which is looked up if the file system reports none, without
   names that vanish meanwhile; or NULL with errno, which is 0 at the end. */
static const char *next_name(DIR *directory, unsigned char *type) {
  for (;;) {
    errno = 0;
    const struct dirent *found = readdir(directory);
    if (found == NULL)
      return NULL;
    const char *name = found->d_name;
    struct stat file;
    *type = found->d_type;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > NAME_LENGTH_MAX)
      continue;
    if (*type != DT_UNKNOWN)
      return name;
    if (fstatat(dirfd(directory), name, &file, AT_SYMLINK_NOFOLLOW) == 0)
      *type = (unsigned char)IFTODT(file.st_mode);
    else if (errno == ENOENT)
      continue;
    return name;
  }
}

static bool read_names(struct walk *self, struct walk_level *level) {
  self->names -= cost(level);
  level->size = level->count = level->next = 0;
  size_t max = self->sorted ? WALK_NAMES_MAX : 0;
  while (!level->is_read && (level->count == 0 || self->names < max ||
                             (!self->sorted && level->size < PORTION - NAME_MAX))) {
    unsigned char type;
    const char *name = next_name(level->directory, &type);
    if (name == NULL) {
      if (errno != 0 && errno != ENOENT) /* read in part */
        report_unread(self, level->path > 0 ? level->path - 1 : 0);
      level->is_read = true;
      break;
    }
    keep_name(self, level, type, name);
  }
  if (level->count > 0)
    put_in_order(self, level);
  return level->count > 0;
}

/* Opens the directory that was the last entry, whose path is still in `path`. */
static void enter(struct walk *self) {
  const struct walk_level *level = &self->levels[self->depth - 1];
  const char *name = self->path + level->path;
  size_t length = level->path + strlen(name);
  if (self->depth == WALK_DEPTH_MAX || length + 2 + NAME_LENGTH_MAX > sizeof self->path) {
    report_unread(self, length);
    return;
  }
  DIR *directory = open_below(dirfd(level->directory), name);
  if (directory != NULL) {
    self->path[length] = '/';
    push(self, directory, length + 1);
  } else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
    report_unread(self, length); /* otherwise it has vanished or was replaced */
  }
}

bool walk_next(struct walk *self, struct walk_entry *entry) {
  if (self->enter)
    enter(self);
  self->enter = false;
  struct walk_level *level;
  for (;; pop(self)) {
    level = &self->levels[self->depth - 1];
    if (level->next < level->count || read_names(self, level))
      break;
    if (self->depth == 1)
      return false;
  }
  const char *name = level->order[level->next++];
  size_t length = strlen(name);
  memcpy(self->path + level->path, name, length + 1);
  *entry = (struct walk_entry){.path = self->path,
                               .length = level->path + length,
                               .name = self->path + level->path,
                               .parent = dirfd(level->directory),
                               .depth = self->depth - 1,
                               .type = (unsigned char)name[-1]};
  self->enter = entry->type == DT_DIR;
  return true;
}
