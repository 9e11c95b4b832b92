/*
 * A claim is made under a hidden name, with `owner` in it, and then renamed to `.claim-<id>`
 * without replacing. So every process that sees the claim sees its owner; a plain rename(2) would
 * replace the empty directory that a script has made.
 *
 * Any name may belong to another process a moment later, and may be a link to a directory
 * elsewhere. So a claim's directory is opened once; `owner` is made, read and removed below that
 * descriptor, and only after the descriptor was found to be a claim of this agent or of a dead one.
 * By name, a directory is only renamed, or removed if it is empty.
 *
 * Two agents may find the same dead one. The first holds the dead agent's lock, and reads `owner`
 * after taking it; the second finds the lock held, as if the owner were alive.
 */
#include "agent/frontends/request_files/claims.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/random.h"
#include "base/staged_file.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1U << 0) /* of linux/fs.h, which musl does not have */
#endif

#define AGENT_PREFIX ".agent-"
#define CLAIM_PREFIX ".claim-"
#define OWNER "owner"

#define LOCK_ATTEMPTS 8

static struct ipc_name claim_name(const char *id) {
  return ipc_name(CLAIM_PREFIX, id, "");
}

static struct ipc_name lock_name(const char *instance) {
  return ipc_name(AGENT_PREFIX, instance, "");
}

struct ipc_name claims_make_name(struct claims *self) {
  char number[24];
  (void)snprintf(number, sizeof number, ".%llu", (unsigned long long)++self->names);
  return ipc_name(AGENT_PREFIX, self->instance, number);
}

static bool is_instance(const char *text) {
  return strspn(text, "0123456789abcdef") >= CLAIMS_INSTANCE_LENGTH;
}

/* Opens a directory with O_PATH, for names below it and for fstat(2). Returns -1 with errno. */
static int open_directory(int directory, const char *name) {
  return openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- the lock -------------------------------------------------------------------------------- */

/* Takes the lock of an open file. Returns -1, and closes it, if another process holds the lock
   (EWOULDBLOCK) or its last holder has removed the file (ENOENT). */
static int lock_open(int fd) {
  struct stat file;
  if (fd < 0)
    return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &file) == 0) {
    if (file.st_nlink > 0)
      return fd;
    errno = ENOENT;
  }
  ipc_directory_close_entry(fd);
  return -1;
}

static int make_lock(int directory, const char *name) {
  int fd = openat(directory, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd >= 0)
    (void)fchmod(fd, 0644); /* whatever the umask is: other users must open it */
  return lock_open(fd);
}

/* Returns -1 if the lock is held, is missing (ENOENT), or is not a regular file. */
static int acquire_lock(const struct claims *self, const char *instance) {
  struct stat file;
  return lock_open(ipc_directory_open_file(self->directory, lock_name(instance).text, &file));
}

int claims_renew(struct claims *self) {
  struct stat file;
  if (self->lock >= 0 && fstat(self->lock, &file) == 0 && file.st_nlink > 0)
    return 0;
  ipc_directory_close_entry(self->lock);
  self->lock = -1;
  for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
    if (self->instance[0] == '\0')
      (void)snprintf(self->instance, sizeof self->instance, "%016llx",
                     (unsigned long long)random_u64());
    self->lock = make_lock(self->directory, lock_name(self->instance).text);
    if (self->lock >= 0)
      return 0;
    if (errno != EEXIST && errno != ENOENT && errno != EWOULDBLOCK)
      break;
    self->instance[0] = '\0'; /* another agent has this name */
  }
  return -1;
}

void claims_open(struct claims *self, int directory) {
  ipc_directory_close_entry(self->lock);
  self->lock = -1;
  self->directory = directory;
  (void)claims_renew(self);
}

void claims_close(struct claims *self) {
  if (self->lock < 0)
    return;
  (void)unlinkat(self->directory, lock_name(self->instance).text, 0);
  close(self->lock);
  self->lock = -1;
}

/* --- one claim ------------------------------------------------------------------------------- */

/* Reads the beginning of `owner`. Returns its length, or -1. */
static ssize_t read_owner(int claim, char text[CLAIMS_INSTANCE_LENGTH + 1]) {
  struct stat file;
  int fd = ipc_directory_open_file(claim, OWNER, &file);
  if (fd < 0)
    return -1;
  ssize_t length = read(fd, text, CLAIMS_INSTANCE_LENGTH);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  return length;
}

/* Returns false unless the owner is an agent. */
static bool has_owner(int claim, char instance[CLAIMS_INSTANCE_LENGTH + 1]) {
  return read_owner(claim, instance) == CLAIMS_INSTANCE_LENGTH && is_instance(instance);
}

