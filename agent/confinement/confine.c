#include "agent/confinement/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "agent/confinement/open_how.h"
#include "agent/confinement/seccomp.h"
#include "base/raw_call.h"

struct filter_code { /* struct sock_fprog */
  unsigned short count;
  const struct filter_instruction *instructions;
};

#define CALL(NUMBER, ...) CALL_(NUMBER, __VA_ARGS__, 0, 0, 0, 0, 0)
#define CALL_(NUMBER, A, B, C, D, E, ...)                                                          \
  raw_call(NUMBER, (long)(A), (long)(B), (long)(C), (long)(D), (long)(E))

/* The arrays behind the record. */
static const struct confine_path *paths_of(const struct confine_record *self) {
  return (const struct confine_path *)(self + 1);
}

static const struct landlock_port_rule *ports_of(const struct confine_record *self) {
  return (const struct landlock_port_rule *)(paths_of(self) + self->path_count);
}

static const struct filter_instruction *instructions_of(const struct confine_record *self) {
  return (const struct filter_instruction *)(ports_of(self) + self->port_count);
}

static const char *text_at(const struct confine_record *self, uint32_t offset) {
  return (const char *)self + offset;
}

static int refuse(struct confine_failure *failure, const char *what, long result) {
  const char *why = result == -ELOOP ? "a symbolic link is on the path" : strerror((int)-result);
  (void)error_set(&failure->reason, "%s: %s", what, why);
  failure->reason.code = (int)-result;
  if (failure->whole != NULL)
    (void)snprintf(failure->whole, failure->whole_size, "%s: %s", what, why);
  return -1;
}

static int refuse_path(struct confine_failure *failure, const struct confine_path *path,
                       const char *text, long result) {
  static const char *const fields[] = {"writePaths", "readPaths"};
  char what[PATH_MAX + 32];
  if (path->field == CONFINE_OWN)
    return refuse(failure, text, result);
  (void)snprintf(what, sizeof what, "fence.%s[%d] %s", fields[path->field], path->index, text);
  return refuse(failure, what, result);
}

static int refuse_directory(struct confine_failure *failure, const char *text, long result) {
  char what[PATH_MAX + 32];
  (void)snprintf(what, sizeof what, "working directory %s", text);
  return refuse(failure, what, result);
}

/* The actions on a file that is no directory. */
#define FILE_ACTIONS                                                                               \
  (LANDLOCK_EXECUTE | LANDLOCK_WRITE_FILE | LANDLOCK_READ_FILE | LANDLOCK_TRUNCATE |               \
   LANDLOCK_IOCTL_DEV)

/* The kernel rejects actions of directories for another file. */
static long add_path(int rules, uint64_t access, int fd) {
  struct landlock_path_rule rule = {.access = access, .parent = fd};
  const long result = CALL(SYS_landlock_add_rule, rules, LANDLOCK_PATH_BENEATH, &rule);
  rule.access &= FILE_ACTIONS;
  if (result != -EINVAL || rule.access == access)
    return result;
  return rule.access != 0 ? CALL(SYS_landlock_add_rule, rules, LANDLOCK_PATH_BENEATH, &rule) : 0;
}

/* Nothing can be read there anyway. */
static bool is_out_of_reach(long fd) {
  return fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES || fd == -ELOOP;
}

static int add_paths(const struct confine_record *self, int rules, int directory,
                     struct confine_failure *failure) {
  for (uint32_t i = 0; i < self->path_count; i++) {
    const struct confine_path *path = &paths_of(self)[i];
    const char *text = text_at(self, path->text);
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                                 .resolve =
                                     path->field == CONFINE_WRITE_PATHS ? RESOLVE_NO_SYMLINKS : 0};
    const long fd = CALL(SYS_openat2, directory, text, &how, sizeof how);
    if (path->field != CONFINE_WRITE_PATHS && is_out_of_reach(fd))
      continue;
    const long result = fd < 0 ? fd : add_path(rules, path->access, (int)fd);
    if (fd >= 0)
      (void)CALL(SYS_close, fd);
    if (result < 0)
      return refuse_path(failure, path, text, result);
  }
  return 0;
}

