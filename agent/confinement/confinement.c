#include "agent/confinement/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/confinement/confine.h"
#include "agent/confinement/filter.h"
#include "agent/confinement/loopback.h"
#include "agent/confinement/seccomp.h"
#include "base/memory.h"

static const char *const words[] = {
    [CONFINEMENT_WRITE] = "write",     [CONFINEMENT_READ] = "read",
    [CONFINEMENT_NETWORK] = "network", [CONFINEMENT_CONNECT] = "connect",
    [CONFINEMENT_BIND] = "bind",       [CONFINEMENT_LOOPBACK] = "loopback",
    [CONFINEMENT_UDP] = "udp",         [CONFINEMENT_TRACE] = "trace",
    [CONFINEMENT_SIGNALS] = "signals", [CONFINEMENT_ABSTRACT_SOCKETS] = "abstractSockets",
    [CONFINEMENT_AGENT] = "agent",
};

#define BIT(PART) (1U << CONFINEMENT_##PART)
#define SCOPES (BIT(SIGNALS) | BIT(ABSTRACT_SOCKETS))

/* What every fence keeps from processes outside the step, by Landlock. */
#define ISOLATION (BIT(TRACE) | SCOPES)

struct confinement {
  const struct confinement_options *options;
  int landlock;            /* its ABI; 0: none */
  int landlock_error;      /* why there is none */
  int seccomp_error;       /* 0: there is one */
  const char *no_loopback; /* see loopback_lacks */
  unsigned can;            /* bits of what the kernel can enforce */
  unsigned own;            /* bits of what the agent's own policy enforces */
  unsigned own_missing;
  enum policy_network own_network;
  bool own_lets_udp_through;
  int rules; /* the descriptor of the agent's own rule set; 0: none */
};

/* --- the kernel ------------------------------------------------------------------------------- */

static void examine_kernel(struct confinement *self) {
  const uint32_t action = SECCOMP_RET_ERRNO;
  const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_VERSION);
  self->landlock = abi > 0 ? (int)abi : 0;
  self->landlock_error = abi < 0 ? errno : 0;
  self->seccomp_error = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 ? 0 : errno;
  if (self->landlock >= LANDLOCK_ABI_REFER)
    self->can |= BIT(TRACE);
  if (self->landlock >= LANDLOCK_ABI_FILES)
    self->can |= BIT(WRITE) | BIT(READ);
  if (self->landlock >= LANDLOCK_ABI_TCP)
    self->can |= BIT(CONNECT) | BIT(BIND);
  if (self->landlock >= LANDLOCK_ABI_SCOPES)
    self->can |= SCOPES;
  if (self->seccomp_error == 0)
    self->can |= BIT(NETWORK) | BIT(AGENT);
  if (self->seccomp_error == 0)
    self->no_loopback = loopback_lacks();
  if (self->seccomp_error == 0 && self->no_loopback == NULL)
    self->can |= BIT(LOOPBACK);
}

/* Returns the bits that a fence asks for. Every fence protects the agent. */
static unsigned asked_by(const struct policy_fence *fence) {
  unsigned asked = ISOLATION | BIT(AGENT);
  if (fence->write_paths != NULL)
    asked |= BIT(WRITE);
  if (fence->read_paths != NULL)
    asked |= BIT(READ);
  if (fence->network != POLICY_NETWORK_ALL)
    asked |= BIT(NETWORK);
  if (fence->network == POLICY_NETWORK_PORTS)
    asked |= BIT(CONNECT) | BIT(BIND);
  if (fence->network == POLICY_NETWORK_LOOPBACK)
    asked |= BIT(LOOPBACK);
  return asked;
}

static const char *field_of(unsigned missing, const struct policy_fence *fence) {
  if ((missing & BIT(WRITE)) != 0)
    return ".writePaths";
  if ((missing & BIT(READ)) != 0)
    return ".readPaths";
  if ((missing & (BIT(NETWORK) | BIT(CONNECT) | BIT(BIND) | BIT(LOOPBACK))) == 0)
    return "";
  return fence->network == POLICY_NETWORK_NONE       ? ".network \"none\""
         : fence->network == POLICY_NETWORK_LOOPBACK ? ".network \"loopback\""
                                                     : ".network \"ports\"";
}