/* Returns true if this agent's user made the directory; a file system may map users. */
static bool is_own(const struct claims *self, int claim) {
  struct stat made, lock;
  if (fstat(claim, &made) != 0 || fstat(self->lock, &lock) != 0)
    return false;
  errno = EBUSY;
  return made.st_uid == lock.st_uid;
}

/* Removes a claim of this agent, or of a dead one, that has this name now. */
static void remove_claim(const struct claims *self, const char *name, int claim) {
  ipc_directory_remove(claim, OWNER, 0);
  ipc_directory_remove(self->directory, name, AT_REMOVEDIR);
}

/* Makes a claim with its owner. Returns a descriptor, or -1 with errno. */
static int make_claim(const struct claims *self, const char *name) {
  struct stat directory;
  if (fstat(self->directory, &directory) != 0 ||
      ipc_directory_make(self->directory, name, (directory.st_mode & 0777) | 0700) != 0)
    return -1;
  int claim = open_directory(self->directory, name);
  if (claim >= 0 && is_own(self, claim) &&
      ipc_directory_make_file(claim, OWNER, self->instance, CLAIMS_INSTANCE_LENGTH) == 0)
    return claim;
  ipc_directory_close_entry(claim);
  ipc_directory_remove(self->directory, name, AT_REMOVEDIR);
  return -1;
}

/* --- taking ---------------------------------------------------------------------------------- */

static enum claim failure(void) {
  return errno == EEXIST || errno == ENOTEMPTY ? CLAIM_FOREIGN : CLAIM_REFUSED;
}

/* Closes the claim. If another process has its name by now, it is not acquired. */
static enum claim confirm_claim(const struct claims *self, const char *name, int claim) {
  bool is_acquired = staged_file_has_name(claim, self->directory, name);
  if (!is_acquired)
    (void)unlinkat(claim, OWNER, 0);
  close(claim);
  errno = EBUSY;
  return is_acquired ? CLAIM_ACQUIRED : CLAIM_REFUSED;
}

enum claim claims_acquire(struct claims *self, const char *id) {
  struct ipc_name name = claim_name(id);
  struct stat file;
  if (fstatat(self->directory, name.text, &file, AT_SYMLINK_NOFOLLOW) == 0)
    return CLAIM_FOREIGN;
  if (claims_renew(self) != 0) /* without a lock, this agent would look dead */
    return CLAIM_REFUSED;
  if (!self->plain_mkdir) {
    struct ipc_name hidden = claims_make_name(self);
    int claim = make_claim(self, hidden.text);
    if (claim < 0)
      return CLAIM_REFUSED;
    if (syscall(SYS_renameat2, self->directory, hidden.text, self->directory, name.text,
                RENAME_NOREPLACE) == 0)
      return confirm_claim(self, name.text, claim);
    remove_claim(self, hidden.text, claim);
    ipc_directory_close_entry(claim);
    if (errno != EINVAL && errno != ENOSYS)
      return failure();
    self->plain_mkdir = true;
  }
  int claim = make_claim(self, name.text);
  return claim >= 0 ? confirm_claim(self, name.text, claim) : failure();
}

/* See claims_owner. The caller closes `*claim`, which may be -1. */
static enum claim_owner find_owner(const struct claims *self, const char *name, int *claim,
                                   int *lock) {
  char instance[CLAIMS_INSTANCE_LENGTH + 1], again[CLAIMS_INSTANCE_LENGTH + 1];
  *lock = -1;
  *claim = open_directory(self->directory, name);
  if (*claim < 0)
    return errno == ENOENT ? CLAIM_OF_NOBODY : CLAIM_OF_SCRIPT;
  if (!has_owner(*claim, instance))
    return CLAIM_OF_SCRIPT;
  if (strcmp(instance, self->instance) == 0)
    return CLAIM_OF_SELF;
  *lock = acquire_lock(self, instance);
  if (*lock < 0 && errno != ENOENT)
    return CLAIM_OF_AGENT;
  if (staged_file_has_name(*claim, self->directory, name) && has_owner(*claim, again) &&
      strcmp(instance, again) == 0)
    return CLAIM_OF_DEAD;
  ipc_directory_close_entry(*lock);
  *lock = -1;
  return CLAIM_OF_AGENT;
}

enum claim_owner claims_owner(const struct claims *self, const char *id, int *lock) {
  int claim;
  enum claim_owner owner = find_owner(self, claim_name(id).text, &claim, lock);
  ipc_directory_close_entry(claim);
  return owner;
}

