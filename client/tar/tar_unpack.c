/* Unpacks an archive that is not trusted. Each directory on the way to an entry is opened from the
   one above it and never through a link, so that an entry lies where its name says. A link that is
   made leads at most up to the root, and then down, so that a later reader stays below it, too. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/printable.h"
#include "base/random.h"
#include "base/write_all.h"
#include "client/tar/tar.h"
#include "client/tar/tar_format.h"

/* The most bytes and the most directories of a name, and the most bytes of an extra header. */
#define NAME_MAX_LENGTH 4096
#define DEPTH_MAX 256
#define EXTRA_MAX ((uint64_t)1024 * 1024)

struct entry {
  char type;
  uint64_t size;
  mode_t mode;
  int64_t mtime;
  char *name, *link;
};

/* A directory gets its mode and its time at the end, because until then entries are made in it. */
struct directory_mode {
  char *name;
  mode_t mode;
  int64_t mtime;
};

struct unpack {
  int root;
  bool is_new;
  char hidden[40]; /* the name of an incomplete file or link, in any directory */
  const struct tar_source *source;
  struct error *error;
  char *long_name, *long_link; /* of the next entry; may be NULL */
  uint64_t pax_size;
  bool has_pax_size;
  char *left_out; /* the last directory that was left out; may be NULL */
  uint64_t left;  /* bytes of the entry in the archive, which are read even if it is left out */
  struct directory_mode *modes;
  size_t mode_count;
};

static int reject(struct unpack *self, const char *name, const char *why) {
  return error_set(self->error, "rejected %.150s: %s", name, why);
}

static int make_fail(struct unpack *self, const char *name) {
  return error_set(self->error, "cannot write %.150s: %s", name, strerror(errno));
}

/* --- the stream ------------------------------------------------------------------------------- */

static int get_all(struct unpack *self, char *bytes, size_t size) {
  size_t at = 0, length = 1;
  int result = 0;
  while (at < size && result == 0 && length > 0) {
    result = self->source->get(self->source->owner, bytes + at, size - at, &length);
    at += result == 0 ? length : 0;
  }
  if (result != 0 || at == size)
    return result;
  return error_set(self->error, "the archive is incomplete");
}

