#pragma once

#include <stdbool.h>

/*
 * Makes the sockets of a step whose network is the loopback interface. A network namespace of its
 * own would need privileges. Instead, the step's system call filter (filter.h) passes each
 * socket(2) of TCP over IPv4 on to the supervisor of the step. It makes the socket, binds it to
 * the loopback interface while nobody else has it, and installs it in the process that asked. The
 * kernel does not let a process without CAP_NET_RAW undo the binding, and the filter does not let
 * the others. What such a socket accepts is bound, too.
 *
 * Everything is decided by the values of registers, which the kernel copied. The memory of the step
 * is never read, so the step has nothing to change in between.
 *
 * The child that becomes the step installs the filter with SECCOMP_FILTER_FLAG_NEW_LISTENER while
 * it shares the descriptors of its supervisor, so the supervisor has the listener, too. The
 * supervisor calls loopback_answer whenever poll(2) reports anything for it. If the supervisor
 * ends, the kernel answers with ENOSYS.
 */

/* Returns NULL if this process can have such steps, else what is missing, for a person: the filter,
   handing a socket over (Linux 5.14), a listener of its own, or ending the sharing. Below another
   filter, a process that ends at once tries the listener. */
const char *loopback_lacks(void);

/* The most requests that one call answers. The others wait for the next call. */
#define LOOPBACK_ANSWERS_MAX 16

/* Answers requests that wait at the listener, with UDP sockets if `lets_udp_through`. If a socket
   cannot be made, the process that asked gets the error. All signals must be blocked: the kernel
   would answer a request with descriptor 0 if one interrupted the answer. Never waits for a
   request. Returns false if no process with the filter is left: the caller closes the listener. */
bool loopback_answer(int listener, bool lets_udp_through);
