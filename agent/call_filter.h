#pragma once

#include <stdbool.h>

/*
 * Installs a filter of system calls (seccomp) that keeps steps from crippling the agent. startup.h
 * calls it. A process may set the limits and the scheduling of any other process of its user:
 * prlimit(2) with a CPU time of 0 even kills process 1 of a container. The filter rejects this
 * (EPERM) to this process and to everything that it starts: prlimit, sched_setscheduler,
 * sched_setparam, sched_setattr, sched_setaffinity, setpriority and ioprio_set that name this
 * process, its group or all of the user.
 *
 * It also rejects signals whose sender the kernel may forget, because signals.c would take them for
 * an order of the container runtime. If a user has as many pending signals as allowed, this happens
 * to tkill, tgkill and rt_sigqueueinfo, which are rejected towards this process, and to
 * pidfd_send_signal with a siginfo or to a thread, which is rejected towards any process. The
 * kernel never forgets the sender of kill(2).
 *
 * The filter works only if no_new_privs is already set, as in a restricted pod; setting it would
 * change how programs like sudo behave. It rejects one case too many: a process that has this
 * process's number in a nested pid namespace may not do these things to itself. A step pays nothing
 * for it, because the filter is inherited. Returns false if there is no filter.
 */
bool call_filter_install(void);