static const char *why_no_landlock(const struct confinement *self) {
  if (self->landlock_error == EPERM)
    return "the container's seccomp profile forbids (EPERM)";
  return self->landlock_error == EOPNOTSUPP ? "is disabled at the kernel's boot"
                                            : "this kernel does not have";
}

static int refuse(const struct confinement *self, const struct policy_fence *fence,
                  unsigned missing, struct error *error) {
  const char *field = field_of(missing, fence);
  const char *hint = fence == self->options->fence
                         ? "; with \"bestEffort\": true the agent starts without it"
                         : "; with \"bestEffort\": true the step runs without it";
  if ((missing & (BIT(NETWORK) | BIT(AGENT))) != 0)
    return error_set(error, "fence%s needs seccomp filters: %s%s", field,
                     strerror(self->seccomp_error), hint);
  if ((missing & BIT(LOOPBACK)) != 0)
    return error_set(error, "fence%s needs %s; with \"bestEffort\": true it is \"none\"", field,
                     self->no_loopback);
  if (self->landlock == 0)
    return error_set(error, "fence%s needs Landlock, which %s%s", field, why_no_landlock(self),
                     hint);
  return error_set(error, "fence%s needs Landlock ABI %d, this kernel has %d%s", field,
                   (missing & (BIT(WRITE) | BIT(READ))) != 0     ? LANDLOCK_ABI_FILES
                   : (missing & (BIT(CONNECT) | BIT(BIND))) != 0 ? LANDLOCK_ABI_TCP
                                                                 : LANDLOCK_ABI_SCOPES,
                   self->landlock, hint);
}

/* Returns 0 if everything that is missing may be. If the agent is process 1, the kernel protects it
   from its pid namespace without Landlock. */
static int check_missing(const struct confinement *self, const struct policy_fence *fence,
                         unsigned missing, struct error *error) {
  const unsigned tolerated = fence->best_effort ? ~0U : getpid() == 1 ? ISOLATION : 0;
  return (missing & ~tolerated) == 0 ? 0 : refuse(self, fence, missing & ~tolerated, error);
}

/* Without the means for the loopback network there is none at all. */
static enum policy_network network_of(const struct confinement *self,
                                      const struct policy_fence *fence) {
  const bool has_loopback = (self->can & BIT(LOOPBACK)) != 0;
  return fence->network == POLICY_NETWORK_LOOPBACK && !has_loopback ? POLICY_NETWORK_NONE
                                                                    : fence->network;
}

static bool lets_udp_through(const struct confinement *self, const struct policy_fence *fence) {
  return network_of(self, fence) == POLICY_NETWORK_LOOPBACK && fence->best_effort;
}

/* --- the record ------------------------------------------------------------------------------- */

#define WRITES                                                                                     \
  (LANDLOCK_WRITE_FILE | LANDLOCK_REMOVE | LANDLOCK_MAKE | LANDLOCK_REFER | LANDLOCK_TRUNCATE)
#define READS (LANDLOCK_EXECUTE | LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)

/* The parts of a record while it grows. */
struct draft {
  struct confine_record record;
  struct buffer paths, ports, texts;
  struct filter_program filter;
};

/* Returns the offset of the text behind the texts; finish() makes it an offset in the record. */
static uint32_t add_text(struct draft *self, const char *text) {
  const uint32_t at = (uint32_t)self->texts.length;
  buffer_add(&self->texts, text, strlen(text) + 1);
  return at;
}

static void add_path(struct draft *self, enum confine_field field, size_t index, const char *text,
                     uint64_t access) {
  const struct confine_path path = {.access = access & self->record.attr.fs,
                                    .text = add_text(self, text),
                                    .index = (uint16_t)index,
                                    .field = (uint8_t)field};
  if (path.access == 0)
    return;
  buffer_add(&self->paths, (const char *)&path, sizeof path);
  self->record.path_count++;
}

static void add_ports(struct draft *self, const struct step_bytes *ports, uint64_t access) {
  for (size_t at = 0; at < ports->length; at += sizeof(uint16_t)) {
    uint16_t number;
    memcpy(&number, ports->text + at, sizeof number);
    const struct landlock_port_rule rule = {.access = access, .port = number};
    buffer_add(&self->ports, (const char *)&rule, sizeof rule);
    self->record.port_count++;
  }
}

