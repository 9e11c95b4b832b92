/*
 * The only file of an image that has neither a shell nor a libc. It replaces the shell of the other
 * images in smoke/docker.
 *
 *   program hello | where | orphans | kill | deaf
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ORPHANS = 200, ORPHAN_SECONDS = 300 };

static int say_where(void) {
  char directory[4096];
  if (getcwd(directory, sizeof directory) == NULL)
    return EXIT_FAILURE;
  printf("%d %s\n", (int)getuid(), directory);
  return EXIT_SUCCESS;
}

/* They close the step's pipes, so that the step is over at once. */
static int leave_orphans(void) {
  for (int i = 0; i < ORPHANS; i++) {
    pid_t child = fork();
    if (child < 0)
      return EXIT_FAILURE;
    if (child > 0)
      continue;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
      close(fd);
    sleep(ORPHAN_SECONDS);
    _exit(EXIT_SUCCESS);
  }
  return EXIT_SUCCESS;
}

/* All processes that it may kill, but itself and process 1. */
static int kill_all(void) {
  return kill(-1, SIGKILL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static _Noreturn void stay_deaf(void) {
  signal(SIGTERM, SIG_IGN);
  puts("deaf");
  fflush(stdout);
  for (;;)
    pause();
}

int main(int argc, char **argv) {
  const char *what = argc == 2 ? argv[1] : "";
  if (strcmp(what, "hello") == 0)
    return puts("hello") < 0;
  if (strcmp(what, "where") == 0)
    return say_where();
  if (strcmp(what, "orphans") == 0)
    return leave_orphans();
  if (strcmp(what, "kill") == 0)
    return kill_all();
  if (strcmp(what, "deaf") == 0)
    stay_deaf();
  return EXIT_FAILURE;
}
