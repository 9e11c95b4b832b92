#pragma once

/*
 * A system call that does not touch errno. A child that shares the memory of its parent makes it:
 * errno belongs to both, and the parent's next system call may fail before the child has read it.
 */

/* Returns the result, or the errno as a negative number. Arguments are numbers or addresses. */
static inline long raw_call(long number, long first, long second, long third, long fourth,
                            long fifth) {
#if defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = first;
  register long x1 __asm__("x1") = second, x2 __asm__("x2") = third, x3 __asm__("x3") = fourth,
                   x4 __asm__("x4") = fifth;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
#else /* x86-64, which the constraints require */
  long result;
  register long r10 __asm__("r10") = fourth, r8 __asm__("r8") = fifth;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
#endif
}
