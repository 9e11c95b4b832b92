/*
 * A claim is made under a name of the agent's own, `owner` in it, and then renamed to `.claim-<id>`
 * without replacing: whoever sees it sees its owner too, and a plain rename(2) would replace the
 * empty directory that a script has made.
 *
 * Any name may be somebody else's a moment later, also a link to a directory elsewhere. So a claim's
 * directory is opened once; `owner` is made, read and removed below that descriptor, and only where
 * the descriptor has been found to be this agent's own, or the claim of one that is dead. By name a
 * directory is only renamed, or removed when it is empty.
 *
 * Two agents may find the same dead one. Whoever judges it holds its lock meanwhile, and has read
 * `owner` after taking it: the other one finds the lock held, as if the owner lived.
 */
#include "agent/doors/files/claims.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/doors/files/shared_entry.h"
#include "base/random.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1U << 0) /* linux/fs.h, which musl's headers do not come with */
#endif

#define AGENT_PREFIX ".agent-"
#define CLAIM_PREFIX ".claim-"
#define OWNER "owner"

#define LOCK_ATTEMPTS 8

/* A file name. */
struct name {
  char text[NAME_MAX + 1];
};

static struct name claim_name(const char *id) {
  struct name name;
  (void)snprintf(name.text, sizeof name.text, CLAIM_PREFIX "%s", id);
  return name;
}

static struct name lock_name(const char *instance) {
  struct name name;
  (void)snprintf(name.text, sizeof name.text, AGENT_PREFIX "%s", instance);
  return name;
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

static void close_keeping_errno(int fd) {
  int error = errno;
  if (fd >= 0)
    close(fd);
  errno = error;
}

/* --- the lock -------------------------------------------------------------------------------- */

/* Takes the lock of an open file, which it closes when it cannot: another process holds it
   (EWOULDBLOCK), or who had it last has removed it (ENOENT). */
static int lock_open(int fd) {
  struct stat file;
  if (fd < 0)
    return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &file) == 0) {
    if (file.st_nlink > 0)
      return fd;
    errno = ENOENT;
  }
  close_keeping_errno(fd);
  return -1;
}

static int make_lock(int directory, const char *name) {
  int fd = openat(directory, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd >= 0)
    (void)fchmod(fd, 0644); /* whatever the umask: others have to open it */
  return lock_open(fd);
}

/* -1: it is held, or not there (ENOENT), or no lock. */
static int take_lock(const struct claims *self, const char *instance) {
  struct stat file;
  return lock_open(shared_entry_open_file(self->directory, lock_name(instance).text, &file));
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
    self->lock = make_lock(self->directory, lock_name(self->instance).text);
    if (self->lock >= 0)
      return 0;
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
  (void)unlinkat(self->directory, lock_name(self->instance).text, 0);
  close(self->lock);
  self->lock = -1;
}

/* --- one claim ------------------------------------------------------------------------------- */

/* Reads the beginning of `owner`, a text; the length, or -1. */
static ssize_t read_owner(int claim, char text[CLAIMS_INSTANCE_LENGTH + 1]) {
  struct stat file;
  int fd = shared_entry_open_file(claim, OWNER, &file);
  if (fd < 0)
    return -1;
  ssize_t length = read(fd, text, CLAIMS_INSTANCE_LENGTH);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  return length;
}

/* False: it is nobody's that is an agent. */
static bool has_owner(int claim, char instance[CLAIMS_INSTANCE_LENGTH + 1]) {
  return read_owner(claim, instance) == CLAIMS_INSTANCE_LENGTH && is_instance(instance);
}

/* Whether a directory was made by this agent's user, whoever that is on this file system. */
static bool is_own(const struct claims *self, int claim) {
  struct stat made, lock;
  if (fstat(claim, &made) != 0 || fstat(self->lock, &lock) != 0)
    return false;
  errno = EBUSY;
  return made.st_uid == lock.st_uid;
}

