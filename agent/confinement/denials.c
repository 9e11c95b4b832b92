#include "agent/confinement/denials.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/confinement/open_how.h"
#include "agent/files/access/path.h"
#include "base/memory.h"

/* How much is searched of one output, in tokens that look like paths. */
#define CANDIDATES_MAX 64

struct denials_search {
  struct confinement_plan *plan;
  const struct policy_fence *fences[2]; /* the step's and the agent's; NULL: none */
  const char *directory;
  size_t candidates;
};

/* --- the rights of the file system ------------------------------------------------------------ */

enum verdict { DENIED, ALLOWED, UNKNOWN };

/* The bits of a capability in capget(2), version 3. */
#define CAPABILITY_VERSION 0x20080522
#define CAPABILITY_DAC_OVERRIDE (1U << 1)

static bool overrides_rights(void) {
  struct {
    uint32_t version;
    int pid;
  } header = {CAPABILITY_VERSION, 0};
  struct {
    uint32_t effective, permitted, inheritable;
  } sets[2] = {{0, 0, 0}, {0, 0, 0}};
  return syscall(SYS_capget, &header, sets) == 0 &&
         (sets[0].effective & CAPABILITY_DAC_OVERRIDE) != 0;
}

static bool is_own_group(gid_t group) {
  gid_t groups[64];
  const int count = getgroups(sizeof groups / sizeof *groups, groups);
  bool is_own = group == getegid();
  for (int i = 0; i < count; i++)
    is_own |= groups[i] == group;
  return is_own;
}

/* struct statx of linux/stat.h, which musl does not have. */
struct file_facts {
  uint32_t before[5], uid, gid;
  uint16_t mode;
  uint16_t rest[113];
};
static_assert(sizeof(struct file_facts) == 256, "statx(2) writes this many bytes");

#define STATX_BASIC_STATS 0x7ff

/* `bits` are those of others: 4, 2 and 1. Access control lists are not considered. */
static enum verdict judge_file(int fd, unsigned bits) {
  struct file_facts file;
  if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &file) != 0)
    return UNKNOWN;
  const unsigned shift = file.uid == geteuid() ? 6 : is_own_group(file.gid) ? 3 : 0;
  return overrides_rights() || ((unsigned)file.mode >> shift & bits) == bits ? ALLOWED : DENIED;
}

/* Opens what the kernel has in memory. Returns -1 with errno. */
static int open_cached(const char *path) {
  const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED};
  return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static enum verdict judge_path(const char *path, unsigned bits) {
  const int fd = open_cached(path);
  if (fd < 0)
    return errno == ENOENT ? DENIED : UNKNOWN;
  const enum verdict verdict = judge_file(fd, bits);
  close(fd);
  return verdict;
}

/* A file that does not exist is created in its directory. */
static enum verdict judge(const char *path, enum step_access access) {
  enum { READ = 4, WRITE = 2, SEARCH = 1 };
  if (access == STEP_ACCESS_READ)
    return judge_path(path, READ);
  const int fd = open_cached(path);
  const bool is_missing = fd < 0 && errno == ENOENT;
  enum verdict verdict = fd >= 0 ? judge_file(fd, WRITE) : UNKNOWN;
  if (fd >= 0)
    close(fd);
  if (!is_missing)
    return verdict;
  char *parent = memory_copy(path, strlen(path));
  char *slash = strrchr(parent, '/');
  slash[slash == parent] = '\0';
  verdict = judge_path(parent, WRITE | SEARCH);
  free(parent);
  return verdict;
}

/* --- the policy ------------------------------------------------------------------------------- */

static bool is_below_any(char *const *roots, const char *directory, const char *path) {
  bool is_below = path_below(path, "/dev") != NULL;
  for (size_t i = 0; roots[i] != NULL && !is_below; i++) {
    char *root = path_lexical(directory, roots[i]);
    is_below = path_below(path, root) != NULL;
    free(root);
  }
  return is_below;
}

static bool allows(char *const *roots, const char *directory, const char *path) {
  return roots == NULL || is_below_any(roots, directory, path);
}

/* Returns whether one of the two policies denies an access to the path, and which. */
static bool find_access(const struct denials_search *self, const char *path,
                        enum step_access *access) {
  bool may_read = true, may_write = true;
  for (size_t i = 0; i < 2; i++) {
    const struct policy_fence *fence = self->fences[i];
    if (fence == NULL)
      continue;
    const bool is_writable = allows(fence->write_paths, self->directory, path);
    may_write &= is_writable;
    may_read &= allows(fence->read_paths, self->directory, path) ||
                (fence->write_paths != NULL && is_writable);
  }
  *access = may_read ? STEP_ACCESS_WRITE : STEP_ACCESS_READ;
  return !may_read || !may_write;
}

