/* A command that asks to be traced by its parent, as programs do to detect debuggers: `traced
   MODE`. The parent is its supervisor. Exits with 40 if the mode succeeded. Built by
   test_traced. */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DONE = 40, REFUSED = 2, WRONG = 3, ROUNDS = 300, PAUSE_US = 100000 };

static void ask(void) {
  if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) {
    perror("ptrace");
    exit(REFUSED);
  }
}

static volatile sig_atomic_t seen;

static void see(int number) {
  seen = number;
}

static int expect_seen(int number) {
  return seen == number ? DONE : WRONG;
}

/* Another process stops the target, and later lets it go on. */
static void be_stopped_by_another(pid_t target) {
  pid_t pid = getpid();
  if (fork() == 0) {
    usleep(PAUSE_US);
    kill(target, SIGSTOP);
    usleep(PAUSE_US);
    kill(pid, SIGCONT);
    _exit(0);
  }
}

static int child(void) {
  ask();
  if (fork() == 0)
    _exit(7);
  int status = 0;
  (void)wait(&status);
  return WEXITSTATUS(status) == 7 ? DONE : WRONG;
}

static int execute(void) {
  ask();
  execl("/bin/sh", "sh", "-c", "exit 40", (char *)NULL);
  return WRONG;
}

static int execute_again(void) {
  ask();
  execl("/bin/sh", "sh", "-c", "exec sh -c 'exit 40'", (char *)NULL);
  return WRONG;
}

static int stop(void) {
  ask();
  raise(SIGSTOP);
  return DONE;
}

static int ignored(void) {
  signal(SIGUSR1, SIG_IGN);
  ask();
  raise(SIGUSR1);
  return DONE;
}

static int group_stop(void) {
  be_stopped_by_another(getpid());
  ask();
  usleep(4 * PAUSE_US);
  usleep(4 * PAUSE_US); /* the first one was interrupted */
  return DONE;
}

static int group(void) {
  ask();
  kill(0, SIGTSTP); /* an orphaned process group does not stop */
  return DONE;
}

static int handled(void) {
  signal(SIGUSR1, see);
  ask();
  raise(SIGUSR1);
  return expect_seen(SIGUSR1);
}

static int trap(void) {
  signal(SIGTRAP, see);
  ask();
  kill(getpid(), SIGTRAP);
  return expect_seen(SIGTRAP);
}

static int breakpoint(void) {
  signal(SIGTRAP, see);
  ask();
#if defined(__x86_64__)
  __asm__ volatile("int3");
#else
  raise(SIGTRAP);
#endif
  return expect_seen(SIGTRAP);
}

static int killed(void) {
  ask();
  raise(SIGTERM);
  return WRONG;
}

static int crashed(void) {
  ask();
  abort();
}

static void *stop_in_thread(void *context) {
  ask();
  raise(SIGSTOP);
  raise(SIGUSR1);
  return context;
}

static void *end_in_thread(void *context) {
  ask();
  return context;
}

static void *sleep_in_thread(void *context) {
  ask();
  usleep(6 * PAUSE_US);
  return context;
}

static int with_thread(void *(*body)(void *context)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, NULL) != 0)
    return WRONG;
  pthread_join(thread, NULL);
  return DONE;
}

static int thread(void) {
  signal(SIGUSR1, see);
  return with_thread(stop_in_thread) == DONE ? expect_seen(SIGUSR1) : WRONG;
}

static int thread_end(void) {
  return with_thread(end_in_thread);
}

static int thread_group_stop(void) {
  be_stopped_by_another(getpid());
  return with_thread(sleep_in_thread);
}

/* Its parent has exited, so that the supervisor is the tracer. */
static int orphan(void) {
  int ends[2];
  char byte = 0;
  if (pipe(ends) != 0)
    return WRONG;
  if (fork() == 0) {
    pid_t parent = getpid();
    if (fork() == 0) {
      while (getppid() == parent)
        usleep(1000);
      ask();
      raise(SIGSTOP);
      _exit(write(ends[1], "x", 1) != 1);
    }
    _exit(0);
  }
  close(ends[1]);
  return read(ends[0], &byte, 1) == 1 && byte == 'x' ? DONE : WRONG;
}

/* The child is traced from its start. */
static int traced_child(void) {
  ask();
  pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PTRACE | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0)
    _exit(7);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  return WEXITSTATUS(status) == 7 ? DONE : WRONG;
}

static int again(void) {
  for (int i = 0; i < ROUNDS; i++) {
    ask();
    raise(SIGSTOP);
  }
  return DONE;
}

/* Leaves processes that ask again and again, without an end. */
static int restless(void) {
  for (int i = 0; i < 20; i++) {
    pid_t parent = getpid();
    if (fork() != 0)
      continue;
    setsid();
    for (int fd = 0; fd <= 2; fd++)
      close(fd);
    while (getppid() == parent)
      usleep(1000);
    for (;;)
      if (ptrace(PTRACE_TRACEME, 0, 0, 0) == 0)
        raise(SIGSTOP);
  }
  return DONE;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(void);
  } modes[] = {{"child", child},
               {"exec", execute},
               {"exec-exec", execute_again},
               {"stop", stop},
               {"ignored", ignored},
               {"group-stop", group_stop},
               {"group", group},
               {"handled", handled},
               {"trap", trap},
               {"breakpoint", breakpoint},
               {"killed", killed},
               {"crashed", crashed},
               {"thread", thread},
               {"thread-end", thread_end},
               {"thread-group-stop", thread_group_stop},
               {"orphan", orphan},
               {"traced-child", traced_child},
               {"again", again},
               {"restless", restless}};
  for (size_t i = 0; argc == 2 && i < sizeof modes / sizeof *modes; i++)
    if (strcmp(argv[1], modes[i].name) == 0)
      return modes[i].run();
  return REFUSED;
}
