#include "base/signal_name.h"

#include <signal.h>
#include <stddef.h>

const char *signal_name(int signal) {
  static const char *const names[] = {
      [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",   [SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",
      [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT", [SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",
      [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1", [SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2",
      [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM", [SIGXCPU] = "SIGXCPU",
      [SIGXFSZ] = "SIGXFSZ", [SIGSYS] = "SIGSYS"};
  const char *name =
      signal > 0 && (size_t)signal < sizeof names / sizeof *names ? names[signal] : NULL;
  return name != NULL ? name : "another signal";
}
