#ifndef AGENT_CALL_FILTER_H
#define AGENT_CALL_FILTER_H

#include <stdbool.h>

/*
 * A process may set the limits and the scheduling of any other one of its user, and so end or
 * cripple this one: prlimit(2) with a CPU time of 0 kills also process 1 of a container. Refuses
 * that (EPERM) to this process and all that it will start, by a filter of system calls (seccomp):
 * prlimit, sched_setscheduler, sched_setparam, sched_setattr, sched_setaffinity, setpriority and
 * ioprio_set that name this process, its group or all of the user. They cost a step nothing: the
 * filter is inherited.
 *
 * Refuses also what signals.h could not tell from an order of the runtime: where the pending signals
 * of a user are at their limit the kernel forgets who sent one by tkill, tgkill or
 * rt_sigqueueinfo, to this process, or by pidfd_send_signal with a siginfo or to a thread, to any.
 * kill(2) is never forgotten.
 *
 * Only where no_new_privs is set already, as in a restricted pod; to set it would change what
 * programs like sudo do. False: there is none. What it cannot tell: a process in a pid namespace of
 * a step's own that has this one's number there is refused the same calls on itself.
 */
bool call_filter_install(void);

#endif
