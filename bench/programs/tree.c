/* tree SHAPE FIFO: processes that each open the FIFO, write one byte, and exit after a minute. */

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 60, SIX = 5, DOUBLINGS = 7 };

static void report(int fifo) {
  (void)!write(fifo, "x", 1);
}

static void rest(int fifo) {
  report(fifo);
  sleep(SECONDS);
  _exit(0);
}

/* Each process is soon replaced by its child. */
static void be_restless(int fifo) {
  report(fifo);
  for (time_t end = time(NULL) + SECONDS; time(NULL) < end; setsid())
    if (fork() != 0)
      _exit(0);
}

int main(int argc, char **argv) {
  int fifo = argc == 3 ? open(argv[2], O_WRONLY) : -1;
  if (fifo < 0)
    return 2;
  if (strcmp(argv[1], "restless") == 0)
    be_restless(fifo);
  for (int i = 0; strcmp(argv[1], "bomb") == 0 && i < DOUBLINGS; i++) {
    (void)fork();
    setsid();
  }
  for (int i = 0; strcmp(argv[1], "six") == 0 && i < SIX; i++)
    if (fork() == 0)
      rest(fifo);
  rest(fifo);
}
