/* Tries to escape from being ended, and sleeps for a minute: `escape WAY FILE`. All its
   processes hold a shared lock of the file; one that sleeps has written a byte there. Built by
   test_escape. */

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { REST_SECONDS = 60, RUN_SECONDS = 30, BOMB_DOUBLINGS = 7, CHAINS = 16 };

static int file;

static void rest(void) {
  (void)!write(file, "x", 1);
  sleep(REST_SECONDS);
  _exit(0);
}

static void *rest_in_thread(void *unused) {
  rest();
  return unused;
}

/* The main thread exits; another thread goes on. */
static void leave_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, rest_in_thread, NULL) == 0)
    (void)syscall(SYS_exit, 0);
}

/* A child of the parent of this process. */
static void make_sibling(void) {
  if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0)
    rest();
}

/* The parent gets no signal when the child exits. */
static void make_silent_child(void) {
  if (syscall(SYS_clone, 0, 0, 0, 0, 0) == 0) {
    setsid();
    rest();
  }
  sleep(REST_SECONDS);
}

/* The process changes its pid all the time. */
static void run_away(void) {
  signal(SIGTERM, SIG_IGN);
  (void)!write(file, "x", 1);
  for (time_t end = time(NULL) + RUN_SECONDS; time(NULL) < end; setsid())
    if (fork() != 0)
      _exit(0);
}

/* Each process of a chain forks and exits at once, so that zombies outnumber live processes. The
   chains stay in one process group; every other one leaves it. */
static void run_chains(void) {
  for (int i = 0; i < CHAINS; i++)
    if (fork() == 0) {
      signal(SIGTERM, SIG_IGN);
      for (time_t end = time(NULL) + RUN_SECONDS; time(NULL) < end;) {
        if (i % 2 == 0)
          setsid();
        if (fork() > 0) /* not if there may be no more processes: then it tries again */
          _exit(0);
      }
      _exit(0);
    }
  rest();
}

static void explode(void) {
  signal(SIGTERM, SIG_IGN);
  for (int i = 0; i < BOMB_DOUBLINGS; i++) {
    (void)fork();
    setsid();
  }
  rest();
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*escape)(void);
  } ways[] = {{"rest", rest},
              {"thread", leave_thread},
              {"sibling", make_sibling},
              {"silent", make_silent_child},
              {"runaway", run_away},
              {"chains", run_chains},
              {"bomb", explode}};
  if (argc != 3 || (file = open(argv[2], O_WRONLY | O_APPEND)) < 0 || flock(file, LOCK_SH) != 0)
    return 2;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (strcmp(argv[1], ways[i].name) == 0)
      ways[i].escape();
  return 0;
}