/* Leaves no file when it fails. */
static int write_owner(const struct claims *self, int claim) {
  int fd = openat(claim, OWNER, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0)
    return -1;
  (void)fchmod(fd, 0644); /* whatever the umask */
  ssize_t written = write(fd, self->instance, CLAIMS_INSTANCE_LENGTH);
  int error = written < 0 ? errno : ENOSPC;
  close(fd);
  if (written == CLAIMS_INSTANCE_LENGTH)
    return 0;
  (void)unlinkat(claim, OWNER, 0);
  errno = error;
  return -1;
}

/* Removes one that is this agent's or a dead one's, and has this name now. */
static void remove_claim(const struct claims *self, const char *name, int claim) {
  int error = errno;
  (void)unlinkat(claim, OWNER, 0);
  (void)unlinkat(self->directory, name, AT_REMOVEDIR);
  errno = error;
}

/* Makes it, with its owner; a descriptor, or -1. */
static int make_claim(const struct claims *self, const char *name) {
  if (shared_entry_make_directory(self->directory, name, self->open_mode | 0700) != 0)
    return -1;
  int claim = shared_entry_open_directory(self->directory, name);
  if (claim >= 0 && is_own(self, claim) && write_owner(self, claim) == 0)
    return claim;
  close_keeping_errno(claim);
  int error = errno;
  (void)unlinkat(self->directory, name, AT_REMOVEDIR);
  errno = error;
  return -1;
}

/* --- taking ---------------------------------------------------------------------------------- */

static enum claim failure(void) {
  return errno == EEXIST || errno == ENOTEMPTY ? CLAIM_FOREIGN : CLAIM_REFUSED;
}

/* Closes it. What has the claim's name now may be something else, which counts as no claim. */
static enum claim check_taken(const struct claims *self, const char *name, int claim) {
  bool taken = shared_entry_is(self->directory, name, claim);
  if (!taken)
    (void)unlinkat(claim, OWNER, 0);
  close(claim);
  errno = EBUSY;
  return taken ? CLAIM_TAKEN : CLAIM_REFUSED;
}

enum claim claims_take(struct claims *self, const char *id) {
  struct name name = claim_name(id);
  char hidden[CLAIMS_NAME_SIZE];
  struct stat file;
  if (fstatat(self->directory, name.text, &file, AT_SYMLINK_NOFOLLOW) == 0)
    return CLAIM_FOREIGN;
  if (claims_renew(self) != 0) /* a claim without a lock would look like one of the dead */
    return CLAIM_REFUSED;
  if (!self->plain_mkdir) {
    claims_make_name(self, hidden);
    int claim = make_claim(self, hidden);
    if (claim < 0)
      return CLAIM_REFUSED;
    if (syscall(SYS_renameat2, self->directory, hidden, self->directory, name.text,
                RENAME_NOREPLACE) == 0)
      return check_taken(self, name.text, claim);
    remove_claim(self, hidden, claim);
    close_keeping_errno(claim);
    if (errno != EINVAL && errno != ENOSYS)
      return failure();
    self->plain_mkdir = true;
  }
  int claim = make_claim(self, name.text);
  return claim >= 0 ? check_taken(self, name.text, claim) : failure();
}

/* Whose the open claim is; see claims_owner. */
static enum claim_owner owner_of(const struct claims *self, const char *name, int claim,
                                 int *lock) {
  char instance[CLAIMS_INSTANCE_LENGTH + 1], again[CLAIMS_INSTANCE_LENGTH + 1];
  if (!has_owner(claim, instance))
    return CLAIM_OF_SCRIPT;
  if (strcmp(instance, self->instance) == 0)
    return CLAIM_OF_SELF;
  *lock = take_lock(self, instance);
  if (*lock < 0 && errno != ENOENT)
    return CLAIM_OF_AGENT;
  if (shared_entry_is(self->directory, name, claim) && has_owner(claim, again) &&
      strcmp(instance, again) == 0)
    return CLAIM_OF_DEAD;
  claims_unlock(*lock);
  *lock = -1;
  return CLAIM_OF_AGENT;
}

enum claim_owner claims_owner(const struct claims *self, const char *id, int *lock) {
  struct name name = claim_name(id);
  *lock = -1;
  int claim = shared_entry_open_directory(self->directory, name.text);
  if (claim < 0)
    return errno == ENOENT ? CLAIM_OF_NOBODY : CLAIM_OF_SCRIPT;
  enum claim_owner owner = owner_of(self, name.text, claim, lock);
  close(claim);
  return owner;
}