static uint64_t padded(uint64_t size) {
  return (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

/* Copies bytes of the entry to a file, or skips them if `fd` is -1. */
static int copy(struct unpack *self, uint64_t size, int fd, const char *name) {
  char bytes[16 * TAR_BLOCK];
  int result = 0;
  while (size > 0 && result == 0) {
    const size_t length = size < sizeof bytes ? (size_t)size : sizeof bytes;
    result = get_all(self, bytes, length);
    self->left -= length;
    if (result == 0 && fd >= 0 && write_all(fd, bytes, length) != 0)
      result = make_fail(self, name);
    size -= length;
  }
  return result;
}

/* Leaves out an entry that cannot be written. Every other one would fail, too, after the errors
   that end the copy. */
static int leave_out_unwritten(struct unpack *self, const char *name) {
  if (errno == ENOSPC || errno == EDQUOT || errno == EROFS || errno == EIO)
    return make_fail(self, name);
  self->source->leave_out(self->source->owner, name, strerror(errno));
  return 0;
}

/* Reads the content of an extra header. */
static int get_extra(struct unpack *self, uint64_t size, char **text) {
  if (size > EXTRA_MAX)
    return error_set(self->error, "rejected a name of %llu bytes", (unsigned long long)size);
  *text = memory_zeros((size_t)padded(size) + 1);
  int result = get_all(self, *text, (size_t)padded(size));
  (*text)[size] = '\0';
  return result;
}

/* --- headers ---------------------------------------------------------------------------------- */

static uint64_t read_number(const char *field, size_t size) {
  uint64_t number = 0;
  if ((field[0] & 0x80) != 0) {
    for (size_t i = 1; i < size; i++)
      number = number << 8 | (unsigned char)field[i];
    return number;
  }
  for (size_t i = 0; i < size; i++)
    if (field[i] >= '0' && field[i] <= '7')
      number = number << 3 | (unsigned)(field[i] - '0');
    else if (field[i] != ' ' || number > 0)
      break;
  return number;
}

static bool has_valid_checksum(const struct tar_header *header) {
  unsigned sum = 0;
  const unsigned char *bytes = (const unsigned char *)header;
  const size_t first = offsetof(struct tar_header, checksum);
  for (size_t i = 0; i < sizeof *header; i++)
    sum += i >= first && i < first + sizeof header->checksum ? ' ' : bytes[i];
  return sum == read_number(header->checksum, sizeof header->checksum);
}

/* Parses lines of "LENGTH KEY=VALUE". */
static void read_pax(struct unpack *self, char *text, size_t size) {
  for (size_t at = 0, length; at < size; at += length) {
    char *end, *key;
    length = strtoul(text + at, &end, 10);
    if (length == 0 || length > size - at || *end != ' ' || end > text + at + length)
      return;
    key = end + 1;
    text[at + length - 1] = '\0';
    if (strncmp(key, "path=", 5) == 0) {
      free(self->long_name);
      self->long_name = memory_copy(key + 5, strlen(key + 5));
    } else if (strncmp(key, "linkpath=", 9) == 0) {
      free(self->long_link);
      self->long_link = memory_copy(key + 9, strlen(key + 9));
    } else if (strncmp(key, "size=", 5) == 0) {
      self->pax_size = strtoull(key + 5, NULL, 10);
      self->has_pax_size = true;
    }
  }
}

/* Whether the header describes the next entry. */
static bool is_extra(char type) {
  return type == TAR_PAX || type == TAR_PAX_GLOBAL || type == TAR_GNU_NAME || type == TAR_GNU_LINK;
}

static int read_extra(struct unpack *self, const struct tar_header *header) {
  const uint64_t size = read_number(header->size, sizeof header->size);
  char *text = NULL;
  int result = get_extra(self, size, &text);
  if (header->type == TAR_GNU_NAME || header->type == TAR_GNU_LINK) {
    char **place = header->type == TAR_GNU_NAME ? &self->long_name : &self->long_link;
    free(*place);
    *place = text;
    return result;
  }
  if (result == 0 && text != NULL && header->type == TAR_PAX)
    read_pax(self, text, (size_t)size);
  free(text);
  return result;
}

static char *join_name(const struct tar_header *header) {
  struct buffer name = {0};
  if (memcmp(header->magic, "ustar", 6) == 0 && header->prefix[0] != '\0') {
    buffer_add(&name, header->prefix, strnlen(header->prefix, sizeof header->prefix));
    buffer_add_string(&name, "/");
  }
  buffer_add(&name, header->name, strnlen(header->name, sizeof header->name));
  buffer_add(&name, "", 1);
  return name.bytes;
}

static void make_entry(struct unpack *self, const struct tar_header *header, struct entry *entry) {
  *entry = (struct entry){
      .type = header->type,
      .size = self->has_pax_size ? self->pax_size : read_number(header->size, sizeof header->size),
      .mode = (mode_t)read_number(header->mode, sizeof header->mode) & 0777,
      .mtime = (int64_t)read_number(header->mtime, sizeof header->mtime),
      .name = self->long_name != NULL ? self->long_name : join_name(header),
      .link = self->long_link != NULL
                  ? self->long_link
                  : memory_copy(header->link, strnlen(header->link, sizeof header->link))};
  self->long_name = self->long_link = NULL;
  self->has_pax_size = false;
  /* Some programs write a size for entries without content. */
  if (entry->type == TAR_HARD_LINK || entry->type == TAR_SYMBOLIC_LINK ||
      entry->type == TAR_DIRECTORY)
    entry->size = 0;
}

static void release_entry(struct entry *self) {
  free(self->name);
  free(self->link);
}

/* --- names ------------------------------------------------------------------------------------ */

/* Copies a name without "." and empty parts. Returns NULL with the error if it is rejected. */
static char *clean_name(struct unpack *self, const char *name) {
  struct buffer clean = {0};
  if (name[0] == '/' || strlen(name) > NAME_MAX_LENGTH) {
    (void)reject(self, name, name[0] == '/' ? "the name is absolute" : "the name is too long");
    return NULL;
  }
  unsigned depth = 0;
  for (const char *at = name; *at != '\0';) {
    const size_t length = strcspn(at, "/");
    bool is_up = length == 2 && memcmp(at, "..", 2) == 0;
    if (is_up || ++depth > DEPTH_MAX) {
      (void)reject(self, name, is_up ? "it leads out of the directory" : "it is too deep");
      buffer_release(&clean);
      return NULL;
    }
    if (length > 0 && !(length == 1 && at[0] == '.')) {
      buffer_add_string(&clean, clean.length > 0 ? "/" : "");
      buffer_add(&clean, at, length);
    }
    at += length + (at[length] == '/');
  }
  buffer_add(&clean, "", 1);
  return clean.bytes;
}

/* Opens the directory of a clean name; `makes`: makes missing ones. Returns -1 with errno. */
static int open_parent(struct unpack *self, const char *name, bool makes, const char **last) {
  int at = fcntl(self->root, F_DUPFD_CLOEXEC, 0);
  const char *slash;
  while (at >= 0 && (slash = strchr(name, '/')) != NULL) {
    char *part = memory_copy(name, (size_t)(slash - name));
    if (makes)
      (void)mkdirat(at, part, 0777); /* opening it says why it failed */
    int next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int failure = errno;
    free(part);
    (void)close(at);
    errno = failure;
    at = next;
    name = slash + 1;
  }
  *last = name;
  return at;
}

static int parent_fail(struct unpack *self, const char *name) {
  return errno == ELOOP || errno == ENOTDIR
             ? reject(self, name, "it leads through a link or a file")
             : leave_out_unwritten(self, name);
}

/* A link may lead up to the root, and then down. After a name, ".." might follow another link. */
static bool leads_out(const char *name, const char *link) {
  size_t depth = 0;
  bool is_down = false;
  for (const char *at = name; (at = strchr(at, '/')) != NULL; at++)
    depth++;
  if (link[0] == '/' || link[0] == '\0')
    return true;
  for (const char *at = link; *at != '\0';) {
    const size_t length = strcspn(at, "/");
    bool is_up = length == 2 && memcmp(at, "..", 2) == 0;
    if (is_up && (is_down || depth-- == 0))
      return true;
    is_down |= !is_up && length > 0 && !(length == 1 && at[0] == '.');
    at += length + (at[length] == '/');
  }
  return false;
}

/* --- entries ---------------------------------------------------------------------------------- */

void tar_set_mtime(int fd, int64_t seconds) {
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)seconds}};
  (void)futimens(fd, times);
}

