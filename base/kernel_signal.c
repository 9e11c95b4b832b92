#include "base/kernel_signal.h"

#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's own struct, of rt_sigaction(2). */
struct kernel_sigaction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)(void);
  unsigned long mask[2];
};

#define MASK_SIZE 8
static_assert(MASK_SIZE * 8 >= KERNEL_SIGNALS, "a bit for each signal");

bool kernel_signal_is_ignored(int signal) {
  struct kernel_sigaction action = {0};
  return syscall(SYS_rt_sigaction, signal, NULL, &action, MASK_SIZE) == 0 &&
         action.handler == SIG_IGN;
}

void kernel_signal_set_action(int signal, void (*action)(int)) {
  const struct kernel_sigaction new_action = {.handler = action};
  (void)syscall(SYS_rt_sigaction, signal, &new_action, NULL, MASK_SIZE);
}
