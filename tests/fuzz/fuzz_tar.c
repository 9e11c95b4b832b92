/*
 * An archive of a hostile sandbox: the first byte says into what kind of directory it is unpacked,
 * the rest is the archive, in which the checksums of headers are put right. Beside the directory
 * lies a file that must stay as it is, and nothing else may come to lie there.
 */
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

/* Deeper than an archive may go. */
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

/* What has a header's magic is taken for one. */
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

/* --- what is there afterwards ----------------------------------------------------------------- */

/* A link that leads anywhere leads below the directory. */
static void check_link(int directory, const char *name, const char *root) {
  char path[PATH_MAX], self[64];
  (void)snprintf(self, sizeof self, "/proc/self/fd/%d/", directory);
  char real[PATH_MAX];
  demand(snprintf(path, sizeof path, "%s%s", self, name) < (int)sizeof path);
  if (realpath(path, real) != NULL)
    demand(strncmp(real, root, strlen(root)) == 0 &&
           (real[strlen(root)] == '/' || real[strlen(root)] == '\0'));
}

/* Files, directories and links: with no bits but those of modes, and no name that was for a
   while. */
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

static void check_capacity(int capacity) {
  struct stat status;
  size_t count = 0;
  int copy = openat(capacity, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = fdopendir(copy);
  if (directory == NULL)
    abort();
  while (readdir(directory) != NULL)
    count++;
  (void)closedir(directory);
  demand(count == 4); /* ".", "..", these two */
  demand(fstatat(capacity, "target", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode));
  demand(fstatat(capacity, "other", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
         status.st_size == 5 && status.st_nlink == 1 && (status.st_mode & 07777) == 0600 &&
         status.st_mtim.tv_sec == 1);
}

/* --- a run ------------------------------------------------------------------------------------ */

static int make_capacity(char *path, bool has_link) {
  static const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
  demand(mkdtemp(path) != NULL);
  int capacity = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int other = openat(capacity, "other", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  demand(write(other, "other", 5) == 5 && futimens(other, times) == 0);
  (void)close(other);
  demand(mkdirat(capacity, "target", 0700) == 0);
  demand(!has_link || (symlinkat("..", capacity, "target/l") == 0 &&
                       symlinkat("../other", capacity, "target/f") == 0));
  return capacity;
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
  int capacity = make_capacity(path, (flags & HAS_LINK) != 0);
  int target = openat(capacity, "target", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const struct tar_source source = {.get = get, .leave_out = leave_out, .owner = &archive};
  struct error error = {.text = ""};
  int result = tar_unpack(target, (flags & IS_NEW) != 0, &source, &error);
  demand(result == 0 || (result == -1 && error.text[0] != '\0'));
  (void)close(target);

  (void)snprintf(root, sizeof root, "%s/target", path);
  check_capacity(capacity);
  check_tree(capacity, "target", (flags & HAS_LINK) != 0 ? NULL : root,
             !holds(&archive, ".sandbox-"), 0);
  tar_remove(capacity, "target");
  demand(unlinkat(capacity, "other", 0) == 0 && rmdir(path) == 0);
  (void)close(capacity);
  free(archive.bytes);
  return 0;
}
