#include "tests/support/container.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include "tests/support/proc.h"
#include "tests/test.h"

int container_begin(void) {
  int outer = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
  assert_true(outer >= 0);
  assert_int_equal(unshare(CLONE_NEWPID), 0);
  return outer;
}

void container_end(int outer) {
  assert_int_equal(setns(outer, CLONE_NEWPID), 0);
  close(outer);
}

static pid_t child_of_init;

static void pass_on(int signal) {
  (void)kill(child_of_init, signal);
}

/* Exits like its child, and so ends all other processes of the namespace. */
__attribute__((noreturn)) static void be_init(pid_t child) {
  int status;
  child_of_init = child;
  (void)signal(SIGTERM, pass_on);
  for (pid_t pid; (pid = waitpid(-1, &status, 0)) != child;)
    if (pid < 0 && errno != EINTR)
      _exit(1);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

bool container_enter(const struct container *self) {
  if (setsid() < 0 || unshare(CLONE_NEWNS) != 0 ||
      mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    return false;
  if (!self->outer_proc && mount("proc", "/proc", "proc", 0, NULL) != 0)
    return false;
  pid_t child = self->init ? fork() : 0;
  if (child > 0)
    be_init(child);
  return child == 0;
}

bool container_restrict(void) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
    if (prctl(PR_CAPBSET_DROP, capability) != 0)
      return false;
  return setgroups(0, NULL) == 0 &&
         setresgid(CONTAINER_USER, CONTAINER_USER, CONTAINER_USER) == 0 &&
         setresuid(CONTAINER_USER, CONTAINER_USER, CONTAINER_USER) == 0 &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

pid_t container_child(pid_t first) {
  char name[64];
  snprintf(name, sizeof name, "task/%d/children", (int)first);
  char *children = proc_read(first, name, NULL);
  pid_t child = children == NULL ? 0 : (pid_t)strtol(children, NULL, 10);
  free(children);
  return child;
}