void denials_add(struct confinement_plan *plan, enum step_access access, const char *path,
                 bool is_certain) {
  struct step_fence *report = &plan->report;
  if (report->denial_count == STEP_DENIALS_MAX)
    return;
  for (size_t i = 0; i < report->denial_count; i++)
    if (report->denials[i].access == access &&
        (path == NULL || strcmp(report->denials[i].path, path) == 0))
      return;
  if (report->denials == NULL)
    report->denials = memory_zeros(STEP_DENIALS_MAX * sizeof *report->denials);
  report->denials[report->denial_count++] =
      (struct step_denial){.access = access,
                           .path = path != NULL ? memory_copy(path, strlen(path)) : NULL,
                           .is_certain = is_certain};
}

void denials_release(struct confinement_plan *plan) {
  for (size_t i = 0; i < plan->report.denial_count; i++)
    free(plan->report.denials[i].path);
  free(plan->report.denials);
  plan->report.denials = NULL;
  plan->report.denial_count = 0;
}

/* --- the output ------------------------------------------------------------------------------- */

static bool has_any(const char *line, size_t length, const char *const *words) {
  for (; *words != NULL; words++)
    if (memmem(line, length, *words, strlen(*words)) != NULL)
      return true;
  return false;
}

static void check_token(struct denials_search *self, const char *token, size_t length) {
  enum step_access access;
  char text[PATH_MAX];
  while (length > 0 && strchr(":.,", token[length - 1]) != NULL)
    length--;
  if (length == 0 || length >= sizeof text || self->candidates++ >= CANDIDATES_MAX)
    return;
  memcpy(text, token, length);
  text[length] = '\0';
  char *path = path_lexical(self->directory, text);
  const enum verdict verdict = find_access(self, path, &access) ? judge(path, access) : DENIED;
  if (verdict == ALLOWED || (verdict == UNKNOWN && text[0] == '/'))
    denials_add(self->plan, access, path, verdict == ALLOWED);
  free(path);
}

/* Programs quote a path, or print it in front of a colon. The quotes of GNU programs in a UTF-8
   locale are bytes above 127. A relative path counts if it has a slash or stands before the reason.
   */
static void check_line(struct denials_search *self, const char *line, size_t length) {
  static const char ends[] = " \t'\"`,;()[]{}<>=\xe2\x80\x98\x99";
  const char *token = line;
  bool was_quoted = false;
  for (const char *at = line; at <= line + length; at++) {
    if (at < line + length && memchr(ends, *at, sizeof ends - 1) == NULL)
      continue;
    const size_t size = (size_t)(at - token);
    if (size > 0 && (was_quoted || memchr(token, '/', size) != NULL || token[size - 1] == ':'))
      check_token(self, token, size);
    was_quoted = at < line + length && strchr("'\"`\x98", *at) != NULL;
    token = at + 1;
  }
}

/* How programs report a missing network: most of them do not show the errno of socket(2). */
static const char *const network_words[] = {"Could not resolve host",
                                            "emporary failure in name resolution",
                                            "Name or service not known",
                                            "EAI_AGAIN",
                                            "ENOTFOUND",
                                            "Couldn't connect to server",
                                            "getaddrinfo",
                                            "SocketException",
                                            NULL};

/* How they report that a file is denied. Some begin with a capital letter, which is left out. */
static const char *const file_words[] = {"ermission denied", "EACCES", "ross-device link", "EXDEV",
                                         NULL};

void denials_find(struct confinement_plan *plan, const struct confinement *confinement,
                  const struct policy_fence *fence, const char *directory, const char *output,
                  size_t length) {
  struct denials_search self = {
      .plan = plan, .fences = {fence, confinement_fence(confinement)}, .directory = directory};
  for (const char *line = output, *end = output + length; line < end;) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const size_t size = (size_t)((newline != NULL ? newline : end) - line);
    if (has_any(line, size, file_words))
      check_line(&self, line, size);
    if (plan->network != POLICY_NETWORK_ALL &&
        (has_any(line, size, network_words) ||
         (has_any(line, size, file_words) && memmem(line, size, "socket", 6) != NULL)))
      denials_add(plan, STEP_ACCESS_NETWORK, NULL, plan->network == POLICY_NETWORK_NONE);
    line += size + 1;
  }
}
