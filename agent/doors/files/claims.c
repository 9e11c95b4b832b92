/*
 * A claim is made under a name of the agent's own, `owner` in it, and then renamed to `.claim-<id>`
 * without replacing: whoever sees it sees its owner too, and a plain rename(2) would replace the
 * empty directory that a script has made.
 *
 * Two agents may find the same dead one. Whoever judges it holds its lock meanwhile, and has read
 * `owner` after taking it: the other one finds the lock held, as if the owner lived.
 */
#include "agent/doors/files/claims.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/random.h"
#include "base/staged_file.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1U << 0) /* linux/fs.h, which musl's headers do not come with */
#endif

#define AGENT_PREFIX ".agent-"
#define CLAIM_PREFIX ".claim-"
#define OWNER "owner"

/* A file name, and a path below it. */
#define PATH_SIZE (NAME_MAX + 1 + sizeof OWNER + 1)

#define LOCK_ATTEMPTS 8

struct path {
  char text[PATH_SIZE];
};

static struct path claim_path(const char *id) {
  struct path path;
  (void)snprintf(path.text, sizeof path.text, CLAIM_PREFIX "%s", id);
  return path;
}

static struct path owner_path(const char *directory) {
  struct path path;
  (void)snprintf(path.text, sizeof path.text, "%.*s/" OWNER, NAME_MAX, directory);
  return path;
}

static struct path lock_path(const char *instance) {
  struct path path;
  (void)snprintf(path.text, sizeof path.text, AGENT_PREFIX "%s", instance);
  return path;
}

const char *claims_id_of(const char *name) {
  size_t prefix = sizeof CLAIM_PREFIX - 1;
  return strncmp(name, CLAIM_PREFIX, prefix) == 0 && name[prefix] != '\0' ? name + prefix : NULL;
}

void claims_make_name(struct claims *self, char out[CLAIMS_NAME_SIZE]) {
  (void)snprintf(out, CLAIMS_NAME_SIZE, AGENT_PREFIX "%s.%llu", self->instance,
                 (unsigned long long)++self->names);
}

static bool is_instance(const char *text) {
  return strspn(text, "0123456789abcdef") >= CLAIMS_INSTANCE_LENGTH;
}

/* --- the lock -------------------------------------------------------------------------------- */

/* -1: it cannot be opened, or another process holds it (EWOULDBLOCK). */
static int open_lock(int directory, const char *name, int flags) {
  int fd = openat(directory, name, flags | O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (fd < 0)
    return -1;
  struct stat file;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
    if (file.st_nlink > 0)
      return fd;
    errno = ENOENT; /* who had it last has removed it */
  }
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

void claims_unlock(int lock) {
  if (lock >= 0)
    close(lock);
}

int claims_renew(struct claims *self) {
  struct stat file;
  if (self->lock >= 0 && fstat(self->lock, &file) == 0 && file.st_nlink > 0)
    return 0;
  claims_unlock(self->lock);
  for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
    if (self->instance[0] == '\0')
      (void)snprintf(self->instance, sizeof self->instance, "%016llx",
                     (unsigned long long)random_u64());
    self->lock = open_lock(self->directory, lock_path(self->instance).text, O_CREAT | O_EXCL);
    if (self->lock >= 0)
      return fchmod(self->lock, 0644); /* whatever the umask: others have to open it */
    if (errno != EEXIST && errno != ENOENT && errno != EWOULDBLOCK)
      break;
    self->instance[0] = '\0'; /* somebody has this name */
  }
  return -1;
}

void claims_open(struct claims *self, int directory) {
  struct stat file;
  claims_unlock(self->lock);
  self->lock = -1;
  self->directory = directory;
  if (directory < 0 || fstat(directory, &file) != 0)
    return;
  self->open_mode = file.st_mode & 0777;
  (void)claims_renew(self);
}

void claims_close(struct claims *self) {
  if (self->lock < 0)
    return;
  (void)unlinkat(self->directory, lock_path(self->instance).text, 0);
  close(self->lock);
  self->lock = -1;
}

/* --- claims ---------------------------------------------------------------------------------- */

/* In a directory that is ours. The owner file goes with it when that fails. */
static int write_owner(struct claims *self, const char *directory) {
  int fd = openat(self->directory, owner_path(directory).text,
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0)
    return -1;
  (void)fchmod(fd, 0644);
  ssize_t written = write(fd, self->instance, CLAIMS_INSTANCE_LENGTH);
  int error = written < 0 ? errno : ENOSPC;
  close(fd);
  if (written == CLAIMS_INSTANCE_LENGTH)
    return 0;
  errno = error;
  return -1;
}

static void remove_claim(int directory, const char *name) {
  int error = errno;
  (void)unlinkat(directory, owner_path(name).text, 0);
  (void)unlinkat(directory, name, AT_REMOVEDIR);
  errno = error;
}

static int make_directory(struct claims *self, const char *name) {
  if (mkdirat(self->directory, name, 0700) != 0)
    return -1;
  if (write_owner(self, name) == 0 &&
      fchmodat(self->directory, name, self->open_mode | 0700, 0) == 0)
    return 0;
  remove_claim(self->directory, name);
  return -1;
}

static enum claim failure(void) {
  return errno == EEXIST || errno == ENOTEMPTY ? CLAIM_FOREIGN : CLAIM_REFUSED;
}