static void add_all(struct draft *self, enum confine_field field, char *const *paths,
                    uint64_t access) {
  for (size_t i = 0; paths != NULL && paths[i] != NULL; i++)
    add_path(self, field, i, paths[i], access);
}

/* The rule set of a fence, as far as the kernel can enforce it. If files are restricted, the kernel
   rejects moves to another directory that no rule allows; before ABI 6 also if another rule set
   restricts them. `isolates`: any rule set prevents tracing, so there must be one. */
static void add_rules(struct draft *self, const struct confinement *confinement,
                      const struct policy_fence *fence, bool isolates) {
  const unsigned can = confinement->can & asked_by(fence);
  struct landlock_attr *attr = &self->record.attr;
  if ((can & BIT(WRITE)) != 0)
    attr->fs |= WRITES | (confinement->landlock >= LANDLOCK_ABI_IOCTL ? LANDLOCK_IOCTL_DEV : 0);
  if ((can & BIT(READ)) != 0)
    attr->fs |= READS | LANDLOCK_REFER;
  if ((can & BIT(CONNECT)) != 0) {
    attr->net = LANDLOCK_CONNECT_TCP | LANDLOCK_BIND_TCP;
    add_ports(self, &fence->tcp_connect, LANDLOCK_CONNECT_TCP);
    add_ports(self, &fence->tcp_bind, LANDLOCK_BIND_TCP);
  }
  if (isolates && (can & SCOPES) != 0)
    attr->scoped = LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET;
  if (attr->fs == 0 && confinement->landlock < LANDLOCK_ABI_SCOPES &&
      (attr->net != 0 || (isolates && (can & BIT(TRACE)) != 0)))
    attr->fs = LANDLOCK_REFER;
  if (attr->fs == 0)
    return;
  if ((attr->fs & LANDLOCK_WRITE_FILE) == 0)
    add_path(self, CONFINE_OWN, 0, "/", LANDLOCK_REFER);
  if (attr->fs != LANDLOCK_REFER)
    add_path(self, CONFINE_OWN, 0, "/dev",
             LANDLOCK_WRITE_FILE | LANDLOCK_IOCTL_DEV | LANDLOCK_READ_FILE | LANDLOCK_READ_DIR);
  add_all(self, CONFINE_WRITE_PATHS, fence->write_paths, attr->fs);
  add_all(self, CONFINE_READ_PATHS, fence->read_paths, READS);
}

static void add_limit(struct draft *self, int resource, uint64_t soft, uint64_t hard) {
  uint64_t own[2] = {UINT64_MAX, UINT64_MAX}; /* struct rlimit64 */
  (void)syscall(SYS_prlimit64, 0, resource, NULL, own);
  const uint64_t most = own[1];
  self->record.limits[self->record.limit_count++] =
      (struct confine_limit){resource, soft < most ? soft : most, hard < most ? hard : most};
}

static void add_limits(struct draft *self, const struct policy_limits *limits) {
  if (limits->open_files > 0)
    add_limit(self, RLIMIT_NOFILE, limits->open_files, limits->open_files);
  if (limits->file_size_bytes > 0)
    add_limit(self, RLIMIT_FSIZE, limits->file_size_bytes, limits->file_size_bytes);
  if (limits->cpu_seconds > 0)
    add_limit(self, RLIMIT_CPU, limits->cpu_seconds,
              limits->cpu_seconds + POLICY_CPU_GRACE_SECONDS);
  add_limit(self, RLIMIT_CORE, limits->core_bytes, limits->core_bytes);
}

static void add_filter(struct draft *self, const struct confinement *confinement,
                       enum policy_network network, bool lets_udp_through) {
  const bool protects = !confinement->options->agent_is_protected;
  const pid_t group = getpgrp();
  const struct filter_rules rules = {.network = network,
                                     .lets_udp_through = lets_udp_through,
                                     .agent = protects ? getpid() : 0,
                                     .group = protects && group != 0 ? group : getpid(),
                                     .keeps_limits = true};
  if (confinement->seccomp_error != 0)
    return;
  filter_write(&self->filter, &rules);
  self->record.instruction_count = (uint32_t)self->filter.count;
  self->record.has_listener = filter_asks(&rules);
  self->record.lets_udp_through = lets_udp_through;
}

