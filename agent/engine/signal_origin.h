#ifndef AGENT_ENGINE_SIGNAL_ORIGIN_H
#define AGENT_ENGINE_SIGNAL_ORIGIN_H

#include <sys/signalfd.h>

/*
 * Whose a signal is. It is another's when it comes from the kernel (a terminal), from outside the
 * pid namespace, where the sender has no pid, or from a process that does not descend from this
 * one. One whose sender can be invented (sigqueue, F_SETSIG) counts as a step's. Of a sender that
 * is gone when the signal is read nothing is known: it may have been a step's.
 */
enum signal_origin { SIGNAL_OF_STEP, SIGNAL_OF_OTHER, SIGNAL_OF_GONE };
enum signal_origin signal_origin_of(const struct signalfd_siginfo *info);

#endif
