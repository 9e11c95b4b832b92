/* Runs away from whoever would end it: forks, goes on in the child in a session of its own, deaf to
   SIGTERM and without an environment, and leaves a byte in a file at each step. Ends by itself
   after 30 s. Built by test_deadline. */

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int trace = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
  signal(SIGTERM, SIG_IGN);
  for (time_t end = time(NULL) + 30; trace >= 0 && time(NULL) < end;) {
    pid_t pid = fork();
    if (pid != 0)
      _exit(pid < 0);
    setsid();
    if (write(trace, "x", 1) != 1)
      break;
  }
  return 0;
}