static int add_ports(const struct confine_record *self, int rules,
                     struct confine_failure *failure) {
  for (uint32_t i = 0; i < self->port_count; i++) {
    const long result = CALL(SYS_landlock_add_rule, rules, LANDLOCK_NET_PORT, &ports_of(self)[i]);
    if (result < 0)
      return refuse(failure, "fence: a TCP port", result);
  }
  return 0;
}

/* Without a symbolic link, which an earlier step may have made: it would lead elsewhere. */
int confine_open_directory(const struct confine_record *self, int base,
                           struct confine_failure *failure) {
  const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_NO_SYMLINKS};
  if (self->directory == 0)
    return base;
  const long fd = CALL(SYS_openat2, base, text_at(self, self->directory), &how, sizeof how);
  if (self->directory_may_be_missing && (fd == -ENOENT || fd == -ENOTDIR))
    return base;
  return fd < 0 ? refuse_directory(failure, text_at(self, self->directory), fd) : (int)fd;
}

bool confine_has_rules(const struct confine_record *self) {
  return self->attr.fs != 0 || self->attr.net != 0 || self->attr.scoped != 0;
}

int confine_make_rules(const struct confine_record *self, int directory,
                       struct confine_failure *failure) {
  const long rules = CALL(SYS_landlock_create_ruleset, &self->attr, sizeof self->attr, 0);
  int result = rules < 0 ? refuse(failure, "fence: a Landlock rule set", rules) : 0;
  if (result == 0)
    result = add_paths(self, (int)rules, directory, failure);
  if (result == 0)
    result = add_ports(self, (int)rules, failure);
  if (result == 0)
    return (int)rules;
  if (rules >= 0)
    (void)CALL(SYS_close, rules);
  return -1;
}

static int restrict_self(int rules, struct confine_failure *failure) {
  const long result = CALL(SYS_landlock_restrict_self, rules, 0);
  return result < 0 ? refuse(failure, "fence: Landlock", result) : 0;
}

static int set_limits(const struct confine_record *self, struct confine_failure *failure) {
  for (uint32_t i = 0; i < self->limit_count; i++) {
    const struct confine_limit *limit = &self->limits[i];
    const uint64_t values[2] = {limit->soft, limit->hard}; /* struct rlimit64 */
    const long result = CALL(SYS_prlimit64, 0, limit->resource, values, NULL);
    if (result < 0)
      return refuse(failure, "limits: a resource limit", result);
  }
  return 0;
}

/* Landlock and the filter demand it of a process without privileges. */
static int give_up_privileges(struct confine_failure *failure) {
  const long result = CALL(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return result < 0 ? refuse(failure, "fence: no_new_privs", result) : 0;
}

int confine_install_filter(const struct confine_record *self, int *listener,
                           struct confine_failure *failure) {
  const struct filter_code code = {(unsigned short)self->instruction_count, instructions_of(self)};
  const unsigned flags =
      SECCOMP_FILTER_FLAG_SPEC_ALLOW | (self->has_listener ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0);
  if (self->instruction_count == 0)
    return 0;
  if (give_up_privileges(failure) != 0)
    return -1;
  const long result = CALL(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &code);
  if (result < 0)
    return refuse(failure, "fence: a seccomp filter", result);
  if (!self->has_listener)
    return 0;
  *listener = (int)result;
  const long own = CALL(SYS_close_range, ~0U, ~0U, CLOSE_RANGE_UNSHARE);
  return own < 0 ? refuse(failure, "fence: close_range", own) : 0;
}

/* The agent's rule set comes first: the step can only narrow it. */
static int apply_rules(const struct confine_record *self, int directory, int agent_rules,
                       struct confine_failure *failure) {
  const int rules = confine_has_rules(self) ? confine_make_rules(self, directory, failure) : -1;
  if (confine_has_rules(self) && rules < 0)
    return -1;
  int result = give_up_privileges(failure);
  if (result == 0 && self->has_agent_rules)
    result = restrict_self(agent_rules, failure);
  if (result == 0 && rules >= 0)
    result = restrict_self(rules, failure);
  if (rules >= 0)
    (void)CALL(SYS_close, rules);
  return result;
}

int confine_restrict(const struct confine_record *self, int directory, int agent_rules,
                     struct confine_failure *failure) {
  const bool has_any = self->has_agent_rules || confine_has_rules(self);
  if (has_any && apply_rules(self, directory, agent_rules, failure) != 0)
    return -1;
  return set_limits(self, failure); /* afterwards, because the rules need descriptors */
}
