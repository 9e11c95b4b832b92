#include "tests/support/as_user.h"

#include <grp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/test.h"

struct answer {
  int result;
  struct error error;
};

int as_user(uid_t user, gid_t group, int (*work)(void *context, struct error *error), void *context,
            struct error *error) {
  struct answer *answer =
      mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(answer != MAP_FAILED);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    if (setgroups(0, NULL) != 0 || setresgid(group, group, group) != 0 ||
        setresuid(user, user, user) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
      _exit(1);
    answer->result = work(context, &answer->error);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  int result = answer->result;
  *error = answer->error;
  munmap(answer, sizeof *answer);
  return result;
}
