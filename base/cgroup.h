#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of nested groups: those that are looked at. */
#define CGROUP_DEPTH_MAX 32

/*
 * What the control groups of this process say of memory and processor time, in version 1 or 2. In a
 * container they are the container's; a process in a nested group sees that one. Figures are bytes,
 * microseconds or numbers; -1 is one that cannot be known.
 *
 * The files are the kernel's (cgroups(7), admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst): to read
 * them waits for nobody. Descriptors are close-on-exec.
 */
struct cgroup {
  int version; /* of the group that counts memory; 0: there is none */
  /* Files; -1: there is none. */
  int events, stat, usage, peak;
  int kills_group;
  int cpu;
  bool cpu_is_stat;             /* which is one of version 2 */
  int limits[CGROUP_DEPTH_MAX]; /* of the own group, and of each above it */
  size_t limit_count;
};

/* Before cgroup_open, and after cgroup_close. */
#define CGROUP_NONE ((struct cgroup){0, -1, -1, -1, -1, -1, -1, false, {0}, 0})

/* Finds them by /proc/self/cgroup and /proc/self/mountinfo below `root`, "" for this system. */
void cgroup_open(struct cgroup *self, const char *root);
void cgroup_close(struct cgroup *self);

/* This process's own groups, opened by the first call and kept until the process ends. */
const struct cgroup *cgroup_own(void);

/* The lowest of the own group and those above it that can be seen. */
int64_t cgroup_memory_limit(const struct cgroup *self);

int64_t cgroup_memory(const struct cgroup *self);
int64_t cgroup_memory_peak(const struct cgroup *self); /* since the group is there */

/* What the kernel cannot give back under pressure, which is what an out-of-memory kill is about:
   files in memory count in cgroup_memory, and are given back. */
int64_t cgroup_memory_unreclaimable(const struct cgroup *self);

/* The part of it that is files in memory and shared memory: no process need have it. */
int64_t cgroup_memory_shmem(const struct cgroup *self);

/* Processes of the group that the kernel has killed, out of memory. */
int64_t cgroup_oom_kills(const struct cgroup *self);

/* Whether such a kill takes all processes of the group (memory.oom.group, version 2). */
bool cgroup_oom_kills_group(const struct cgroup *self);

int64_t cgroup_cpu_us(const struct cgroup *self);

#endif