static void relocate(struct draft *self, size_t texts_at) {
  struct confine_path *paths = (struct confine_path *)(void *)self->paths.bytes;
  for (uint32_t i = 0; i < self->record.path_count; i++)
    paths[i].text += (uint32_t)texts_at;
  if (self->record.directory > 0)
    self->record.directory += (uint32_t)texts_at - 1;
}

/* Appends the record, aligned, and returns its offset. */
static size_t finish(struct draft *self, struct buffer *body) {
  static const char zeros[_Alignof(struct confine_record)];
  const size_t filter_size = self->filter.count * sizeof *self->filter.instructions;
  buffer_add(body, zeros, -body->length % sizeof zeros);
  const size_t at = body->length;
  relocate(self, sizeof self->record + self->paths.length + self->ports.length + filter_size);
  buffer_add(body, (const char *)&self->record, sizeof self->record);
  buffer_add(body, self->paths.bytes, self->paths.length);
  buffer_add(body, self->ports.bytes, self->ports.length);
  buffer_add(body, (const char *)self->filter.instructions, filter_size);
  buffer_add(body, self->texts.bytes, self->texts.length);
  buffer_release(&self->paths);
  buffer_release(&self->ports);
  buffer_release(&self->texts);
  return at;
}

/* --- the agent's own policy ------------------------------------------------------------------- */

static int make_own_rules(struct confinement *self, struct error *error) {
  struct draft draft = {0};
  struct buffer body = {0};
  add_rules(&draft, self, self->options->fence, true);
  (void)finish(&draft, &body);
  const struct confine_record *record = (const struct confine_record *)(void *)body.bytes;
  struct confine_failure failure = {.whole = NULL};
  const int rules = confine_has_rules(record) ? confine_make_rules(record, AT_FDCWD, &failure) : 0;
  buffer_release(&body);
  if (rules < 0)
    *error = failure.reason;
  self->rules = rules > 0 ? rules : 0;
  return rules >= 0 ? 0 : -1;
}

/* Takes the agent's own policy into account. */
static int add_own(struct confinement *self, struct error *error) {
  const struct policy_fence *fence = self->options->fence;
  if (fence == NULL)
    return 0;
  self->own = asked_by(fence) & self->can;
  self->own_missing = asked_by(fence) & ~self->can;
  self->own_network = network_of(self, fence);
  self->own_lets_udp_through = lets_udp_through(self, fence);
  if (check_missing(self, fence, self->own_missing, error) != 0)
    return -1;
  return make_own_rules(self, error);
}

struct confinement *confinement_new(const struct confinement_options *options,
                                    struct error *error) {
  struct confinement *self = memory_allocate(sizeof *self);
  *self = (struct confinement){.options = options};
  examine_kernel(self);
  if (add_own(self, error) == 0)
    return self;
  confinement_free(self);
  return NULL;
}

void confinement_free(struct confinement *self) {
  if (self != NULL && self->rules > 0)
    close(self->rules);
  free(self);
}

int confinement_rules(const struct confinement *self) {
  return self->rules;
}

const struct policy_fence *confinement_fence(const struct confinement *self) {
  return self->options->fence;
}

static void write_words(unsigned parts, const char *out[CONFINEMENT_PARTS + 1]) {
  size_t count = 0;
  for (unsigned i = 0; i < CONFINEMENT_PARTS; i++)
    if ((parts & 1U << i) != 0)
      out[count++] = words[i];
  out[count] = NULL;
}

int confinement_describe(const struct confinement *self, const char *out[CONFINEMENT_PARTS + 1]) {
  write_words(self->can, out);
  return self->landlock;
}

/* --- a step ----------------------------------------------------------------------------------- */

static enum policy_network stricter(enum policy_network one, enum policy_network other) {
  return one > other ? one : other;
}

/* The agent's own rule set isolates already. */
static bool adds_rules(const struct confinement *self, const struct policy_fence *fence) {
  return ((asked_by(fence) & ~ISOLATION) | (self->rules == 0 ? ISOLATION : 0)) & self->can &
         (BIT(WRITE) | BIT(READ) | BIT(CONNECT) | ISOLATION);
}

