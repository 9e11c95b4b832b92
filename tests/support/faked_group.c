#include "tests/support/faked_group.h"

#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include "tests/test.h"

static const char *version_2_root(void) {
  static const char beside[] = "/sys/fs/cgroup/unified";
  struct statfs system;
  return statfs(beside, &system) == 0 && system.f_type == CGROUP2_SUPER_MAGIC ? beside
                                                                              : "/sys/fs/cgroup";
}

int faked_group_set_up(void **state) {
  struct faked_group *self = calloc(1, sizeof *self);
  assert_non_null(self);
  void *job;
  (void)job_setup_server(&job);
  self->job = job;
  (void)snprintf(self->path, sizeof self->path, "%s/test-%d", version_2_root(), (int)getpid());
  if (mkdir(self->path, 0755) != 0)
    fail_msg("%s: %s", self->path, strerror(errno));
  *state = self;
  return 0;
}

static bool is_removed(void *path) {
  return rmdir(path) == 0;
}

int faked_group_tear_down(void **state) {
  struct faked_group *self = *state;
  void *job = self->job;
  (void)job_teardown(&job);
  assert_true(wait_until(is_removed, self->path, WAIT_BOUND_MS));
  free(self);
  return 0;
}

static bool write_file(const char *root, const char *group, const char *name, size_t name_length,
                       const char *text) {
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "%s%s/%.*s", root, group, (int)name_length, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    return false;
  const bool is_written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  close(fd);
  return is_written;
}

static void write_entry(const char *group, const char *entry) {
  const char *equals = strchr(entry, '=');
  if (!write_file("", group, entry, (size_t)(equals - entry), equals + 1))
    _exit(AGENT_PROCESS_NO_START);
}

/* The agent is in the group, but sees other files in it. */
static void enter(const void *context) {
  const struct faked_group *self = context;
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    _exit(AGENT_PROCESS_NO_START);
  write_entry(self->path, "cgroup.procs=0");
  if (mount("none", self->path, "tmpfs", 0, NULL) != 0)
    _exit(AGENT_PROCESS_NO_START);
  write_entry(self->path, "memory.max=104857600\n");
  write_entry(self->path, "memory.events=oom_kill 0\n");
  write_entry(self->path, "memory.stat=active_anon 10000000\n");
  for (const char *const *file = self->files; *file != NULL; file++)
    write_entry(self->path, *file);
}

struct job *faked_group_start(struct faked_group *self, ...) {
  va_list files;
  va_start(files, self);
  for (size_t i = 0; (self->files[i] = va_arg(files, const char *)) != NULL;)
    assert_true(++i <= FAKED_FILES_MAX);
  va_end(files);
  self->job->setup.prepare = enter;
  self->job->setup.prepare_context = self;
  job_start_agent(self->job, NULL);
  return self->job;
}

void faked_group_write(const struct faked_group *self, const char *name, const char *format, ...) {
  char root[64], text[128];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  (void)snprintf(root, sizeof root, "/proc/%d/root", (int)agent_process_pid(self->job->agent));
  if (!write_file(root, self->path, name, strlen(name), text))
    job_fail(self->job, "%s: %s", name, strerror(errno));
}
