#include "client/signals.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

#define NUMBERS (sizeof numbers / sizeof *numbers)

static bool is_ignored(int number) {
  struct sigaction action;
  return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void signals_handle(void (*leave)(int signal)) {
  for (size_t i = 0; i < NUMBERS; i++)
    if (!is_ignored(numbers[i]))
      (void)signal(numbers[i], leave);
}

int signals_catch(sigset_t *before) {
  sigset_t set;
  (void)sigemptyset(&set);
  for (size_t i = 0; i < NUMBERS; i++)
    if (!is_ignored(numbers[i]))
      (void)sigaddset(&set, numbers[i]);
  (void)sigprocmask(SIG_BLOCK, &set, before);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A stopped terminal takes no byte. */
void signals_end_key_line(int signal) {
  struct termios settings;
  struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
  if ((signal == SIGINT || signal == SIGQUIT) && tcgetattr(out.fd, &settings) == 0 &&
      poll(&out, 1, 0) == 1)
    (void)!write(out.fd, "\n", 1);
}