void claims_drop(struct claims *self, const char *id) {
  struct ipc_name name = claim_name(id);
  int claim, lock;
  enum claim_owner owner = find_owner(self, name.text, &claim, &lock);
  if (owner == CLAIM_OF_SELF || owner == CLAIM_OF_DEAD) {
    /* It is renamed first: without its owner it would look like a script's. */
    struct ipc_name hidden = claims_make_name(self);
    if (renameat(self->directory, name.text, self->directory, hidden.text) == 0)
      remove_claim(self, hidden.text, claim);
  }
  ipc_directory_close_entry(claim);
  ipc_directory_close_entry(lock);
}

/* --- the sweep ------------------------------------------------------------------------------- */

/* Reads the instance from the name of a lock or, with `dot`, from a hidden name. */
static bool read_instance(const char *name, bool dot, char instance[CLAIMS_INSTANCE_LENGTH + 1]) {
  size_t prefix = sizeof AGENT_PREFIX - 1;
  if (strncmp(name, AGENT_PREFIX, prefix) != 0 ||
      strnlen(name, prefix + CLAIMS_INSTANCE_LENGTH) < prefix + CLAIMS_INSTANCE_LENGTH)
    return false;
  memcpy(instance, name + prefix, CLAIMS_INSTANCE_LENGTH);
  instance[CLAIMS_INSTANCE_LENGTH] = '\0';
  return is_instance(instance) && name[prefix + CLAIMS_INSTANCE_LENGTH] == (dot ? '.' : '\0');
}

void claims_sweep_begin(struct claims *self) {
  self->sweep.next[0] = '\0';
  self->sweep.has_claims = false;
}

static void sweep_claim(struct claims *self, const char *name) {
  char instance[CLAIMS_INSTANCE_LENGTH + 1];
  int claim = open_directory(self->directory, name);
  if (claim < 0)
    return;
  if (has_owner(claim, instance) && strcmp(instance, self->sweep.dead) == 0)
    self->sweep.has_claims = true;
  close(claim);
}

/* Returns the distance of an instance from this sweep's, in the circle of all instances. */
static unsigned long long distance_to(const struct claims *self, const char *instance) {
  return strtoull(instance, NULL, 16) - strtoull(self->sweep.dead, NULL, 16);
}

/* The next sweep is about the nearest dead agent. */
static void sweep_lock(struct claims *self, const char *instance) {
  struct claims_sweep *sweep = &self->sweep;
  if (strcmp(instance, sweep->dead) == 0 || strcmp(instance, self->instance) == 0 ||
      (sweep->next[0] != '\0' && distance_to(self, instance) >= distance_to(self, sweep->next)))
    return;
  int lock = acquire_lock(self, instance);
  ipc_directory_close_entry(lock);
  if (lock >= 0)
    memcpy(sweep->next, instance, sizeof sweep->next);
}

/* Removes an incomplete result or claim; anything else with such a name stays. */
static void remove_hidden(struct claims *self, const char *name) {
  char owner[CLAIMS_INSTANCE_LENGTH + 1];
  int lock = acquire_lock(self, self->sweep.dead);
  if (lock < 0)
    return;
  int claim = open_directory(self->directory, name);
  if (claim < 0) {
    (void)unlinkat(self->directory, name, 0);
  } else {
    ssize_t length = read_owner(claim, owner);
    if (length >= 0 && strncmp(owner, self->sweep.dead, (size_t)length) == 0)
      (void)unlinkat(claim, OWNER, 0);
    (void)unlinkat(self->directory, name, AT_REMOVEDIR);
    close(claim);
  }
  ipc_directory_close_entry(lock);
}

const char *claims_sweep_name(struct claims *self, const char *name) {
  size_t prefix = sizeof CLAIM_PREFIX - 1;
  char instance[CLAIMS_INSTANCE_LENGTH + 1];
  bool sweeps = self->sweep.dead[0] != '\0';
  if (strncmp(name, CLAIM_PREFIX, prefix) == 0 && name[prefix] != '\0') {
    if (sweeps && !self->sweep.has_claims)
      sweep_claim(self, name);
    return name + prefix;
  }
  if (read_instance(name, false, instance))
    sweep_lock(self, instance);
  else if (sweeps && read_instance(name, true, instance) && strcmp(instance, self->sweep.dead) == 0)
    remove_hidden(self, name);
  return NULL;
}

void claims_sweep_end(struct claims *self) {
  struct claims_sweep *sweep = &self->sweep;
  int lock = sweep->dead[0] != '\0' && !sweep->has_claims ? acquire_lock(self, sweep->dead) : -1;
  if (lock >= 0)
    (void)unlinkat(self->directory, lock_name(sweep->dead).text, 0);
  ipc_directory_close_entry(lock);
  if (lock >= 0 || sweep->next[0] != '\0')
    memcpy(sweep->dead, sweep->next, sizeof sweep->dead);
}
