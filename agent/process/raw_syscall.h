#ifndef AGENT_PROCESS_RAW_SYSCALL_H
#define AGENT_PROCESS_RAW_SYSCALL_H

#include <assert.h>
#include <sys/syscall.h>

static_assert(sizeof(long) == sizeof(void *), "a pointer fits into an argument");

/*
 * Makes a system call without the C library. Returns the kernel's answer, -errno for an error;
 * errno itself stays as it is, because the caller runs on the memory of a thread that goes on and
 * uses it. Pointers are passed as (long).
 */
__attribute__((no_sanitize("address"))) static inline long raw_syscall(long number, long a, long b,
                                                                       long c, long d) {
#if defined(__x86_64__)
  long result = number;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
#else
/* cppcheck-suppress preprocessorErrorDirective */
#error "a system call of this machine has yet to be written"
#endif
}

#endif
