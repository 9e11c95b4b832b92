#include "agent/confinement/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
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
static long open_directory(const struct confine_record *self, int base) {
  const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_NO_SYMLINKS};
  if (self->directory == 0)
    return base;
  const long fd = CALL(SYS_openat2, base, text_at(self, self->directory), &how, sizeof how);
  const bool is_missing = fd == -ENOENT || fd == -ENOTDIR;
  return is_missing && self->directory_may_be_missing ? base : fd;
}

bool confine_has_rules(const struct confine_record *self) {
  return self->attr.fs != 0 || self->attr.net != 0 || self->attr.scoped != 0;
}

int confine_make_rules(const struct confine_record *self, int base,
                       struct confine_failure *failure) {
  const long directory = open_directory(self, base);
  if (directory < 0 && directory != base)
    return refuse_directory(failure, text_at(self, self->directory), directory);
  const long rules = CALL(SYS_landlock_create_ruleset, &self->attr, sizeof self->attr, 0);
  int result = rules < 0 ? refuse(failure, "fence: a Landlock rule set", rules) : 0;
  if (result == 0)
    result = add_paths(self, (int)rules, (int)directory, failure);
  if (result == 0)
    result = add_ports(self, (int)rules, failure);
  if (directory != base)
    (void)CALL(SYS_close, directory);
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

union descriptor_message {
  struct cmsghdr header;
  char space[CMSG_SPACE(sizeof(int))];
};

static int send_listener(int socket, int listener, struct confine_failure *failure) {
  union descriptor_message message;
  char byte = 0;
  struct iovec piece = {&byte, sizeof byte};
  memset(&message, 0, sizeof message);
  message.header.cmsg_level = SOL_SOCKET;
  message.header.cmsg_type = SCM_RIGHTS;
  message.header.cmsg_len = CMSG_LEN(sizeof listener);
  memcpy(CMSG_DATA(&message.header), &listener, sizeof listener);
  const struct msghdr header = {.msg_iov = &piece,
                                .msg_iovlen = 1,
                                .msg_control = &message,
                                .msg_controllen = sizeof message};
  const long result = CALL(SYS_sendmsg, socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)CALL(SYS_close, listener);
  return result < 0 ? refuse(failure, "fence: the listener of the loopback network", result) : 0;
}

static int install_filter(const struct confine_record *self, int socket,
                          struct confine_failure *failure) {
  const struct filter_code code = {(unsigned short)self->instruction_count, instructions_of(self)};
  const unsigned flags =
      SECCOMP_FILTER_FLAG_SPEC_ALLOW | (self->has_listener ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0);
  const long result = CALL(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &code);
  if (result < 0)
    return refuse(failure, "fence: a seccomp filter", result);
  return self->has_listener ? send_listener(socket, (int)result, failure) : 0;
}

int confine_apply(const struct confine_record *self, const struct confine_descriptors *descriptors,
                  struct confine_failure *failure) {
  const int rules =
      confine_has_rules(self) ? confine_make_rules(self, descriptors->base, failure) : -1;
  if (confine_has_rules(self) && rules < 0)
    return -1;
  const bool is_fenced = self->has_agent_rules || rules >= 0 || self->instruction_count > 0;
  const long result = is_fenced ? CALL(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) : 0;
  if (result < 0)
    return refuse(failure, "fence: no_new_privs", result);
  if (self->has_agent_rules && restrict_self(descriptors->agent_rules, failure) != 0)
    return -1;
  if (rules >= 0 && restrict_self(rules, failure) != 0)
    return -1;
  if (rules >= 0)
    (void)CALL(SYS_close, rules);
  if (self->instruction_count > 0 && install_filter(self, descriptors->socket, failure) != 0)
    return -1;
  return set_limits(self, failure); /* afterwards, because the filter may need a descriptor */
}