static int plan_fence(const struct confinement *self, const struct policy_fence *fence,
                      struct confinement_plan *plan, unsigned *missing, struct error *error) {
  const unsigned lacks = asked_by(fence) & ~self->can;
  if (check_missing(self, fence, lacks, error) != 0)
    return -1;
  *missing |= lacks;
  plan->network = stricter(self->own_network, network_of(self, fence));
  /* UDP is out if either of the two policies has no UDP. */
  plan->lets_udp_through =
      plan->network == POLICY_NETWORK_LOOPBACK &&
      (fence->network < POLICY_NETWORK_LOOPBACK || lets_udp_through(self, fence)) &&
      (self->own_network < POLICY_NETWORK_LOOPBACK || self->own_lets_udp_through);
  if (adds_rules(self, fence))
    plan->fence = fence;
  return 0;
}

int confinement_plan(const struct confinement *self, const struct step *step,
                     struct confinement_plan *plan, struct error *error) {
  const struct confinement_options *options = self->options;
  unsigned missing = self->own_missing, enforced = self->own;
  const struct policy_limits limits = policy_limits_merge(options->limits, step->limits);
  *plan = (struct confinement_plan){.has_limits = policy_limits_exist(&limits),
                                    .limits = limits,
                                    .network = self->own_network,
                                    .lets_udp_through = self->own_lets_udp_through,
                                    .has_fence = step->fence != NULL || options->fence != NULL};
  plan->is_needed = plan->has_limits || plan->has_fence;
  if (step->fence != NULL && plan_fence(self, step->fence, plan, &missing, error) != 0)
    return -1;
  if (step->fence != NULL)
    enforced |= asked_by(step->fence) & self->can;
  if (plan->lets_udp_through)
    missing |= BIT(UDP);
  if (plan->has_fence) {
    write_words(enforced, plan->enforced);
    write_words(missing, plan->missing);
    plan->report = (struct step_fence){.landlock = self->landlock,
                                       .network = policy_network_name(plan->network),
                                       .enforced = plan->enforced,
                                       .missing = plan->missing};
  }
  return 0;
}

static bool is_listed(const char *names, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = names; *at != '\0'; at += strspn(at, ", ")) {
    const size_t size = strcspn(at, ", ");
    if (size == length && memcmp(at, name, length) == 0)
      return true;
    at += size;
  }
  return false;
}

int confinement_check_command(const struct confinement *self, const char *command,
                              struct error *error) {
  const struct confinement_options *options = self->options;
  const char *slash = strrchr(command, '/');
  const char *name = slash != NULL ? slash + 1 : command;
  const bool is_denied =
      (options->allowed_commands != NULL && !is_listed(options->allowed_commands, name)) ||
      (options->denied_commands != NULL && is_listed(options->denied_commands, name));
  return is_denied ? error_set(error, "command not allowed: %s", name) : 0;
}

static bool has_relative(char *const *paths) {
  while (paths != NULL && *paths != NULL && (*paths)[0] == '/')
    paths++;
  return paths != NULL && *paths != NULL;
}

size_t confinement_pack(const struct confinement *self, const struct confinement_plan *plan,
                        bool is_work, const char *directory, bool directory_may_be_missing,
                        struct buffer *body) {
  struct draft draft = {.record = {.directory_may_be_missing = directory_may_be_missing,
                                   .has_agent_rules = self->rules > 0}};
  const enum policy_network network = is_work && plan->network == POLICY_NETWORK_LOOPBACK
                                          ? POLICY_NETWORK_NONE /* work needs no network */
                                          : plan->network;
  if (plan->fence != NULL &&
      (has_relative(plan->fence->write_paths) || has_relative(plan->fence->read_paths)))
    draft.record.directory = add_text(&draft, directory) + 1;
  if (plan->fence != NULL)
    add_rules(&draft, self, plan->fence, self->rules == 0);
  if (plan->has_limits)
    add_limits(&draft, &plan->limits);
  if (plan->has_fence)
    add_filter(&draft, self, network, plan->lets_udp_through);
  return finish(&draft, body);
}
