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
 * Refuses signals whose sender the kernel may forget, too, since signal_origin.h could not tell
 * them from an order of the runtime: where the pending signals of a user are at their limit that
 * happens to tkill, tgkill and rt_sigqueueinfo, which are refused towards this process, and to
 * pidfd_send_signal with a siginfo or to a thread, which is refused towards any. The sender of
 * kill(2) is never forgotten.
 *
 * Works only where no_new_privs is set already, as in a restricted pod; to set it would change what
 * programs like sudo do. Returns false where there is no filter. It refuses one case too many: a
 * process that has this one's number in a pid namespace of a step's own may not do the same to
 * itself.
 */
bool call_filter_install(void);

#endif