void claims_drop(struct claims *self, const char *id) {
  struct name name = claim_name(id);
  char hidden[CLAIMS_NAME_SIZE];
  int lock = -1;
  int claim = shared_entry_open_directory(self->directory, name.text);
  if (claim < 0)
    return;
  enum claim_owner owner = owner_of(self, name.text, claim, &lock);
  claims_make_name(self, hidden);
  /* Not in its place: without its owner it would look like a script's. */
  if ((owner == CLAIM_OF_SELF || owner == CLAIM_OF_DEAD) &&
      renameat(self->directory, name.text, self->directory, hidden) == 0)
    remove_claim(self, hidden, claim);
  close(claim);
  claims_unlock(lock);
}

/* --- what the dead leave --------------------------------------------------------------------- */

/* The instance of a name that is a lock's, or (`dot`) one of those that begin with a lock's. */
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
  struct claims_sweep *sweep = &self->sweep;
  sweep->next[0] = '\0';
  sweep->has_claims = sweep->passed = sweep->next_is_later = false;
}

static void sweep_claim(struct claims *self, const char *name) {
  char instance[CLAIMS_INSTANCE_LENGTH + 1];
  int claim = shared_entry_open_directory(self->directory, name);
  if (claim < 0)
    return;
  if (has_owner(claim, instance) && strcmp(instance, self->sweep.dead) == 0)
    self->sweep.has_claims = true;
  close(claim);
}

/* The next dead one in the order of the names, and after the last the first. */
static void sweep_lock(struct claims *self, const char *instance) {
  struct claims_sweep *sweep = &self->sweep;
  if (strcmp(instance, sweep->dead) == 0)
    sweep->passed = true;
  if (strcmp(instance, sweep->dead) == 0 || strcmp(instance, self->instance) == 0 ||
      (sweep->next[0] != '\0' && (sweep->next_is_later || !sweep->passed)))
    return;
  int lock = take_lock(self, instance);
  claims_unlock(lock);
  if (lock < 0)
    return;
  memcpy(sweep->next, instance, sizeof sweep->next);
  sweep->next_is_later = sweep->passed;
}

/* Half a result, or a claim that was not in its place yet; nothing else of this name is removed. */
static void remove_hidden(struct claims *self, const char *name) {
  char owner[CLAIMS_INSTANCE_LENGTH + 1];
  int lock = take_lock(self, self->sweep.dead);
  if (lock < 0)
    return;
  int claim = shared_entry_open_directory(self->directory, name);
  if (claim < 0) {
    (void)unlinkat(self->directory, name, 0);
  } else {
    ssize_t length = read_owner(claim, owner);
    if (length >= 0 && strncmp(owner, self->sweep.dead, (size_t)length) == 0)
      (void)unlinkat(claim, OWNER, 0);
    (void)unlinkat(self->directory, name, AT_REMOVEDIR);
    close(claim);
  }
  claims_unlock(lock);
}

void claims_sweep_name(struct claims *self, const char *name) {
  char instance[CLAIMS_INSTANCE_LENGTH + 1];
  bool sweeps = self->sweep.dead[0] != '\0';
  if (claims_id_of(name) != NULL) {
    if (sweeps && !self->sweep.has_claims)
      sweep_claim(self, name);
  } else if (read_instance(name, false, instance)) {
    sweep_lock(self, instance);
  } else if (sweeps && read_instance(name, true, instance) &&
             strcmp(instance, self->sweep.dead) == 0) {
    remove_hidden(self, name);
  }
}

void claims_sweep_end(struct claims *self) {
  struct claims_sweep *sweep = &self->sweep;
  int lock = sweep->dead[0] != '\0' && !sweep->has_claims ? take_lock(self, sweep->dead) : -1;
  if (lock >= 0)
    (void)unlinkat(self->directory, lock_name(sweep->dead).text, 0);
  claims_unlock(lock);
  if (lock >= 0 || sweep->next[0] != '\0')
    memcpy(sweep->dead, sweep->next, sizeof sweep->dead);
}