/* Renames a file or a link that was made under a hidden name. */
static int name_hidden(struct unpack *self, int parent, const char *last,
                       const struct entry *entry) {
  const bool is_named = renameat(parent, self->hidden, parent, last) == 0;
  int result = is_named ? 0 : leave_out_unwritten(self, entry->name);
  (void)unlinkat(parent, self->hidden, 0); /* renameat keeps two links to the same file */
  return result;
}

static int unpack_file(struct unpack *self, int parent, const char *last,
                       const struct entry *entry) {
  int fd = openat(parent, self->hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return leave_out_unwritten(self, entry->name);
  int result = copy(self, entry->size, fd, entry->name);
  if (result == 0 && (fchmod(fd, entry->mode) != 0 || write_all_flush(fd) != 0))
    result = make_fail(self, entry->name);
  if (result == 0)
    tar_set_mtime(fd, entry->mtime);
  (void)close(fd);
  if (result == 0)
    return name_hidden(self, parent, last, entry);
  (void)unlinkat(parent, self->hidden, 0);
  return result;
}

static void add_mode(struct unpack *self, const char *clean, const struct entry *entry) {
  self->modes = memory_resize(self->modes, (self->mode_count + 1) * sizeof *self->modes);
  self->modes[self->mode_count++] =
      (struct directory_mode){memory_copy(clean, strlen(clean)), entry->mode, entry->mtime};
}

static bool is_file(int parent, const char *name) {
  struct stat status;
  return fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

/* Whether an entry is below a directory that was left out. */
static bool is_left_out(const struct unpack *self, const char *clean) {
  const size_t length = self->left_out != NULL ? strlen(self->left_out) : 0;
  return length > 0 && strncmp(clean, self->left_out, length) == 0 && clean[length] == '/';
}

static int unpack_directory(struct unpack *self, int parent, const char *last, const char *clean,
                            const struct entry *entry) {
  bool is_made = mkdirat(parent, last, 0700) == 0;
  if (!is_made && errno != EEXIST)
    return leave_out_unwritten(self, clean);
  if (!is_made && is_file(parent, last)) {
    self->source->leave_out(self->source->owner, entry->name, "a file has that name here");
    free(self->left_out);
    self->left_out = memory_copy(clean, strlen(clean));
    return 0;
  }
  int fd = openat(parent, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return parent_fail(self, clean);
  (void)close(fd);
  if (is_made)
    add_mode(self, clean, entry);
  return 0;
}

static int unpack_symbolic_link(struct unpack *self, int parent, const char *last,
                                const char *clean, const struct entry *entry) {
  if (leads_out(clean, entry->link)) {
    self->source->leave_out(self->source->owner, entry->name,
                            "a link that leads out of the directory");
    return 0;
  }
  return symlinkat(entry->link, parent, self->hidden) == 0 ? name_hidden(self, parent, last, entry)
                                                           : leave_out_unwritten(self, entry->name);
}

/* The target must be a file below the root. */
static int unpack_hard_link(struct unpack *self, int parent, const char *last,
                            const struct entry *entry) {
  const char *target;
  struct stat status;
  char *clean = clean_name(self, entry->link);
  if (clean == NULL)
    return -1;
  int result = -1, from = open_parent(self, clean, false, &target);
  if (from < 0)
    result = parent_fail(self, entry->link);
  else if (fstatat(from, target, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode))
    result = reject(self, entry->name, "it links to something other than a file");
  else if (linkat(from, target, parent, self->hidden, 0) != 0)
    result = leave_out_unwritten(self, entry->name);
  else
    result = name_hidden(self, parent, last, entry);
  if (from >= 0)
    (void)close(from);
  free(clean);
  return result;
}

static int unpack_root(struct unpack *self, const struct entry *entry) {
  if (entry->type != TAR_DIRECTORY)
    return reject(self, entry->name, "the name is empty");
  if (self->is_new)
    add_mode(self, ".", entry);
  return 0;
}

/* Leaves out an entry, and returns true, if a device, a FIFO or a socket has its name here. */
static bool leave_out(struct unpack *self, int parent, const char *last,
                      const struct entry *entry) {
  struct stat status;
  char why[64];
  if (entry->type == TAR_DIRECTORY || fstatat(parent, last, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      S_ISREG(status.st_mode) || S_ISLNK(status.st_mode) || S_ISDIR(status.st_mode))
    return false;
  (void)snprintf(why, sizeof why, "%s has that name here", printable_file_kind(status.st_mode));
  self->source->leave_out(self->source->owner, entry->name, why);
  return true;
}

static int unpack_named(struct unpack *self, const char *clean, const struct entry *entry) {
  const char *last;
  int parent = open_parent(self, clean, true, &last), result;
  if (parent < 0)
    return parent_fail(self, entry->name);
  if (leave_out(self, parent, last, entry)) {
    (void)close(parent);
    return 0;
  }
  switch (entry->type) {
  case TAR_FILE:
  case TAR_OLD_FILE:
  case TAR_CONTIGUOUS_FILE:
    result = unpack_file(self, parent, last, entry);
    break;
  case TAR_DIRECTORY:
    result = unpack_directory(self, parent, last, clean, entry);
    break;
  case TAR_SYMBOLIC_LINK:
    result = unpack_symbolic_link(self, parent, last, clean, entry);
    break;
  case TAR_HARD_LINK:
    result = unpack_hard_link(self, parent, last, entry);
    break;
  default:
    self->source->leave_out(self->source->owner, entry->name,
                            "neither a file, a directory nor a link");
    result = 0;
  }
  (void)close(parent);
  return result;
}

static int unpack_entry(struct unpack *self, struct entry *entry) {
  char *clean = clean_name(self, entry->name);
  if (clean == NULL)
    return -1;
  const size_t length = strlen(entry->name);
  if (entry->type == TAR_OLD_FILE && length > 0 && entry->name[length - 1] == '/')
    entry->type = TAR_DIRECTORY;
  self->left = padded(entry->size);
  int result = 0;
  if (!is_left_out(self, clean))
    result = clean[0] == '\0' ? unpack_root(self, entry) : unpack_named(self, clean, entry);
  result = result == 0 ? copy(self, self->left, -1, NULL) : result;
  free(clean);
  return result;
}

/* --- the archive ------------------------------------------------------------------------------ */

/* In reverse order, so that the directories below can still be opened. */
static int set_modes(struct unpack *self) {
  int result = 0;
  while (self->mode_count > 0) {
    struct directory_mode *directory = &self->modes[--self->mode_count];
    const char *last;
    int parent = open_parent(self, directory->name, false, &last);
    int fd =
        parent < 0 ? -1 : openat(parent, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (result == 0 && (fd < 0 || fchmod(fd, directory->mode) != 0))
      result = make_fail(self, directory->name);
    tar_set_mtime(fd, directory->mtime);
    if (parent >= 0)
      (void)close(parent);
    if (fd >= 0)
      (void)close(fd);
    free(directory->name);
  }
  free(self->modes);
  return result;
}

/* Unpacks one entry, or sets `*is_over` at the end. */
static int unpack_next(struct unpack *self, bool *is_over) {
  struct tar_header header;
  struct entry entry;
  int result = get_all(self, (char *)&header, sizeof header);
  if (result != 0)
    return result;
  if (header.name[0] == '\0' && self->long_name == NULL && read_number(header.checksum, 8) == 0) {
    *is_over = true;
    return 0;
  }
  if (!has_valid_checksum(&header))
    return error_set(self->error, "the archive is corrupt");
  if (is_extra(header.type))
    return read_extra(self, &header);
  make_entry(self, &header, &entry);
  result = entry.size > UINT64_MAX / 2 ? reject(self, entry.name, "its size is invalid")
                                       : unpack_entry(self, &entry);
  release_entry(&entry);
  return result;
}

int tar_unpack(int directory, bool is_new, const struct tar_source *source, struct error *error) {
  struct unpack self = {.root = directory, .is_new = is_new, .source = source, .error = error};
  bool is_over = false;
  int result = 0;
  (void)snprintf(self.hidden, sizeof self.hidden, ".sandbox-%016llx",
                 (unsigned long long)random_u64());
  while (result == 0 && !is_over)
    result = unpack_next(&self, &is_over);
  free(self.long_name);
  free(self.long_link);
  free(self.left_out);
  const int modes = set_modes(&self);
  return result != 0 ? result : modes;
}

/* A directory without read or write permission gets it first. */
void tar_remove(int parent, const char *name) {
  if (unlinkat(parent, name, 0) == 0)
    return;
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
  if (directory == NULL) {
    if (fd >= 0)
      (void)close(fd);
    return;
  }
  (void)fchmod(fd, 0700);
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      tar_remove(fd, entry->d_name);
  (void)closedir(directory);
  (void)unlinkat(parent, name, AT_REMOVEDIR);
}
