/* The archive of an untrusted sandbox. The first byte selects the kind of directory into which it
   is unpacked, the rest is the archive, whose header checksums are corrected. The file beside the
   directory must not change, and no other file may appear there. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tar/tar.h"
#include "client/tar/tar_format.h"
#include "tests/fuzz/fuzz.h"

enum { IS_NEW = 1, HAS_LINK = 2, SHORT_READS = 4 };

/* Deeper than archives may be. */
#define DEPTH_MAX 300

struct archive {
  char *bytes;
  size_t length, at;
  bool is_short;
};

static int get(void *owner, char *bytes, size_t size, size_t *length) {
  struct archive *self = owner;
  size_t left = self->length - self->at, most = self->is_short ? 100 : SIZE_MAX;
  *length = size < left ? size : left;
  *length = *length < most ? *length : most;
  memcpy(bytes, self->bytes + self->at, *length);
  self->at += *length;
  return 0;
}

static void leave_out(void *owner, const char *name, const char *why) {
  (void)owner;
  demand(name[0] != '\0' && why[0] != '\0');
}

/* Each block with the magic of a header is taken for one. */
static void put_sums_right(struct archive *self) {
  for (size_t at = 0; at + TAR_BLOCK <= self->length; at += TAR_BLOCK) {
    struct tar_header header;
    memcpy(&header, self->bytes + at, sizeof header);
    if (memcmp(header.magic, "ustar", 5) != 0)
      continue;
    unsigned sum = 0;
    memset(header.checksum, ' ', sizeof header.checksum);
    for (size_t i = 0; i < sizeof header; i++)
      sum += ((const unsigned char *)&header)[i];
    (void)snprintf(header.checksum, sizeof header.checksum, "%06o", sum & 0777777);
    memcpy(self->bytes + at, &header, sizeof header);
  }
}

/* --- the result ------------------------------------------------------------------------------- */

/* A link must lead below the directory, if it leads anywhere. */
static void check_link(int directory, const char *name, const char *root) {
  char path[PATH_MAX], self[64];
  (void)snprintf(self, sizeof self, "/proc/self/fd/%d/", directory);
  char real[PATH_MAX];
  demand(snprintf(path, sizeof path, "%s%s", self, name) < (int)sizeof path);
  if (realpath(path, real) != NULL)
    demand(strncmp(real, root, strlen(root)) == 0 &&
           (real[strlen(root)] == '/' || real[strlen(root)] == '\0'));
}

/* Only files, directories and links may exist, with ordinary modes and without temporary names. */
static void check_tree(int parent, const char *name, const char *root, bool is_clean,
                       unsigned depth) {
  (void)fchmodat(parent, name, 0700, 0);
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  demand(fd >= 0 && depth < DEPTH_MAX);
  DIR *directory = fdopendir(fd);
  if (directory == NULL)
    abort();
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    struct stat status;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    demand(!is_clean || strncmp(entry->d_name, ".sandbox-", 9) != 0);
    demand(fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0);
    demand(S_ISLNK(status.st_mode) || (status.st_mode & 07000) == 0);
    if (S_ISDIR(status.st_mode))
      check_tree(fd, entry->d_name, root, is_clean, depth + 1);
    else if (S_ISLNK(status.st_mode) && root != NULL)
      check_link(fd, entry->d_name, root);
    else
      demand(S_ISREG(status.st_mode) || S_ISLNK(status.st_mode));
  }
  (void)closedir(directory);
}

static void check_surroundings(int parent) {
  struct stat status;
  size_t count = 0;
  int copy = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = fdopendir(copy);
  if (directory == NULL)
    abort();
  while (readdir(directory) != NULL)
    count++;
  (void)closedir(directory);
  demand(count == 4); /* ".", "..", target and other */
  demand(fstatat(parent, "target", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode));
  demand(fstatat(parent, "other", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
         status.st_size == 5 && status.st_nlink == 1 && (status.st_mode & 07777) == 0600 &&
         status.st_mtim.tv_sec == 1);
}

/* --- one input -------------------------------------------------------------------------------- */

static int make_surroundings(char *path, bool has_link) {
  static const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
  demand(mkdtemp(path) != NULL);
  int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int other = openat(parent, "other", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  demand(write(other, "other", 5) == 5 && futimens(other, times) == 0);
  (void)close(other);
  demand(mkdirat(parent, "target", 0700) == 0);
  demand(!has_link || (symlinkat("..", parent, "target/l") == 0 &&
                       symlinkat("../other", parent, "target/f") == 0));
  return parent;
}

static bool holds(const struct archive *self, const char *text) {
  return memmem(self->bytes, self->length, text, strlen(text)) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const unsigned flags = data[0];
  struct archive archive = {
      .bytes = malloc(size), .length = size - 1, .is_short = (flags & SHORT_READS) != 0};
  demand(archive.bytes != NULL);
  memcpy(archive.bytes, data + 1, size - 1);
  put_sums_right(&archive);

  char path[] = "/dev/shm/fuzz-tar-XXXXXX", root[sizeof path + 8];
  int parent = make_surroundings(path, (flags & HAS_LINK) != 0);
  int target = openat(parent, "target", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const struct tar_source source = {.get = get, .leave_out = leave_out, .owner = &archive};
  struct error error = {.text = ""};
  int result = tar_unpack(target, (flags & IS_NEW) != 0, &source, &error);
  demand(result == 0 || (result == -1 && error.text[0] != '\0'));
  (void)close(target);

  (void)snprintf(root, sizeof root, "%s/target", path);
  check_surroundings(parent);
  check_tree(parent, "target", (flags & HAS_LINK) != 0 ? NULL : root, !holds(&archive, ".sandbox-"),
             0);
  tar_remove(parent, "target");
  demand(unlinkat(parent, "other", 0) == 0 && rmdir(path) == 0);
  (void)close(parent);
  free(archive.bytes);
  return 0;
}