enum claim claims_take(struct claims *self, const char *id) {
  struct path claim = claim_path(id);
  char name[CLAIMS_NAME_SIZE];
  struct stat file;
  if (fstatat(self->directory, claim.text, &file, AT_SYMLINK_NOFOLLOW) == 0)
    return CLAIM_FOREIGN;
  if (claims_renew(self) != 0) /* a claim without a lock would look like one of the dead */
    return CLAIM_REFUSED;
  if (!self->plain_mkdir) {
    claims_make_name(self, name);
    if (make_directory(self, name) != 0)
      return CLAIM_REFUSED;
    if (syscall(SYS_renameat2, self->directory, name, self->directory, claim.text,
                RENAME_NOREPLACE) == 0)
      return CLAIM_TAKEN;
    remove_claim(self->directory, name);
    if (errno != EINVAL && errno != ENOSYS)
      return failure();
    self->plain_mkdir = true;
  }
  return make_directory(self, claim.text) == 0 ? CLAIM_TAKEN : failure();
}

void claims_drop(struct claims *self, const char *id) {
  int lock;
  enum claim_owner owner = claims_owner(self, id, &lock);
  char name[CLAIMS_NAME_SIZE];
  claims_make_name(self, name);
  /* Not in its place: without its owner it would look like a script's. */
  if ((owner == CLAIM_OF_SELF || owner == CLAIM_OF_DEAD) &&
      renameat(self->directory, claim_path(id).text, self->directory, name) == 0)
    remove_claim(self->directory, name);
  claims_unlock(lock);
}

/* Reads who has the claim; false: nobody that is an agent. */
static bool read_owner(const struct claims *self, const char *claim,
                       char instance[CLAIMS_INSTANCE_LENGTH + 1]) {
  struct stat file;
  int fd = openat(self->directory, claim, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return false;
  int owner = fstatat(fd, OWNER, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode)
                  ? openat(fd, OWNER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                  : -1;
  close(fd);
  if (owner < 0)
    return false;
  ssize_t length = read(owner, instance, CLAIMS_INSTANCE_LENGTH);
  close(owner);
  if (length != CLAIMS_INSTANCE_LENGTH)
    return false;
  instance[length] = '\0';
  return is_instance(instance);
}

enum claim_owner claims_owner(const struct claims *self, const char *id, int *lock) {
  struct path claim = claim_path(id);
  char instance[CLAIMS_INSTANCE_LENGTH + 1], again[CLAIMS_INSTANCE_LENGTH + 1];
  struct stat file;
  *lock = -1;
  if (fstatat(self->directory, claim.text, &file, AT_SYMLINK_NOFOLLOW) != 0)
    return CLAIM_OF_NOBODY;
  if (!read_owner(self, claim.text, instance))
    return CLAIM_OF_SCRIPT;
  if (strcmp(instance, self->instance) == 0)
    return CLAIM_OF_SELF;
  *lock = open_lock(self->directory, lock_path(instance).text, 0);
  if (*lock < 0 && errno != ENOENT)
    return CLAIM_OF_AGENT;
  if (read_owner(self, claim.text, again) && strcmp(instance, again) == 0)
    return CLAIM_OF_DEAD;
  claims_unlock(*lock);
  *lock = -1;
  return CLAIM_OF_AGENT;
}

/* --- what the dead leave --------------------------------------------------------------------- */

static DIR *open_directory(int directory) {
  int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
  if (names == NULL && fd >= 0)
    close(fd);
  return names;
}

static bool has_claims(const struct claims *self, const char *instance) {
  bool found = false;
  char owner[CLAIMS_INSTANCE_LENGTH + 1];
  DIR *names = open_directory(self->directory);
  if (names == NULL)
    return true;
  for (const struct dirent *entry; !found && (entry = readdir(names)) != NULL;)
    found = claims_id_of(entry->d_name) != NULL && read_owner(self, entry->d_name, owner) &&
            strcmp(owner, instance) == 0;
  closedir(names);
  return found;
}

/* Everything of this name: the lock, the last of all, and what begins with it. */
static void remove_files(const struct claims *self, const char *lock_name) {
  size_t length = strlen(lock_name);
  DIR *names = open_directory(self->directory);
  if (names == NULL)
    return;
  for (const struct dirent *entry; (entry = readdir(names)) != NULL;)
    if (strncmp(entry->d_name, lock_name, length) == 0 && entry->d_name[length] == '.')
      (void)staged_file_remove(self->directory, entry->d_name);
  closedir(names);
  (void)unlinkat(self->directory, lock_name, 0);
}

void claims_sweep(struct claims *self) {
  DIR *names = open_directory(self->directory);
  if (names == NULL)
    return;
  size_t prefix = sizeof AGENT_PREFIX - 1;
  for (const struct dirent *entry; (entry = readdir(names)) != NULL;) {
    const char *instance = entry->d_name + prefix;
    if (strncmp(entry->d_name, AGENT_PREFIX, prefix) != 0 ||
        strlen(instance) != CLAIMS_INSTANCE_LENGTH || !is_instance(instance) ||
        strcmp(instance, self->instance) == 0)
      continue;
    int lock = open_lock(self->directory, entry->d_name, 0);
    if (lock >= 0 && !has_claims(self, instance))
      remove_files(self, entry->d_name);
    claims_unlock(lock);
  }
  closedir(names);
}
