#pragma once

#include <stdbool.h>

/* Signal actions by system call, because the C library hides the signals that it uses for threads:
   33 and 34 in musl, 32 and 33 in glibc. Its sigaction(2) rejects them, and musl unblocks them when
   it creates a thread. Any process of the same user may send them, and they kill unless they are
   ignored. */
#define KERNEL_SIGNALS 64
#define KERNEL_SIGNAL_THREADS_FIRST 32
#define KERNEL_SIGNAL_THREADS_LAST 34

bool kernel_signal_is_ignored(int signal);

/* `action` is SIG_DFL or SIG_IGN. */
void kernel_signal_set_action(int signal, void (*action)(int));
